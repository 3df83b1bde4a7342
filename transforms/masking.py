"""Masks rows for the masked language model: chooses positions, replaces tokens, keeps the originals.

One compiled kernel over flat arrays, seeded row by row, so that it gives the same masks whatever
the order of the rows and whoever calls it.
"""

from __future__ import annotations

import enum

import numpy as np
from numba import njit

from transforms.randomness import draw_below, draw_unit

__all__ = ["Fates", "mask_rows"]


class Fates(enum.IntEnum):
    """Places in the array of counts that :func:`mask_rows` returns."""

    MASK_TOKEN = 0
    RANDOM_TOKEN = 1
    KEPT_TOKEN = 2


_FATES = len(Fates)


@njit(cache=True, nogil=True)
def _list_words(ids, start, end, cls_id, sep_id, joins_word, word_starts):  # type: ignore[no-untyped-def]
    """Notes where the maskable words of one row begin: runs of positions that are masked together.

    A token that joins (``##ing``) belongs to the word before it, but never across [CLS] or [SEP]:
    after truncation from the front, B may begin in the middle of a word.

    Args:
      ids, start, end: the row.
      joins_word: bool[vocabulary], true for tokens that continue a word, false for special ones;
        all false without whole-word masking.
      word_starts: int32[row], filled with positions in the row.

    Returns:
      The number of words.
    """
    words = 0
    after_special = True
    for k in range(start, end):
        token = ids[k]
        special = (token == cls_id) | (token == sep_id)
        # Written always and counted sometimes: a branch here would be guessed wrong too often.
        word_starts[words] = k - start
        words += (not special) & ((not joins_word[token]) | after_special)
        after_special = special
    return words


@njit(cache=True, nogil=True)
def mask_rows(  # type: ignore[no-untyped-def]
    ids,
    offsets,
    seeds,
    joins_word,
    random_ids,
    cls_id,
    sep_id,
    mask_id,
    masked_lm_prob,
    max_predictions_per_seq,
):
    """Masks every row in place (Devlin et al. 2018, 3.1; whole words as in the reference of 2019).

    Each row gets ``min(cap, max(1, round_half_even(length * masked_lm_prob)))`` predictions, the
    special tokens counted in the length; words are taken in random order and one that would exceed
    that number is skipped, so that with whole words there may be fewer. A chosen token becomes
    [MASK] with 80%, a random one with 10%, and stays with 10%, piece by piece.

    Args:
      ids: uint16 or uint32[tokens], all rows, with [CLS] and [SEP]; **changed in place**.
      offsets: int32 or int64[rows + 1].
      seeds: uint64[rows], the start of each row's stream.
      joins_word: bool[vocabulary], see :func:`_list_words`.
      random_ids: the ids a random replacement is drawn from, same type as ``ids``.
      cls_id, sep_id, mask_id: ids of the special tokens.
      masked_lm_prob: share of a row's tokens to predict.
      max_predictions_per_seq: the cap.

    Returns:
      positions: uint16[predictions], within the row, ascending.
      labels: the original ids, same type as ``ids``.
      prediction_offsets: int32[rows + 1].
      fates: int64[len(Fates)].
    """
    rows = len(offsets) - 1
    positions = np.empty(rows * max_predictions_per_seq, np.uint16)
    labels = np.empty(rows * max_predictions_per_seq, ids.dtype)
    prediction_offsets = np.zeros(rows + 1, np.int32)
    fates = np.zeros(_FATES, np.int64)
    longest = 0
    for r in range(rows):
        longest = max(longest, offsets[r + 1] - offsets[r])
    word_starts = np.empty(longest, np.int32)
    chosen = np.zeros(longest, np.uint8)
    state = np.zeros(1, np.uint64)
    n = 0
    for r in range(rows):
        start = offsets[r]
        length = offsets[r + 1] - start
        state[0] = seeds[r]
        words = _list_words(ids, start, offsets[r + 1], cls_id, sep_id, joins_word, word_starts)
        wanted = min(max_predictions_per_seq, max(1, int(np.rint(length * masked_lm_prob))))
        taken = 0
        w = 0
        while w < words and taken < wanted:
            # One step of a Fisher-Yates shuffle: as many draws as words are looked at.
            drawn = w + draw_below(state, words - w)
            first = word_starts[drawn]
            word_starts[drawn] = word_starts[w]
            w += 1
            end = first + 1
            while joins_word[ids[start + end]]:  # stops at [SEP], the last token of every row
                end += 1
            if taken + end - first <= wanted:
                chosen[first:end] = 1
                taken += end - first
        for k in range(length):
            if not chosen[k]:
                continue
            chosen[k] = 0
            positions[n] = k
            labels[n] = ids[start + k]
            n += 1
            fate = draw_unit(state)
            if fate < 0.8:
                ids[start + k] = mask_id
                fates[Fates.MASK_TOKEN] += 1
            elif fate < 0.9:
                ids[start + k] = random_ids[draw_below(state, len(random_ids))]
                fates[Fates.RANDOM_TOKEN] += 1
            else:
                fates[Fates.KEPT_TOKEN] += 1
        prediction_offsets[r + 1] = n
    return positions[:n], labels[:n], prediction_offsets, fates
