"""Masks as Google's script draws them, from the one generator that everything there is drawn from.

google-research/bert, ``create_pretraining_data.py``: ``create_masked_lm_predictions``.
"""

from __future__ import annotations

import enum

import numpy as np
from numba import njit

from transforms.mersenne import draw_between, draw_unit, shuffle

__all__ = ["DrawnCounts", "mask_instance"]


class DrawnCounts(enum.IntEnum):
    """Places in the array of counts that the kernels of the reference fill."""

    NOT_NEXT = 0
    SINGLE_SEGMENT_NOT_NEXT = 1
    #: NotNext whose B is from A's own document.
    OWN_DOCUMENT_NOT_NEXT = 2
    #: Words with pieces on both sides of a [SEP] that were masked as one.
    WORDS_ACROSS_SEP = 3
    MASK_TOKEN = 4
    RANDOM_TOKEN = 5
    KEPT_TOKEN = 6


@njit(cache=True, nogil=True)
def _list_words(ids, instance, joins_word, word_ends):  # type: ignore[no-untyped-def]
    """Notes the end of each word among an instance's tokens, [CLS] and [SEP] left out.

    As in the script a piece joins whatever comes before it, so that B's first piece joins A's last
    word when truncation has cut B inside a word.

    Returns:
      The number of words.
    """
    words = 0
    a_length = instance.a_end - instance.a_start
    length = a_length + instance.b_end - instance.b_start
    for k in range(length):
        token = ids[instance.a_start + k if k < a_length else instance.b_start + k - a_length]
        if words == 0 or not joins_word[token]:
            words += 1
        word_ends[words - 1] = k + 1
    return words


@njit(cache=True, nogil=True)
def mask_instance(  # type: ignore[no-untyped-def]
    state,
    ids,
    instance,
    joins_word,
    vocab_words,
    mask_id,
    masked_lm_prob,
    max_predictions,
    word_ends,
    words_order,
    fates,
    positions,
    replacements,
    counts,
):
    """``create_masked_lm_predictions``: fills positions and replacements from ``first_prediction``.

    Args:
      word_ends, words_order, fates: int32[max_seq_length], to work in.
    """
    words = _list_words(ids, instance, joins_word, word_ends)
    for w in range(words):
        words_order[w] = w
    shuffle(state, words_order, words)
    a_length = instance.a_end - instance.a_start
    length = a_length + instance.b_end - instance.b_start
    wanted = min(max_predictions, max(1, int(np.rint((length + 3) * masked_lm_prob))))
    fates[:length] = -1
    taken = 0
    for w in range(words):
        if taken >= wanted:
            break
        word = words_order[w]
        begin = word_ends[word - 1] if word > 0 else 0
        end = word_ends[word]
        if taken + end - begin > wanted:
            continue
        counts[DrawnCounts.WORDS_ACROSS_SEP] += begin < a_length and end > a_length
        for k in range(begin, end):
            if draw_unit(state) < 0.8:
                fates[k] = mask_id
                counts[DrawnCounts.MASK_TOKEN] += 1
            elif draw_unit(state) < 0.5:
                source = instance.a_start + k if k < a_length else instance.b_start + k - a_length
                fates[k] = ids[source]
                counts[DrawnCounts.KEPT_TOKEN] += 1
            else:
                fates[k] = vocab_words[draw_between(state, 0, len(vocab_words) - 1)]
                counts[DrawnCounts.RANDOM_TOKEN] += 1
        taken += end - begin
    n = instance.first_prediction
    for k in range(length):
        if fates[k] >= 0:
            positions[n] = k + 1 if k < a_length else k + 2
            replacements[n] = fates[k]
            n += 1
    instance.predictions = taken
