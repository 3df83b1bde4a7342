"""Plans sentence order pairs: two neighbouring segments, in order or swapped.

What ``transforms.pairing`` is for next sentence prediction; the records are the same.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from schemas.arrow import IS_NEXT, NOT_NEXT
from transforms.pairing import NUM_COUNTS, PAIR, PairCounts, truncate, with_room
from transforms.randomness import MASKS, PAIRS, SHUFFLE, absorb, draw_below, draw_unit

__all__ = ["plan_ordered_pairs"]


@njit(cache=True, nogil=True)
def plan_ordered_pairs(  # type: ignore[no-untyped-def]
    sentence_offsets,
    first_sentence,
    end_sentence,
    seeds,
    dupe_factor,
    max_seq_length,
    short_seq_prob,
    swapped_share,
    split_single,
):
    """Plans sentence order pairs (ALBERT, Lan et al. 2020, 3.1): label 1 where A and B are swapped.

    Chunks are gathered and cut in two as in ``pairing.plan_pairs``; both parts are used, so that nothing
    is put back. A chunk of one sentence has no order of sentences: it is cut at a random token, or
    makes no row (the original gives it a NotNext partner, google-research/albert#234).

    Args:
      sentence_offsets, first_sentence, end_sentence, seeds, dupe_factor, max_seq_length,
        short_seq_prob: as in ``pairing.plan_pairs``.
      swapped_share: of the examples.
      split_single: whether a chunk of one sentence is cut.

    Returns:
      ``PAIR[examples]`` and int64[len(PairCounts)].
    """
    max_tokens = max_seq_length - 3
    pairs = np.empty(1024, PAIR)
    counts = np.zeros(NUM_COUNTS, np.int64)
    state = np.zeros(1, np.uint64)
    n = 0
    for dupe_pass in range(dupe_factor):
        for d in range(len(first_sentence)):
            state[0] = absorb(absorb(absorb(seeds[d], PAIRS), max_seq_length), dupe_pass)
            row_start = absorb(absorb(absorb(seeds[d], MASKS), max_seq_length), dupe_pass)
            first_of_document = n
            target = max_tokens
            if draw_unit(state) < short_seq_prob:
                target = 2 + draw_below(state, max_tokens - 1)
            chunk = first_sentence[d]
            for end in range(chunk + 1, end_sentence[d] + 1):
                length = sentence_offsets[end] - sentence_offsets[chunk]
                if end < end_sentence[d] and length < target:
                    continue
                single = end - chunk == 1
                if single and not (split_single and length > 1):
                    counts[PairCounts.WITHOUT_PARTNER] += 1
                    chunk = end
                    continue
                first_end = chunk + 1 if single else chunk + 1 + draw_below(state, end - chunk - 1)
                second = chunk if single else first_end
                cut = sentence_offsets[second]
                if single:
                    cut += 1 + draw_below(state, length - 1)
                    counts[PairCounts.SPLIT_SEGMENT] += 1
                pairs = with_room(pairs, n)
                pair = pairs[n]
                swapped = draw_unit(state) < swapped_share
                start, stop = sentence_offsets[chunk], sentence_offsets[end]
                if swapped:
                    pair.a_first_sentence, pair.a_end_sentence = second, end
                    pair.b_first_sentence, pair.b_end_sentence = chunk, first_end
                    a_start, a_end, b_start, b_end = cut, stop, start, cut
                else:
                    pair.a_first_sentence, pair.a_end_sentence = chunk, first_end
                    pair.b_first_sentence, pair.b_end_sentence = second, end
                    a_start, a_end, b_start, b_end = start, cut, cut, stop
                pair.a_start, pair.a_end, pair.b_start, pair.b_end = truncate(
                    state, a_start, a_end, b_start, b_end, max_tokens
                )
                counts[PairCounts.NOT_NEXT] += swapped
                pair.label = NOT_NEXT if swapped else IS_NEXT
                pair.a_document = d
                pair.b_document = d
                pair.dupe_pass = dupe_pass
                pair.short = target < max_tokens
                pair.mask_seed = absorb(row_start, n - first_of_document)
                pair.shuffle_key = absorb(pair.mask_seed, SHUFFLE)
                n += 1
                chunk = end
    return pairs[:n], counts
