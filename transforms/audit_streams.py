"""Looks up the documents of each packed row of mlm, one after another, where provenance says they are."""

from __future__ import annotations

from numba import njit

from transforms.audit_beginnings import first_and_last, list_beginnings, matches
from transforms.audit_pairs import note_part
from transforms.audit_rules import Rule

__all__ = ["find_streams"]


@njit(cache=True, nogil=True)
def _check_parts(  # type: ignore[no-untyped-def]
    begin, stop, documents, first, end, sentence_offsets, first_sentence, end_sentence, alike
):
    """The parts of a row by themselves: all but the last reach to the end of their document, all but the
    first start at its beginning.

    Returns the flags, whether it is not known which copies the row is of, and the tokens of the documents
    that are in it from end to end.
    """
    flag = 0
    unclear = False
    between = 0
    for p in range(begin, stop):
        d = documents[p]
        if d < 0:
            flag |= 1 << Rule.UNKNOWN_DOCUMENT
            continue
        sentences = end_sentence[d] - first_sentence[d]
        if first[p] >= end[p] or (end[p] > sentences and alike[d]):
            flag |= 1 << Rule.SENTENCE_SPAN
            continue
        if (p > begin and first[p] != 0) or (p < stop - 1 and end[p] != sentences and alike[d]):
            flag |= 1 << Rule.TEXT
        unclear |= stop - begin > 1 and not alike[d]
        if begin < p < stop - 1:
            between += sentence_offsets[end_sentence[d]] - sentence_offsets[first_sentence[d]]
    return flag, unclear, between


@njit(cache=True, nogil=True)
def _note_unclear(  # type: ignore[no-untyped-def]
    begin, stop, documents, size, dupe_pass, sentence_offsets, first_sentence, end_sentence,
    most, tokens, used,
):  # fmt: skip
    """Of a row that may be of several copies: it may hold anything of them."""
    for p in range(begin, stop):
        d = documents[p]
        most[sentence_offsets[first_sentence[d]]] += 1
        most[sentence_offsets[end_sentence[d]]] -= 1
        tokens[1, dupe_pass, d] += size
        used[d] = True


@njit(cache=True, nogil=True)
def _locate(  # type: ignore[no-untyped-def]
    text, start, size, gap, between, begin, stop, documents, first, end, ids, sentence_offsets,
    first_sentence, end_sentence, end_copy, beginnings,
):  # fmt: skip
    """Where the first part of a row begins in ``ids``, at the earliest and at the latest.

    Returns also the tokens of its last part in the latter case, and the copy that the first part is of.
    """
    d = documents[begin]
    for copy in range(d, end_copy[d]):
        base = first_sentence[copy]
        if end[begin] > end_sentence[copy] - base:
            continue
        sentence = sentence_offsets[base + first[begin]]
        sentence_end = sentence_offsets[base + first[begin] + 1]
        low, high = sentence, sentence_end
        if stop - begin == 1:
            last = base + end[begin] - 1
            # It ends in its last sentence.
            low = max(low, sentence_offsets[last] + 1 - size)
            high = min(high, sentence_offsets[last + 1] + 1 - size)
            early, late = first_and_last(
                text, start, size, ids, low, high, sentence, sentence_end, beginnings
            )
            if early >= 0:
                return early, late, size, copy
            continue
        early, late, last_size = -1, -1, 0
        # What begins earlier is longer than the row.
        for at in range(max(low, sentence_offsets[end_sentence[copy]] - size), high):
            fits, rest = _fits_from(
                at, text, start, size, gap, between, begin, stop, copy, documents, end, ids,
                sentence_offsets, first_sentence, end_sentence,
            )  # fmt: skip
            if fits:
                early = at if early < 0 else early
                late = at
                last_size = rest
        if early >= 0:
            return early, late, last_size, copy
    return -1, -1, 0, d


