"""The instances of Google's script, draw for draw: its pairs, its masks and its order.

google-research/bert, ``create_pretraining_data.py``: ``create_training_instances``,
``create_instances_from_document``, ``truncate_seq_pair`` and ``create_masked_lm_predictions`` (whole words
of 2019), as compiled kernels that take from one generator in the one serial order of the script. Wherever
the script is odd, so is this; ``docs/exact_reference.md`` says where.

Masks are in :mod:`transforms.reference_masking` and rows in :mod:`transforms.reference_rows`. Here an
instance is two token ranges and what is put at a few of its positions, so that all instances of a file
group fit into memory, which a shuffle of all of them asks for.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numba import njit

from schemas.arrow import IS_NEXT, NOT_NEXT
from transforms.mersenne import draw_between, draw_unit, seeded, shuffle
from transforms.pairing import OF_A_ROW, SEGMENTS
from transforms.reference_masking import DrawnCounts, mask_instance

__all__ = ["INSTANCE", "Drawn", "ReferenceOptions", "draw_instances"]

#: One instance. Offsets of tokens are into the group's ids, of sentences into its sentences;
#: documents are counted in the order of delivery. ``first_prediction`` is where its masks begin.
INSTANCE = np.dtype(
    [*SEGMENTS, ("first_prediction", np.int64), ("predictions", np.uint16), *OF_A_ROW]
)

#: How often the script tries for a document other than A's.
_TRIES = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReferenceOptions:
    """The script's flags that decide what is drawn, by their names there."""

    max_seq_length: int
    max_predictions_per_seq: int
    masked_lm_prob: float
    short_seq_prob: float
    dupe_factor: int
    random_seed: int
    do_whole_word_mask: bool


@dataclasses.dataclass(frozen=True)
class Drawn:
    """All instances of a file group.

    Attributes:
      instances: ``INSTANCE[examples]``, in the order in which the script makes them.
      order: int64[examples]; row r of the script's output is ``instances[order[r]]``.
      positions: uint16[predictions], within the row, ascending for each instance.
      replacements: what is written there, same type as the ids.
      counts: int64[len(DrawnCounts)].
    """

    instances: np.ndarray
    order: np.ndarray
    positions: np.ndarray
    replacements: np.ndarray
    counts: np.ndarray


def draw_instances(
    ids: np.ndarray,
    sentence_offsets: np.ndarray,
    document_offsets: np.ndarray,
    options: ReferenceOptions,
    *,
    is_subword: np.ndarray,
    vocab_words: np.ndarray,
    mask_id: int,
) -> Drawn:
    """Draws everything that the script draws for one invocation.

    Args:
      ids: uint16 or uint32[tokens], of all documents in the order of delivery.
      sentence_offsets: int64[sentences + 1], into ``ids``; no sentence is empty.
      document_offsets: int64[documents + 1], into the sentences; no document is empty.
      options: the flags.
      is_subword: bool[vocabulary], tokens that begin with ``##``.
      vocab_words: the ids of the script's ``vocab_words``, same type as ``ids``: see
        :func:`transforms.reference_tokenizer.vocab_words`.
      mask_id: of [MASK].
    """
    counts = np.zeros(len(DrawnCounts), np.int64)
    joins_word = is_subword if options.do_whole_word_mask else np.zeros_like(is_subword)
    instances, order, positions, replacements = _draw(
        ids,
        sentence_offsets,
        document_offsets,
        options.max_seq_length,
        options.max_predictions_per_seq,
        options.masked_lm_prob,
        options.short_seq_prob,
        options.dupe_factor,
        options.random_seed,
        joins_word,
        vocab_words,
        ids.dtype.type(mask_id),
        counts,
    )
    return Drawn(instances, order, positions, replacements, counts)


@njit(cache=True, nogil=True)
def _truncate(state, a_start, a_end, b_start, b_end, max_tokens):  # type: ignore[no-untyped-def]
    """``truncate_seq_pair``: one token at a time from the longer side (ties: from B)."""
    while (a_end - a_start) + (b_end - b_start) > max_tokens:
        from_a = a_end - a_start > b_end - b_start
        front = draw_unit(state) < 0.5
        if from_a:
            if front:
                a_start += 1
            else:
                a_end -= 1
        elif front:
            b_start += 1
        else:
            b_end -= 1
    return a_start, a_end, b_start, b_end


