"""Plans the sentence pairs of a block: which token ranges become segment A and segment B.

The algorithm is the reference's ``create_instances_from_document`` (google-research/bert,
create_pretraining_data.py) with the differences that ``docs/design.md``, "Examples", lists. A plan
is an array of :data:`PAIR` records; no token is copied until ``transforms.examples`` lays out rows.
"""

from __future__ import annotations

import enum

import numpy as np
from numba import njit

from schemas.arrow import IS_NEXT, NOT_NEXT
from transforms.randomness import MASKS, PAIRS, SHUFFLE, absorb, draw_below, draw_unit

__all__ = [
    "NUM_COUNTS",
    "OF_A_ROW",
    "PAIR",
    "SEGMENTS",
    "PairCounts",
    "plan_pairs",
    "reseed_pairs",
    "truncate",
    "with_room",
]

#: Where A and B of an example are. Offsets of tokens are into the block's ids, of sentences into
#: its sentences.
SEGMENTS = [
    ("a_start", np.int64),
    ("a_end", np.int64),
    ("b_start", np.int64),
    ("b_end", np.int64),
    ("a_first_sentence", np.int32),
    ("a_end_sentence", np.int32),
    ("b_first_sentence", np.int32),
    ("b_end_sentence", np.int32),
    ("a_document", np.int32),
    ("b_document", np.int32),
]

#: What else is said of every example.
OF_A_ROW = [("dupe_pass", np.uint16), ("label", np.uint8), ("short", np.uint8)]

#: One planned example.
PAIR = np.dtype([*SEGMENTS, ("mask_seed", np.uint64), ("shuffle_key", np.uint64), *OF_A_ROW])

#: How many examples it takes to pull a surplus of NotNext pairs back: long enough for the
#: draws of neighbouring examples to stay nearly independent, short against a block.
_STEERING = 32.0


class PairCounts(enum.IntEnum):
    """Places in the array of counts that the planners return; NOT_NEXT counts all of label 1."""

    NOT_NEXT = 0
    SINGLE_SEGMENT_NOT_NEXT = 1
    WITHOUT_PARTNER = 2
    SPLIT_SEGMENT = 3


NUM_COUNTS = len(PairCounts)


@njit(cache=True, nogil=True)
def truncate(state, a_start, a_end, b_start, b_end, max_tokens):  # type: ignore[no-untyped-def]
    """Drops one token at a time from the longer side, front or back by a coin (ties: from B)."""
    while (a_end - a_start) + (b_end - b_start) > max_tokens:
        # Sums, since a branch on a coin is guessed wrong every other time.
        front = int(draw_unit(state) < 0.5)
        of_a = int(a_end - a_start > b_end - b_start)
        a_start += of_a * front
        a_end -= of_a * (1 - front)
        b_start += (1 - of_a) * front
        b_end -= (1 - of_a) * (1 - front)
    return a_start, a_end, b_start, b_end


@njit(cache=True, nogil=True)
def _draw_other(state, d, copies_start, copies_end, num_documents):  # type: ignore[no-untyped-def]
    """A document uniformly among those whose text is not ``d``'s, without rejection."""
    start = copies_start[d]
    end = copies_end[d]
    other = draw_below(state, num_documents - (end - start))
    return other if other < start else other + (end - start)


@njit(cache=True, nogil=True)
def _draw_span(state, other, wanted, sentence_offsets, first_sentence, end_sentence):  # type: ignore[no-untyped-def]
    """Sentences of document ``other`` from a random one on, until ``wanted`` tokens or its end."""
    first = first_sentence[other] + draw_below(state, end_sentence[other] - first_sentence[other])
    end = first + 1
    while end < end_sentence[other] and sentence_offsets[end] - sentence_offsets[first] < wanted:
        end += 1
    return first, end


@njit(cache=True, nogil=True)
def _note_pair(state, pair, a_first, a_end, b_first, b_end, sentence_offsets, max_tokens):  # type: ignore[no-untyped-def]
    """Writes the sentences of A and B and what truncation leaves of their tokens."""
    pair.a_first_sentence = a_first
    pair.a_end_sentence = a_end
    pair.b_first_sentence = b_first
    pair.b_end_sentence = b_end
    pair.a_start, pair.a_end, pair.b_start, pair.b_end = truncate(
        state,
        sentence_offsets[a_first],
        sentence_offsets[a_end],
        sentence_offsets[b_first],
        sentence_offsets[b_end],
        max_tokens,
    )


@njit(cache=True, nogil=True)
def with_room(records, n):  # type: ignore[no-untyped-def]
    """``records``, or a larger copy if there is none with number ``n``."""
    if n < len(records):
        return records
    grown = np.empty(2 * n, records.dtype)
    grown[:n] = records
    return grown


