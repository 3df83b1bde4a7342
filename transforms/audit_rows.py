"""The rules that a row can be held to by itself, compiled: shape, masks, words, labels, provenance.

One pass over the flat arrays of a row group; which rules a row breaks are bits of its flags.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numba import njit, uint64

from schemas.manifest import HISTOGRAM_BINS
from transforms.audit_chance import CERTAIN_BITS, log_factorials
from transforms.audit_columns import RowGroup
from transforms.audit_counts import CHANCE_BITS, Counted
from transforms.audit_masks import check_masks
from transforms.audit_relations import (
    absorb,
    check_packed,
    check_relations,
    hash_origins,
    sum_passes,
)
from transforms.audit_rules import SPECIAL, SUBWORD, AuditRules, Rule

__all__ = ["RowFindings", "check_rows"]

#: So many passes are compared with each other.
COMPARED_PASSES = 64


@dataclasses.dataclass(frozen=True)
class RowFindings:
    """What was found in a row group.

    Attributes:
      flags: int64[rows], a bit for each :class:`~transforms.audit_rules.Rule` that does not hold.
      text: the original ids, flat; an id that is out of range is the unknown token's here.
      separators: int64[rows], where the first [SEP] is, in the row; 0 if there is none.
      hashes: uint64[rows], of all that a row holds but its provenance.
      certain: bool[rows], an equal row cannot be chance.
      origins: uint64[rows], of the sentences and the pass that a row alone can be made of; 0 if others
        can, or if it is not known.
      sums: uint64[passes], see ``audit_relations.sum_passes``; of the first ``COMPARED_PASSES``.
      drawn: float64[2], likewise.
      counts: int64[len(Counted)]; histogram: int64[HISTOGRAM_BINS], rows by length.
    """

    flags: np.ndarray
    text: np.ndarray
    separators: np.ndarray
    hashes: np.ndarray
    certain: np.ndarray
    origins: np.ndarray
    sums: np.ndarray
    drawn: np.ndarray
    counts: np.ndarray
    histogram: np.ndarray


def check_rows(group: RowGroup, rules: AuditRules) -> RowFindings:
    """Holds every row of a group to every rule that does not need the corpus."""
    rows = group.rows
    lengths = np.diff(group.offsets)
    found = RowFindings(
        flags=np.zeros(rows, np.int64),
        text=np.empty_like(group.ids),
        separators=np.zeros(rows, np.int64),
        hashes=np.zeros(rows, np.uint64),
        certain=np.zeros(rows, np.bool_),
        origins=np.zeros(rows, np.uint64),
        sums=np.zeros(min(rules.dupe_factor, COMPARED_PASSES), np.uint64),
        drawn=np.zeros(2, np.float64),
        counts=np.zeros(len(Counted), np.int64),
        histogram=np.zeros(HISTOGRAM_BINS, np.int64),
    )
    longest = int(lengths.max(initial=1))
    if not group.same_lists:
        found.flags[:] |= 1 << Rule.LIST_LENGTHS
    found.flags[group.dupe_pass >= rules.dupe_factor] |= 1 << Rule.DUPE_PASS
    _check_rows(
        group.ids,
        group.offsets,
        group.types,
        group.type_offsets,
        group.continues,
        group.continues_offsets,
        group.pass_offsets if group.same_lists else np.zeros(rows + 1, np.int64),
        group.positions,
        group.position_offsets,
        group.others,
        group.other_offsets,
        group.labels,
        group.num_tokens,
        rules.kinds,
        rules.settings,
        log_factorials(longest),
        found.flags,
        found.text,
        found.separators,
        found.hashes,
        found.certain,
        found.counts,
        found.histogram,
    )
    if group.spans is not None:
        spans = group.spans
        places = spans.low, spans.high, spans.first, spans.end
        if rules.settings.pairs:
            check_relations(*places, group.labels, rules.settings, found.flags, found.counts)
        else:
            check_packed(
                found.text,
                group.offsets,
                spans.offsets,
                spans.first,
                spans.end,
                rules.settings,
                found.flags,
            )
        sum_passes(
            *places,
            spans.offsets,
            group.labels,
            group.dupe_pass,
            rules.settings,
            found.sums,
            found.drawn,
        )
        if not rules.copies:
            hash_origins(*places, spans.offsets, group.dupe_pass, rules.settings, found.origins)
    return found


@njit(cache=True, nogil=True)
def _restore(ids, start, n, positions, others, i, j, shift, s, flag, text):  # type: ignore[no-untyped-def]
    """The row with the original ids back in place, in ``text``; gives its flags.

    Position ``p`` of the predictions ``i`` to ``j`` goes with ``others[p + shift]``.
    """
    largest = 0
    for k in range(n):
        largest = max(largest, ids[start + k])
        text[start + k] = ids[start + k]
    if largest >= s.vocab_size:
        flag |= 1 << Rule.ID_RANGE
        for k in range(n):
            if text[start + k] >= s.vocab_size:
                text[start + k] = s.unk_id
    if s.shared:
        return flag
    for p in range(i, j):
        if positions[p] >= n:
            flag |= 1 << Rule.POSITION_RANGE
        elif others[p + shift] >= s.vocab_size:
            flag |= 1 << Rule.ID_RANGE
        else:
            text[start + positions[p]] = others[p + shift]
    return flag


@njit(cache=True, nogil=True)
def _check_shape(text, start, n, kinds, s, flag):  # type: ignore[no-untyped-def]
    """[CLS] and [SEP] where they belong and nothing special elsewhere.

    Returns the flags, the place of the first [SEP], and the number of special tokens.
    """
    wrong = n < s.shortest or text[start] != s.cls_id or text[start + n - 1] != s.sep_id
    separator = 0
    inner = 0
    specials = 2
    after_special = True
    for k in range(1, n - 1):
        token = text[start + k]
        special = (kinds[token] & SPECIAL) != 0
        if special:
            specials += 1
            if token != s.sep_id:
                flag |= 1 << Rule.SPECIAL_INSIDE
            else:
                inner += 1
                wrong |= after_special or k == n - 2
                if separator == 0:
                    separator = k
        after_special = special
    if s.pairs:
        wrong |= inner != 1
    elif not s.inner_sep:
        wrong |= inner != 0
    if wrong:
        flag |= 1 << Rule.STRUCTURE
    return flag, separator, specials


@njit(cache=True, nogil=True)
def _check_continues(text, start, n, continues, at, kinds, s, flag):  # type: ignore[no-untyped-def]
    """``continues_word`` of one row, which begins at ``at``."""
    after_special = True
    for k in range(n):
        kind = kinds[text[start + k]]
        special = (kind & SPECIAL) != 0
        here = continues[at + k] != 0
        wrong = here and (special or after_special or not s.whole_words)
        if s.whole_words and s.words_known and not special and not after_special:
            wrong |= here != ((kind & SUBWORD) != 0)
        if wrong:
            return flag | 1 << Rule.CONTINUES_WORD
        after_special = special
    return flag


@njit(cache=True, nogil=True)
def _compare_passes(hashes, bits, passes, flag, counts):  # type: ignore[no-untyped-def]
    """Passes of a row with the masks of an earlier one: what cannot be is flagged, the rest counted."""
    for p in range(1, passes):
        chance = 0.0
        again = False
        for before in range(p):
            same = hashes[before] == hashes[p]
            if bits[before] >= CERTAIN_BITS:
                flag |= same << Rule.SAME_MASKS
                continue
            chance += 2.0 ** -bits[before]
            again |= same
        counts[Counted.EQUAL_PASSES] += again
        counts[Counted.EQUAL_BY_CHANCE] += int(np.ceil(min(1.0, chance) * 2.0**CHANCE_BITS))
    return flag


@njit(cache=True, nogil=True)
def _check_lists(n, row, num_tokens, pass_offsets, position_offsets, other_offsets, s, flag):  # type: ignore[no-untyped-def]
    """Lengths of a row and of its lists of predictions."""
    if num_tokens[row] != n:
        flag |= 1 << Rule.NUM_TOKENS
    if n < s.shortest or n > s.max_seq_length:
        flag |= 1 << Rule.ROW_LENGTH
    first, last = pass_offsets[row], pass_offsets[row + 1]
    if last - first != s.passes:
        flag |= 1 << Rule.PASSES
    for p in range(first, last):
        one = position_offsets[p + 1] - position_offsets[p]
        if one != other_offsets[p + 1] - other_offsets[p]:
            flag |= 1 << Rule.LIST_LENGTHS
    return flag


@njit(cache=True, nogil=True)
def _check_types(types, at, end, n, separator, flag):  # type: ignore[no-untyped-def]
    """``token_type_ids[at:end]`` of a row of n tokens."""
    if end - at != n:
        return flag | 1 << Rule.LIST_LENGTHS
    wrong = 0
    for k in range(separator + 1):
        wrong += types[at + k] != 0
    for k in range(separator + 1, n):
        wrong += types[at + k] != 1
    return flag | 1 << Rule.TOKEN_TYPES if wrong else flag


@njit(cache=True, nogil=True)
def _check_rows(  # type: ignore[no-untyped-def]
    ids,
    offsets,
    types,
    type_offsets,
    continues,
    continues_offsets,
    pass_offsets,
    positions,
    position_offsets,
    others,
    other_offsets,
    labels,
    num_tokens,
    kinds,
    s,
    logs,
    flags,
    text,
    separators,
    hashes,
    certain,
    counts,
    histogram,
):
    """All rules of all rows; see ``RowGroup`` for the arrays and ``RowFindings`` for what is filled."""
    fates = np.zeros(len(logs), np.uint8)
    joins = np.zeros(len(logs), np.uint8)
    sizes = np.zeros((2, len(logs)), np.int64)
    most = 1
    for r in range(len(num_tokens)):
        most = max(most, pass_offsets[r + 1] - pass_offsets[r])
    pass_hashes = np.zeros(most, np.uint64)
    pass_bits = np.zeros(most, np.float64)
    for r in range(len(num_tokens)):
        start = offsets[r]
        n = offsets[r + 1] - start
        flag = _check_lists(
            n, r, num_tokens, pass_offsets, position_offsets, other_offsets, s, flags[r]
        )
        usable = flag & (1 << Rule.LIST_LENGTHS | 1 << Rule.PASSES) == 0
        first, last = pass_offsets[r], pass_offsets[r + 1] if usable else pass_offsets[r]
        i, j = position_offsets[first], position_offsets[last]
        shift = other_offsets[first] - i  # 0 where all lists so far have been alike
        flag = _restore(ids, start, n, positions, others, i, j, shift, s, flag, text)
        flag, separator, specials = _check_shape(text, start, n, kinds, s, flag)
        separators[r] = separator
        h = uint64(n)
        for k in range(n):
            h = absorb(h, ids[start + k])
        unknown = 0
        for k in range(n):
            unknown += text[start + k] == s.unk_id
        counts[Counted.UNKNOWN] += unknown
        if s.pairs:
            flag = _check_types(types, type_offsets[r], type_offsets[r + 1], n, separator, flag)
            if labels[r] > 1:
                flag |= 1 << Rule.LABEL
            counts[Counted.LABEL_1] += labels[r] == 1
            h = absorb(h, labels[r])
        if s.continues and continues_offsets[r + 1] - continues_offsets[r] != n:
            flag |= 1 << Rule.LIST_LENGTHS
        elif s.continues:
            flag = _check_continues(text, start, n, continues, continues_offsets[r], kinds, s, flag)
        bits = 0.0
        for p in range(first, last):
            i, j = position_offsets[p], position_offsets[p + 1]
            shift = other_offsets[p] - i
            flag, more = check_masks(
                ids, text, start, n, positions, others, i, j, shift, kinds, s, specials, flag,
                fates, joins, logs, sizes, counts,
            )  # fmt: skip
            masks = uint64(j - i + 1)
            for q in range(i, j):
                masks = absorb(absorb(masks, positions[q]), others[q + shift])
            h = absorb(h, masks)
            pass_hashes[p - first], pass_bits[p - first] = masks, more
            bits += more
        flag = _compare_passes(pass_hashes, pass_bits, last - first, flag, counts)
        certain[r] = bits >= CERTAIN_BITS
        hashes[r] = h
        flags[r] = flag
        counts[Counted.ROWS] += 1
        counts[Counted.TOKENS] += n
        counts[Counted.SHORT] += n < s.full_length
        place = (n - 1) * HISTOGRAM_BINS // s.max_seq_length
        histogram[min(max(0, place), HISTOGRAM_BINS - 1)] += 1