@njit(cache=True, nogil=True)
def _draw_b(state, d, wanted, documents, sentence_offsets, document_offsets):  # type: ignore[no-untyped-def]
    """B of a NotNext pair: sentences of a document that is not ``d``, if ten tries find one.

    ``documents`` is the shuffled order and ``d`` a place in it.
    """
    other = d
    for _ in range(_TRIES):
        other = draw_between(state, 0, len(documents) - 1)
        if other != d:
            break
    first = document_offsets[documents[other]]
    end = document_offsets[documents[other] + 1]
    start = first + draw_between(state, 0, end - first - 1)
    stop = start + 1
    while stop < end and sentence_offsets[stop] - sentence_offsets[start] < wanted:
        stop += 1
    return other, start, stop


@njit(cache=True, nogil=True)
def _grown(array, n):  # type: ignore[no-untyped-def]
    """The array, or a longer copy if there is no room for n entries."""
    if n <= len(array):
        return array
    longer = np.empty(n + (n >> 1), array.dtype)
    longer[: len(array)] = array
    return longer


@njit(cache=True, nogil=True)
def _draw(  # type: ignore[no-untyped-def]
    ids,
    sentence_offsets,
    document_offsets,
    max_seq_length,
    max_predictions,
    masked_lm_prob,
    short_seq_prob,
    dupe_factor,
    random_seed,
    joins_word,
    vocab_words,
    mask_id,
    counts,
):
    """The whole run of the script in its serial order; see :func:`draw_instances`."""
    max_tokens = max_seq_length - 3
    state = seeded(random_seed)
    documents = np.arange(len(document_offsets) - 1)
    shuffle(state, documents, len(documents))
    instances = np.empty(1024, INSTANCE)
    positions = np.empty(1024, np.uint16)
    replacements = np.empty(1024, ids.dtype)
    word_ends = np.empty(max_seq_length, np.int32)
    words_order = np.empty(max_seq_length, np.int32)
    fates = np.empty(max_seq_length, np.int32)
    n = 0
    predictions = 0
    for dupe_pass in range(dupe_factor):
        for d in range(len(documents)):
            target = max_tokens
            if draw_unit(state) < short_seq_prob:
                target = draw_between(state, 2, max_tokens)
            chunk = document_offsets[documents[d]]
            last = document_offsets[documents[d] + 1]
            end = chunk  # of the chunk, growing
            while end < last:
                end += 1
                if end < last and sentence_offsets[end] - sentence_offsets[chunk] < target:
                    continue
                instances = _grown(instances, n + 1)
                positions = _grown(positions, predictions + max_predictions)
                replacements = _grown(replacements, predictions + max_predictions)
                instance = instances[n]
                single = end - chunk == 1
                a_end = chunk + 1
                if not single:
                    a_end = chunk + draw_between(state, 1, end - chunk - 1)
                instance.a_document = documents[d]
                instance.a_first_sentence = chunk
                instance.a_end_sentence = a_end
                if single or draw_unit(state) < 0.5:
                    wanted = target - (sentence_offsets[a_end] - sentence_offsets[chunk])
                    other, b_first, b_end = _draw_b(
                        state, d, wanted, documents, sentence_offsets, document_offsets
                    )
                    end = a_end  # the unused sentences are put back
                    instance.label = NOT_NEXT
                    counts[DrawnCounts.NOT_NEXT] += 1
                    counts[DrawnCounts.SINGLE_SEGMENT_NOT_NEXT] += single
                    counts[DrawnCounts.OWN_DOCUMENT_NOT_NEXT] += other == d
                else:
                    other, b_first, b_end = d, a_end, end
                    instance.label = IS_NEXT
                instance.b_document = documents[other]
                instance.b_first_sentence = b_first
                instance.b_end_sentence = b_end
                instance.a_start, instance.a_end, instance.b_start, instance.b_end = _truncate(
                    state,
                    sentence_offsets[chunk],
                    sentence_offsets[a_end],
                    sentence_offsets[b_first],
                    sentence_offsets[b_end],
                    max_tokens,
                )
                instance.dupe_pass = dupe_pass
                instance.short = target < max_tokens
                instance.first_prediction = predictions
                mask_instance(
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
                )
                predictions += instance.predictions
                n += 1
                chunk = end
    order = np.arange(n)
    shuffle(state, order, n)
    return instances[:n], order, positions[:predictions], replacements[:predictions]