@njit(cache=True, nogil=True)
def plan_pairs(  # type: ignore[no-untyped-def]
    sentence_offsets,
    first_sentence,
    end_sentence,
    copies_start,
    copies_end,
    seeds,
    dupe_factor,
    max_seq_length,
    short_seq_prob,
    not_next_share,
):
    """Plans all examples of a block, of every dupe pass, in the order (pass, document, chunk).

    The share of NotNext is steered to ``not_next_share``: a chunk of one segment can only be NotNext,
    so that the coin of the other chunks leans the other way by as much as NotNext is ahead in this
    block.

    Args:
      sentence_offsets: int64[sentences + 1], token offsets of the block's sentences, none empty.
      first_sentence, end_sentence: int64[documents], each document's sentences; at least one.
        Documents are sorted by key.
      copies_start, copies_end: int64[documents], the run of documents with the same key as this
        one; B of a NotNext pair never comes from it.
      seeds: uint64[documents], ``randomness.document_seeds``.
      dupe_factor: passes over the documents; each draws everything again.
      max_seq_length: tokens of a row, with [CLS] and two [SEP].
      short_seq_prob: probability, for each document and pass, of a shorter target length.
      not_next_share: of the examples.

    Returns:
      ``PAIR[examples]`` and int64[len(PairCounts)].
    """
    max_tokens = max_seq_length - 3
    num_documents = len(first_sentence)
    pairs = np.empty(1024, PAIR)
    counts = np.zeros(NUM_COUNTS, np.int64)
    state = np.zeros(1, np.uint64)
    n = 0
    for dupe_pass in range(dupe_factor):
        for d in range(num_documents):
            state[0] = absorb(absorb(absorb(seeds[d], PAIRS), max_seq_length), dupe_pass)
            row_start = absorb(absorb(absorb(seeds[d], MASKS), max_seq_length), dupe_pass)
            first_of_document = n
            alone = copies_end[d] - copies_start[d] == num_documents
            target = max_tokens
            if draw_unit(state) < short_seq_prob:
                target = 2 + draw_below(state, max_tokens - 1)
            chunk = first_sentence[d]
            end = chunk  # of the chunk, growing
            while end < end_sentence[d]:
                end += 1
                length = sentence_offsets[end] - sentence_offsets[chunk]
                if end < end_sentence[d] and length < target:
                    continue
                single = end - chunk == 1
                a_end = chunk + 1 if single else chunk + 1 + draw_below(state, end - chunk - 1)
                lead = counts[PairCounts.NOT_NEXT] - not_next_share * n
                not_next = single or draw_unit(state) < not_next_share - lead / _STEERING
                if alone and single:
                    counts[PairCounts.WITHOUT_PARTNER] += 1
                    chunk = end
                    continue
                pairs = with_room(pairs, n)
                pair = pairs[n]
                other = d
                b_first = a_end
                b_end = end
                if not_next and not alone:
                    wanted = target - (sentence_offsets[a_end] - sentence_offsets[chunk])
                    other = _draw_other(state, d, copies_start, copies_end, num_documents)
                    b_first, b_end = _draw_span(
                        state, other, wanted, sentence_offsets, first_sentence, end_sentence
                    )
                    end = a_end  # the unused segments are put back
                    counts[PairCounts.NOT_NEXT] += 1
                    counts[PairCounts.SINGLE_SEGMENT_NOT_NEXT] += single
                    pair.label = NOT_NEXT
                else:
                    pair.label = IS_NEXT
                pair.a_document = d
                pair.b_document = other
                _note_pair(state, pair, chunk, a_end, b_first, b_end, sentence_offsets, max_tokens)
                pair.dupe_pass = dupe_pass
                pair.short = target < max_tokens
                pair.mask_seed = absorb(row_start, n - first_of_document)
                pair.shuffle_key = absorb(pair.mask_seed, SHUFFLE)
                n += 1
                chunk = end
    return pairs[:n], counts


@njit(cache=True, nogil=True)
def reseed_pairs(pairs, seeds, max_seq_length, dupe_pass):  # type: ignore[no-untyped-def]
    """The pairs of the first pass for another one: other masks and another place in the shuffle.

    Args:
      pairs: ``PAIR[examples]`` of one pass, as planned; not changed.
      seeds: uint64[documents].
      max_seq_length: of a row.
      dupe_pass: the other pass.
    """
    again = pairs.copy()
    index = 0
    for n in range(len(again)):
        pair = again[n]
        d = pair.a_document
        index = index + 1 if n and again[n - 1].a_document == d else 0
        row_start = absorb(absorb(absorb(seeds[d], MASKS), max_seq_length), dupe_pass)
        pair.dupe_pass = dupe_pass
        pair.mask_seed = absorb(row_start, index)
        pair.shuffle_key = absorb(pair.mask_seed, SHUFFLE)
    return again
