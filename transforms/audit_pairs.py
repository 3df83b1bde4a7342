"""Looks up both segments of each pair in the documents that provenance names."""

from __future__ import annotations

import numpy as np
from numba import njit

from transforms.audit_rules import Rule

__all__ = ["find_pairs", "note_part"]


@njit(cache=True, nogil=True)
def _search(text, start, size, ids, low, high):  # type: ignore[no-untyped-def]
    """First and last place in ``ids[low:high]`` of ``text[start:start + size]``; -1 if there is none."""
    earliest, latest = -1, -1
    for at in range(low, high - size + 1):
        k = 0
        while k < size and ids[at + k] == text[start + k]:
            k += 1
        if k == size:
            latest = at
            if earliest < 0:
                earliest = at
    return earliest, latest


@njit(cache=True, nogil=True)
def note_part(least, most, earliest, latest, size):  # type: ignore[no-untyped-def]
    """Notes a part of ``size`` tokens that fits anywhere from ``earliest`` to ``latest``."""
    most[earliest] += 1
    most[latest + size] -= 1
    if latest < earliest + size:
        least[latest] += 1
        least[earliest + size] -= 1


@njit(cache=True, nogil=True)
def _locate(  # type: ignore[no-untyped-def]
    side, place, text, start, size, copy, first, end, ids, sentence_offsets, first_sentence, end_sentence
):  # fmt: skip
    """Looks for a segment in the sentences ``first`` to ``end`` of one copy of a document.

    Notes in ``place[:, side]`` its first and its last place, -1 if there is none, the tokens of these
    sentences, and whether there are so many sentences.
    """
    place[0, side], place[1, side], place[2, side], place[3, side] = -1, -1, 0, 0
    base = first_sentence[copy]
    if end > end_sentence[copy] - base:
        return
    low, high = sentence_offsets[base + first], sentence_offsets[base + end]
    early, late = _search(text, start, size, ids, low, high)
    place[0, side], place[1, side], place[2, side], place[3, side] = early, late, high - low, 1


@njit(cache=True, nogil=True)
def _is_cut_rightly(a_size, a_whole, b_size, b_whole, full):  # type: ignore[no-untyped-def]
    """Tokens are cut off one by one, from the longer segment, of equal ones from B, until a row is full."""
    a_cut, b_cut = a_size < a_whole, b_size < b_whole
    if not full:
        return not (a_cut or b_cut)
    return not ((a_cut and a_size < b_size) or (b_cut and b_size < a_size - 1))


@njit(cache=True, nogil=True)
def _judge(place, size, one_sentence, label, full):  # type: ignore[no-untyped-def]
    """Flags of a row of which both segments are where ``place`` says."""
    whole = place[2]
    if one_sentence:  # in two parts
        flag = 0
        front = 0 if label == 0 else 1
        if place[0, front] + size[front] > place[1, 1 - front]:
            flag |= 1 << Rule.SENTENCE_ORDER
        if size[0] + size[1] < whole[0] and not full:
            flag |= 1 << Rule.TRUNCATION
        return flag
    right = _is_cut_rightly(size[0], whole[0], size[1], whole[1], full)
    return 0 if right else 1 << Rule.TRUNCATION


