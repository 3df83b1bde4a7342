"""What a row's provenance alone tells: the relation of A and B, and what no other row can be made of."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from transforms.audit_counts import Counted
from transforms.audit_rules import Rule

__all__ = ["absorb", "check_packed", "check_relations", "hash_origins", "sum_passes"]


@njit(cache=True, nogil=True)
def absorb(h, value):  # type: ignore[no-untyped-def]
    """The hash ``h`` with one more number in it."""
    h = (h ^ uint64(value)) * uint64(0x9FB21C651E98DF25)
    return h ^ (h >> uint64(32))


@njit(cache=True, nogil=True)
def check_relations(low, high, first, end, labels, s, flags, counts):  # type: ignore[no-untyped-def]
    """What the label says, by the documents and sentences of A (part 2r) and B (part 2r + 1)."""
    for r in range(len(labels)):
        a, b = 2 * r, 2 * r + 1
        same = low[a] == low[b] and high[a] == high[b]
        if first[a] >= end[a] or first[b] >= end[b]:
            flags[r] |= 1 << Rule.SENTENCE_SPAN
        counts[Counted.ONE_SENTENCE_1] += labels[r] == 1 and end[a] - first[a] == 1
        if not s.sop:
            if labels[r] == 0 and not (same and end[a] == first[b]):
                flags[r] |= 1 << Rule.IS_NEXT
            if labels[r] == 1 and same and not s.exact_reference:
                flags[r] |= 1 << Rule.NOT_NEXT
            continue
        split = first[a] == first[b] and end[a] == end[b] and end[a] - first[a] == 1
        counts[Counted.SPLIT] += same and split
        follows = end[a] == first[b] if labels[r] == 0 else end[b] == first[a]
        if not same or not (split or follows):
            flags[r] |= 1 << Rule.SENTENCE_ORDER


@njit(cache=True, nogil=True)
def hash_origins(low, high, first, end, offsets, passes, s, origins):  # type: ignore[no-untyped-def]
    """Hashes of the sentences and the pass of each row, whose parts are ``offsets[r]`` and on.

    In a pass a sentence begins a chunk of pairs once at most, and two neighbours stand together in one
    packed row at most. A packed row inside one sentence is not alone there: its origin stays 0.
    """
    for r in range(len(passes)):
        begin, stop = offsets[r], offsets[r + 1]
        if not s.pairs and (stop - begin < 2 and (begin == stop or end[begin] - first[begin] < 2)):
            continue
        h = uint64(passes[r] + 1)
        for p in range(begin, stop):
            h = absorb(absorb(absorb(absorb(h, low[p]), high[p]), first[p]), end[p])
        origins[r] = h


@njit(cache=True, nogil=True)
def check_packed(text, offsets, part_offsets, first, end, s, flags):  # type: ignore[no-untyped-def]
    """The documents of each packed row, by themselves and by the [SEP] between them."""
    for r in range(len(offsets) - 1):
        begin, stop = part_offsets[r], part_offsets[r + 1]
        if begin == stop:
            flags[r] |= 1 << Rule.SENTENCE_SPAN
        for p in range(begin, stop):
            if first[p] >= end[p]:
                flags[r] |= 1 << Rule.SENTENCE_SPAN
            if p > begin and first[p] != 0:
                flags[r] |= 1 << Rule.DOCUMENTS
        if begin == stop or flags[r] & 1 << Rule.STRUCTURE:
            continue
        between = 0
        for k in range(offsets[r] + 1, offsets[r + 1] - 1):
            between += text[k] == s.sep_id
        size = offsets[r + 1] - offsets[r] - 2 - between
        unlike = s.inner_sep and between != stop - begin - 1
        if unlike or size < stop - begin or (s.one_document and stop - begin > 1):
            flags[r] |= 1 << Rule.DOCUMENTS


@njit(cache=True, nogil=True)
def sum_passes(low, high, first, end, offsets, labels, passes, s, sums, drawn):  # type: ignore[no-untyped-def]
    """Adds the rows to ``sums``, uint64[passes]: equal for passes that are made of the same sentences.

    ``drawn`` is float64[2]: of the first pass, -log2 of the probability that another one divides its
    chunks likewise, at most, and the places where documents meet in a row.
    """
    for r in range(len(passes)):
        begin, stop = offsets[r], offsets[r + 1]
        if passes[r] < len(sums):
            h = uint64(1)
            for p in range(begin, stop):
                h = absorb(absorb(absorb(absorb(h, low[p]), high[p]), first[p]), end[p])
            sums[passes[r]] += h
        if passes[r]:
            continue
        if not s.pairs:
            drawn[1] += max(0, stop - begin - 1)
        elif s.sop or labels[r] == 0:
            sentences = max(end[begin], end[begin + 1]) - min(first[begin], first[begin + 1])
            if sentences > 2:
                drawn[0] += np.log2(sentences - 1)