@njit(cache=True, nogil=True)
def _note_row(  # type: ignore[no-untyped-def]
    early, late, last_size, copy, place, size, gap, begin, stop, dupe_pass, documents,
    sentence_offsets, first_sentence, end_sentence, least, most, tokens, used, continues, marks,
):  # fmt: skip
    """Notes what a row covers of its documents, and where it goes on with a word, from ``place`` on."""
    for p in range(begin, stop):
        d = documents[p] if p > begin else copy
        low = sentence_offsets[first_sentence[d]]
        high = sentence_offsets[end_sentence[d]]
        if stop - begin == 1:
            length = longest = size
            note_part(least, most, early, late, size)
        elif p == begin:
            length, longest = high - late, high - early
            note_part(least, most, late, late, length)
            most[early] += 1
            most[late] -= 1
        elif p < stop - 1:
            length = longest = high - low
            note_part(least, most, low, low, length)
        else:  # the earlier the first part begins, the shorter this one is
            length, longest = last_size - (late - early), last_size
            note_part(least, most, low, low, length)
            most[low + length] += 1
            most[low + longest] -= 1
        if early == late and len(continues):
            for k in range(1, length):
                marks[place + k] = continues[(early if p == begin else low) + k]
        place += length + gap
        tokens[0, dupe_pass, documents[p]] += length
        tokens[1, dupe_pass, documents[p]] += longest
        used[documents[p]] = True


@njit(cache=True, nogil=True)
def find_streams(  # type: ignore[no-untyped-def]
    text, offsets, unused_separators, unused_labels, passes, part_offsets, documents, first, end,
    ids, sentence_offsets, first_sentence, end_sentence, end_copy, alike, s, flags,
    least, most, tokens, used, continues, marks, known,
):  # fmt: skip
    """Looks up the documents of each row of mlm; see ``find_rows``."""
    beginnings = list_beginnings(ids, sentence_offsets)
    for r in range(len(offsets) - 1):
        begin, stop = part_offsets[r], part_offsets[r + 1]
        if begin == stop:
            flags[r] |= 1 << Rule.SENTENCE_SPAN
        if flags[r] & (1 << Rule.STRUCTURE | 1 << Rule.SENTENCE_SPAN):
            continue
        gap = 1 if s.inner_sep else 0
        size = offsets[r + 1] - offsets[r] - 2 - gap * (stop - begin - 1)
        flag, unclear, between = _check_parts(
            begin,
            stop,
            documents,
            first,
            end,
            sentence_offsets,
            first_sentence,
            end_sentence,
            alike,
        )
        flags[r] |= flag
        if flag:
            continue
        if unclear:
            _note_unclear(
                begin, stop, documents, size, passes[r], sentence_offsets, first_sentence,
                end_sentence, most, tokens, used,
            )  # fmt: skip
            continue
        early, late, last_size, copy = _locate(
            text, offsets[r] + 1, size, gap, between, begin, stop, documents, first, end, ids,
            sentence_offsets, first_sentence, end_sentence, end_copy, beginnings,
        )  # fmt: skip
        if early < 0:
            flags[r] |= 1 << Rule.TEXT
            continue
        known[r] = early == late and len(continues) > 0
        _note_row(
            early, late, last_size, copy, offsets[r] + 1, size, gap, begin, stop, passes[r], documents,
            sentence_offsets, first_sentence, end_sentence, least, most, tokens, used, continues, marks,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _fits_from(  # type: ignore[no-untyped-def]
    at,
    text,
    start,
    size,
    gap,
    between,
    begin,
    stop,
    first_document,
    documents,
    end,
    ids,
    sentence_offsets,
    first_sentence,
    end_sentence,
):
    """Whether the row is the tokens of its documents, two or more, if its first part begins at ``at``.

    Returns also the tokens of its last part.
    """
    first_size = sentence_offsets[end_sentence[first_document]] - at
    last_size = size - between - first_size
    last = documents[stop - 1]
    base = first_sentence[last]
    low = sentence_offsets[base + end[stop - 1] - 1] - sentence_offsets[base]
    high = sentence_offsets[base + end[stop - 1]] - sentence_offsets[base]
    if not low < last_size <= high or not matches(text, start, ids, at, first_size):
        return False, 0
    place = start + first_size + gap
    for p in range(begin + 1, stop):
        d = documents[p]
        whole = sentence_offsets[end_sentence[d]] - sentence_offsets[first_sentence[d]]
        length = last_size if p == stop - 1 else whole
        if not matches(text, place, ids, sentence_offsets[first_sentence[d]], length):
            return False, 0
        place += length + gap
    return True, last_size