@njit(cache=True, nogil=True)
def _explain(  # type: ignore[no-untyped-def]
    place, tried, text, start, size, documents, a, together, one_sentence, label, full, first, end, ids,
    sentence_offsets, first_sentence, end_sentence, end_copy, alike,
):  # fmt: skip
    """Looks for copies of the documents of A (part ``a``) and B (``a + 1``) that explain the row wholly.

    Else for the copies that explain the most of it. A chunk of one document is of one copy. Fills
    ``place`` as ``_locate``; gives the flags of a row of which both segments were found, else 0.
    """
    lows = (max(0, documents[a]), max(0, documents[a + 1]))
    ends = [0, 0]
    for side in range(2):
        d = documents[a + side]
        ends[side] = lows[side] + 1 if d < 0 or alike[d] else end_copy[d]
    bound = together and documents[a] == documents[a + 1]
    best, flag = -1, 0
    for i in range(lows[0], ends[0]):
        for side in range(2):
            tried[0, side], tried[1, side] = -1, -1
            tried[2, side], tried[3, side] = 0, 0
        if documents[a] >= 0:
            _locate(
                0, tried, text, start[0], size[0], i, first[a], end[a], ids, sentence_offsets,
                first_sentence, end_sentence,
            )  # fmt: skip
        for j in range(i if bound else lows[1], i + 1 if bound else ends[1]):
            if documents[a + 1] >= 0:
                _locate(
                    1, tried, text, start[1], size[1], j, first[a + 1], end[a + 1], ids,
                    sentence_offsets, first_sentence, end_sentence,
                )  # fmt: skip
            now = 0
            rank = tried[3, 0] + tried[3, 1] + 4 * ((tried[0, 0] >= 0) + (tried[0, 1] >= 0))
            if rank == 10:
                now = _judge(tried, size, one_sentence, label, full)
                rank += now == 0
            if rank > best:
                best, flag = rank, now
                place[:] = tried
            if best == 11:
                return flag
    return flag


@njit(cache=True, nogil=True)
def find_pairs(  # type: ignore[no-untyped-def]
    text, offsets, separators, labels, passes, unused_part_offsets, documents, first, end,
    ids, sentence_offsets, first_sentence, end_sentence, end_copy, alike, s, flags,
    least, most, chunks, used, continues, marks, known,
):  # fmt: skip
    """Looks up A and B of each row; see ``find_rows``."""
    broken = 1 << Rule.STRUCTURE | 1 << Rule.SENTENCE_SPAN
    start = np.zeros(2, np.int64)
    size = np.zeros(2, np.int64)
    place = np.zeros((4, 2), np.int64)
    tried = np.zeros((4, 2), np.int64)
    for r in range(len(separators)):
        if flags[r] & broken:
            continue
        start[0], start[1] = offsets[r] + 1, offsets[r] + separators[r] + 1
        size[0], size[1] = start[1] - 1 - start[0], offsets[r + 1] - 1 - start[1]
        full = offsets[r + 1] - offsets[r] >= s.max_seq_length
        a, b = 2 * r, 2 * r + 1
        together = s.sop or labels[r] == 0
        one_sentence = (
            s.sop and documents[a] == documents[b] and first[a] == first[b] and end[a] == end[b]
        )
        flag = _explain(
            place, tried, text, start, size, documents, a, together, one_sentence, labels[r], full,
            first, end, ids, sentence_offsets, first_sentence, end_sentence, end_copy, alike,
        )  # fmt: skip
        located, sure = True, len(continues) > 0
        for side in range(2):
            d = documents[a + side]
            if d < 0:
                flag |= 1 << Rule.UNKNOWN_DOCUMENT
                located = False
                continue
            early, late = place[0, side], place[1, side]
            if early < 0:
                flag |= 1 << (Rule.TEXT if place[3, side] else Rule.SENTENCE_SPAN)
                located = False
                continue
            used[d] |= side == 0 or s.sop
            note_part(least, most, early, late, size[side])
            sure &= early == late and alike[d]
            if early == late and len(continues):
                for k in range(1, size[side]):
                    marks[start[side] + k] = continues[early + k]
        flags[r] |= flag
        if not located:
            continue
        known[r] = sure
        # The chunk of sentences that the row was made of: B of a NotNext pair is not part of it.
        if documents[a] == documents[b] or not together:
            base = first_sentence[documents[a]]
            begin = min(first[a], first[b]) if together else first[a]
            close = max(end[a], end[b]) if together else end[a]
            if close <= end_sentence[documents[a]] - base:
                chunks[passes[r], base + begin] += 1
                chunks[passes[r], base + close] -= 1
