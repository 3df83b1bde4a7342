"""Masks rows for the masked language model: chooses positions, replaces tokens, keeps the originals.

One compiled kernel over flat arrays, seeded row by row, so that it gives the same masks whatever
the order of the rows and whoever calls it: a build, or a trainer that masks as it loads
(:func:`mask_at_load`). Needs numpy and numba only.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple

import numpy as np
from numba import njit

from transforms.randomness import draw_below, draw_unit, loading_seeds

__all__ = ["MASK_PER", "Fates", "MaskSettings", "Masked", "mask", "mask_at_load", "mask_rows"]

#: What shares one fate ([MASK], random or kept): the values of ``mask_per``, as the kernel has them.
MASK_PER = {"piece": 0, "word": 1, "ngram": 2}
_PER_PIECE, _PER_WORD = MASK_PER["piece"], MASK_PER["word"]

#: Of indices: for one with a sign compiled code looks each time whether it counts from the end.
_UNSIGNED = np.uintp

_LONGEST_ROW = 1 << 16

#: Marks of a chosen position: it begins a unit of one fate, or goes on with it.
_BEGINS, _GOES_ON = 1, 2


class Fates(enum.IntEnum):
    """Places in the array of counts that :func:`mask_rows` returns."""

    MASK_TOKEN = 0
    RANDOM_TOKEN = 1
    KEPT_TOKEN = 2


_FATES = len(Fates)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskSettings:
    """How rows are masked; the names are those of ``bert-data build``'s flags.

    Attributes:
      cls_id, sep_id, mask_id: of the vocabulary. [CLS] and [SEP] are never masked.
      random_ids: the ids that a random replacement is drawn from, of the rows' own type.
      masked_lm_prob: share of a row's tokens to predict, special tokens counted.
      max_predictions_per_seq: the most predictions of a row.
      max_ngram_size: words that may be masked together; n of them are drawn with weight 1/n.
      mask_per: ``piece``, ``word`` or ``ngram``: what shares one fate.
      mask_token_share, random_token_share: of the predictions; the rest is kept.

    Raises:
      ValueError: an unknown ``mask_per``, a number out of its range, or nothing to replace with.
    """

    cls_id: int
    sep_id: int
    mask_id: int
    random_ids: np.ndarray
    masked_lm_prob: float
    max_predictions_per_seq: int
    max_ngram_size: int = 1
    mask_per: str = "piece"
    mask_token_share: float = 0.8
    random_token_share: float = 0.1

    def __post_init__(self) -> None:
        if self.mask_per not in MASK_PER:
            raise ValueError(f"mask_per is {self.mask_per!r}, not one of {', '.join(MASK_PER)}")
        for name in ("max_predictions_per_seq", "max_ngram_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, less than 1")
        for name in ("masked_lm_prob", "mask_token_share", "random_token_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, not from 0 to 1")
        if self.random_token_share and not len(self.random_ids):
            raise ValueError("random_ids is empty: there is nothing to replace tokens with")


class Masked(NamedTuple):
    """Masked rows.

    Attributes:
      input_ids: uint16 or uint32[tokens], with the masks in place.
      positions: uint16[predictions], within the row, ascending.
      labels: the original ids, same type as ``input_ids``.
      offsets: int32[rows + 1], into the predictions.
      fates: int64[len(Fates)].
    """

    input_ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    fates: np.ndarray


def mask(
    input_ids: np.ndarray,
    offsets: np.ndarray,
    continues_word: np.ndarray,
    seeds: np.ndarray,
    *,
    settings: MaskSettings,
) -> Masked:
    """Masks every row **in place**; see :func:`mask_rows` for the arrays."""
    found = mask_rows(
        input_ids,
        offsets,
        continues_word,
        seeds,
        settings.random_ids,
        settings.cls_id,
        settings.sep_id,
        settings.mask_id,
        settings.masked_lm_prob,
        settings.max_predictions_per_seq,
        settings.max_ngram_size,
        MASK_PER[settings.mask_per],
        settings.mask_token_share,
        settings.random_token_share,
    )
    return Masked(input_ids, *found)


def mask_at_load(
    input_ids: np.ndarray,
    offsets: np.ndarray,
    continues_word: np.ndarray,
    rows: np.ndarray,
    *,
    seed: int,
    epoch: int,
    settings: MaskSettings,
) -> Masked:
    """Masks rows of a data set built with ``--masking none``: other masks in every epoch.

    The masks are a function of (seed, epoch, number of the row), whatever the batch.

    Args:
      input_ids: uint16 or uint32[tokens], all rows, with [CLS] and [SEP]; not changed.
      offsets: int32 or int64[rows + 1].
      continues_word: bool or uint8[tokens], the column of that name.
      rows: whole numbers[rows]: the number of each row in its data set, all shards in order.
      seed: of the training run, from 0 to 2^64 - 1.
      epoch: counted from 0.
      settings: how.

    Raises:
      ValueError: the arrays do not fit each other, or a row is too long: the kernel would read beyond
        them.
    """
    _check_arrays(input_ids, offsets, continues_word, rows)
    if not 0 <= seed < 1 << 64 or not 0 <= epoch < 1 << 64:
        raise ValueError(f"seed {seed} and epoch {epoch} have to be from 0 to 2^64 - 1")
    seeds = loading_seeds(seed, epoch, rows.astype(np.uint64))
    marks = continues_word.astype(np.uint8, copy=False)
    return mask(input_ids.copy(), offsets.astype(np.int64), marks, seeds, settings=settings)


def _check_arrays(
    input_ids: np.ndarray, offsets: np.ndarray, continues_word: np.ndarray, rows: np.ndarray
) -> None:
    if len(offsets) < 1 or len(rows) != len(offsets) - 1:
        raise ValueError(
            f"{len(offsets)} offsets are one more than the rows; there are {len(rows)}"
        )
    if len(continues_word) != len(input_ids):
        raise ValueError(
            f"continues_word has {len(continues_word)} items, input_ids {len(input_ids)}"
        )
    if offsets[0] < 0 or offsets[-1] > len(input_ids) or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets have to ascend from 0 to the {len(input_ids)} tokens")
    longest = int(np.diff(offsets).max(initial=0))
    if longest > _LONGEST_ROW:
        raise ValueError(
            f"a row has {longest} tokens, and positions are uint16: {_LONGEST_ROW} at most"
        )


@njit(cache=True, nogil=True)
def _list_words(ids, continues_word, cls_id, sep_id, word_starts):  # type: ignore[no-untyped-def]
    """Notes where the maskable words of one row begin: runs of positions that are masked together.

    Args:
      ids, continues_word: the row.
      word_starts: int32[row], filled with positions.

    Returns:
      The number of words.
    """
    words = _UNSIGNED(0)
    for k in range(len(ids)):
        special = (ids[k] == cls_id) | (ids[k] == sep_id)
        # Written always and counted sometimes: a branch here would be guessed wrong too often.
        word_starts[words] = k
        words += _UNSIGNED((not special) & (not continues_word[k]))
    return np.int64(words)


@njit(cache=True, nogil=True)
def _choose_words(state, continues_word, word_starts, words, wanted, per_piece, chosen):  # type: ignore[no-untyped-def]
    """Marks words in random order until ``wanted`` tokens are; one that is too long is skipped."""
    rest = _BEGINS if per_piece else _GOES_ON
    length = len(continues_word)
    taken = np.int64(0)
    w = 0
    while w < words and taken < wanted:
        # One step of a Fisher-Yates shuffle: as many draws as words are looked at.
        drawn = _UNSIGNED(w + draw_below(state, words - w))
        first = _UNSIGNED(word_starts[drawn])
        word_starts[drawn] = word_starts[w]
        w += 1
        stop = first + _UNSIGNED(1)
        while stop < length and continues_word[stop]:
            stop += _UNSIGNED(1)
        size = np.int64(stop - first)
        if taken + size <= wanted:
            chosen[first] = _BEGINS
            for k in range(first + _UNSIGNED(1), stop):
                chosen[k] = rest
            taken += size


@njit(cache=True, nogil=True)
def _choose_ngrams(  # type: ignore[no-untyped-def]
    state, continues_word, word_starts, words, wanted, max_ngram_size, mask_per, chosen
):
    """Marks n-grams of words, n with weight 1/n (TF Model Garden's create_pretraining_data.py).

    Each size has its own candidates, taken in random order; one that is too long or meets a marked
    word is skipped, and a size that is longer than what is left is given up. Unlike there, an n-gram
    never reaches across a special token.
    """
    word_ends = np.empty(words, np.int32)
    for w in range(words):
        stop = word_starts[w] + 1
        while stop < len(continues_word) and continues_word[stop]:
            stop += 1
        word_ends[w] = stop
    candidates = np.empty((max_ngram_size, words), np.int32)
    left = np.zeros(max_ngram_size, np.int64)
    for w in range(words):
        size = 0
        while size < max_ngram_size and w + size < words:
            if size and word_ends[w + size - 1] != word_starts[w + size]:
                break  # a special token stands between them
            candidates[size, left[size]] = w
            left[size] += 1
            size += 1
    taken = 0
    while taken < wanted:
        weight = 0.0
        for size in range(max_ngram_size):
            if taken + size + 1 > wanted:
                left[size] = 0
            if left[size]:
                weight += 1.0 / (size + 1)
        if weight == 0.0:
            return
        draw = draw_unit(state) * weight
        size = -1
        for other in range(max_ngram_size):
            if left[other]:
                size = other
                draw -= 1.0 / (other + 1)
                if draw < 0:
                    break
        drawn = draw_below(state, left[size])
        first_word = candidates[size, drawn]
        left[size] -= 1
        candidates[size, drawn] = candidates[size, left[size]]
        first, stop = word_starts[first_word], word_ends[first_word + size]
        if taken + stop - first > wanted or chosen[first:stop].any():
            continue
        chosen[first:stop] = _BEGINS if mask_per == _PER_PIECE else _GOES_ON
        chosen[first] = _BEGINS
        if mask_per == _PER_WORD:
            for w in range(first_word, first_word + size + 1):
                chosen[word_starts[w]] = _BEGINS
        taken += stop - first


@njit(cache=True, nogil=True)
def mask_rows(  # type: ignore[no-untyped-def]
    ids,
    offsets,
    continues_word,
    seeds,
    random_ids,
    cls_id,
    sep_id,
    mask_id,
    masked_lm_prob,
    max_predictions_per_seq,
    max_ngram_size,
    mask_per,
    mask_token_share,
    random_token_share,
):
    """Masks every row in place (Devlin et al. 2018, 3.1; whole words as in the reference of 2019).

    Each row gets ``min(cap, max(1, round_half_even(length * masked_lm_prob)))`` predictions, the
    special tokens counted in the length; words are taken in random order and one that would exceed
    that number is skipped, so that with whole words there may be fewer. A chosen token becomes
    [MASK], a random one, or stays, by the shares; piece by piece, or as one with its word or n-gram.

    Args:
      ids: uint16 or uint32[tokens], all rows, with [CLS] and [SEP]; **changed in place**.
      offsets: int32 or int64[rows + 1]; no row is longer than 65,536 tokens.
      continues_word: uint8[tokens], 1 where a token belongs to the word of the token before it; 0 at
        special tokens and after them, and everywhere without whole words.
      seeds: uint64[rows], the start of each row's stream.
      random_ids: the ids a random replacement is drawn from, same type as ``ids``.
      cls_id, sep_id, mask_id: ids of the special tokens.
      masked_lm_prob: share of a row's tokens to predict.
      max_predictions_per_seq: the cap.
      max_ngram_size: the most words that are masked together.
      mask_per: a value of ``MASK_PER``.
      mask_token_share, random_token_share: of the predictions.

    Returns:
      positions: uint16[predictions], within the row, ascending.
      labels: the original ids, same type as ``ids``.
      prediction_offsets: int32[rows + 1].
      fates: int64[len(Fates)].
    """
    rows = len(offsets) - 1
    # One more than there can be: a position is written before it is known whether it counts.
    positions = np.empty(rows * max_predictions_per_seq + 1, np.uint16)
    labels = np.empty(rows * max_predictions_per_seq, ids.dtype)
    prediction_offsets = np.zeros(rows + 1, np.int32)
    fates = np.zeros(_FATES, np.int64)
    longest = 0
    for r in range(rows):
        longest = max(longest, offsets[r + 1] - offsets[r])
    word_starts = np.empty(longest, np.int32)
    chosen = np.zeros(longest, np.uint8)
    state = np.zeros(1, np.uint64)
    changed_share = mask_token_share + random_token_share
    per_piece = mask_per == _PER_PIECE
    fate = 0.0
    n = _UNSIGNED(0)
    for r in range(rows):
        row = ids[offsets[r] : offsets[r + 1]]
        continues = continues_word[offsets[r] : offsets[r + 1]]
        state[0] = seeds[r]
        words = _list_words(row, continues, cls_id, sep_id, word_starts)
        wanted = min(max_predictions_per_seq, max(1, int(np.rint(len(row) * masked_lm_prob))))
        if max_ngram_size == 1:
            _choose_words(state, continues, word_starts, words, wanted, per_piece, chosen)
        else:
            _choose_ngrams(
                state, continues, word_starts, words, wanted, max_ngram_size, mask_per, chosen
            )
        first = n
        for k in range(len(row)):
            positions[n] = k
            n += _UNSIGNED(chosen[k] != 0)
        for i in range(first, n):
            k = positions[i]
            if chosen[k] == _BEGINS:
                fate = draw_unit(state)
            chosen[k] = 0
            labels[i] = row[k]
            if fate < mask_token_share:
                row[k] = mask_id
                fates[Fates.MASK_TOKEN] += 1
            elif fate < changed_share:
                row[k] = random_ids[_UNSIGNED(draw_below(state, len(random_ids)))]
                fates[Fates.RANDOM_TOKEN] += 1
            else:
                fates[Fates.KEPT_TOKEN] += 1
        prediction_offsets[r + 1] = n
    return positions[:n], labels[:n], prediction_offsets, fates
