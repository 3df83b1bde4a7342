"""Plans rows without pairs: a block's documents as one stream of tokens, cut to the brim.

RoBERTa's full sentences (Liu et al. 2019, 4.2), cut at the token and not at the sentence, so that
every row but the last is full. A plan is an array of :data:`PACK` records, rows, over an array of
:data:`PART` records, each a run of tokens of one document.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from transforms.pairing import with_room
from transforms.randomness import MASKS, PACKING, SHUFFLE, absorb, draw_below, draw_unit

__all__ = ["PACK", "PART", "document_order", "pack_rows", "reseed_packs"]

#: One planned row. ``document`` is that of its first token, ``index`` the row's number among those of
#: its pass that begin in that document.
PACK = np.dtype(
    [
        ("first_part", np.int64),
        ("end_part", np.int64),
        ("document", np.int32),
        ("index", np.int32),
        ("mask_seed", np.uint64),
        ("shuffle_key", np.uint64),
        ("dupe_pass", np.uint16),
        ("short", np.uint8),
    ]
)

#: A run of tokens of one document in a row; sentences are the block's, the end one excluded.
PART = np.dtype(
    [
        ("start", np.int64),
        ("end", np.int64),
        ("document", np.int32),
        ("first_sentence", np.int32),
        ("end_sentence", np.int32),
    ]
)


@njit(cache=True, nogil=True)
def document_order(seeds, dupe_pass):  # type: ignore[no-untyped-def]
    """In which order a pass takes the documents: a permutation of them, by a keyed hash.

    Args:
      seeds: uint64[documents], ``randomness.document_seeds``.
      dupe_pass: the pass.
    """
    keys = np.empty(len(seeds), np.uint64)
    for d in range(len(seeds)):
        keys[d] = absorb(absorb(seeds[d], PACKING), dupe_pass)
    return np.argsort(keys, kind="mergesort")


@njit(cache=True, nogil=True)
def _seed_row(pack, seeds, max_seq_length):  # type: ignore[no-untyped-def]
    row_start = absorb(absorb(seeds[pack.document], MASKS), max_seq_length)
    pack.mask_seed = absorb(absorb(row_start, pack.dupe_pass), pack.index)
    pack.shuffle_key = absorb(pack.mask_seed, SHUFFLE)


@njit(cache=True, nogil=True)
def _note_part(part, start, end, document, sentence, sentence_offsets):  # type: ignore[no-untyped-def]
    """Fills a part in; gives the sentence it ends in, where the next one is looked for from."""
    while sentence_offsets[sentence + 1] <= start:
        sentence += 1
    part.start = start
    part.end = end
    part.document = document
    part.first_sentence = sentence
    while sentence_offsets[sentence + 1] < end:
        sentence += 1
    part.end_sentence = sentence + 1
    return sentence


@njit(cache=True, nogil=True)
def _close(packs, n, p, seeds, max_seq_length, drop):  # type: ignore[no-untyped-def]
    """Finishes row ``n``, or drops it; the numbers of rows and parts there are then."""
    if drop:
        return n, packs[n].first_part
    _seed_row(packs[n], seeds, max_seq_length)
    return n + 1, p


@njit(cache=True, nogil=True)
def pack_rows(  # type: ignore[no-untyped-def]
    sentence_offsets,
    first_sentence,
    end_sentence,
    seeds,
    dupe_factor,
    max_seq_length,
    short_seq_prob,
    by_document,
    sep_between,
    drop_last,
):
    """Plans all rows of a block, of every dupe pass.

    A pass takes the documents in an order of its own. From the second pass on a stream begins with a
    row of random length, so that it is cut elsewhere than before.

    Args:
      sentence_offsets: int64[sentences + 1], token offsets of the block's sentences, none empty.
      first_sentence, end_sentence: int64[documents], each document's sentences; at least one.
      seeds: uint64[documents], ``randomness.document_seeds``.
      dupe_factor: passes over the documents.
      max_seq_length: tokens of a row, with [CLS] and the [SEP] at its end.
      short_seq_prob: probability, for each row, of a shorter, random length.
      by_document: every document is a stream of its own; else all of them are one.
      sep_between: keep a token's room between two documents of a row, for [SEP].
      drop_last: drop the rows that are not full: the last of a stream, and the first of a later pass.

    Returns:
      ``PACK[rows]`` and ``PART[parts]``.
    """
    max_tokens = max_seq_length - 2
    packs = np.empty(1024, PACK)
    parts = np.empty(1024, PART)
    state = np.zeros(1, np.uint64)
    n = 0  # rows
    p = 0  # parts
    for dupe_pass in range(dupe_factor):
        order = document_order(seeds, dupe_pass)
        is_open = False
        first_of_stream = True
        shifting = False  # the open row is cut short to shift the cuts after it
        room = 0  # tokens that the open row still takes
        for place in range(len(order)):
            d = order[place]
            if by_document or place == 0:
                state[0] = absorb(absorb(absorb(seeds[d], PACKING), max_seq_length), dupe_pass)
                first_of_stream = True
            index = 0
            sentence = first_sentence[d]
            at = sentence_offsets[sentence]
            stop = sentence_offsets[end_sentence[d]]
            if is_open and sep_between:
                room -= 1
                if room == 0:  # for [SEP] alone there is no use
                    n, p = _close(packs, n, p, seeds, max_seq_length, shifting and drop_last)
                    is_open = False
            while at < stop:
                if not is_open:
                    packs = with_room(packs, n)
                    pack = packs[n]
                    room = max_tokens
                    if short_seq_prob > 0 and draw_unit(state) < short_seq_prob:
                        room = 1 + draw_below(state, max_tokens)
                    pack.short = room < max_tokens
                    shifting = False
                    if first_of_stream and dupe_pass > 0:
                        cut = 1 + draw_below(state, room)
                        shifting = cut < room
                        room = cut
                    first_of_stream = False
                    pack.first_part = p
                    pack.document = d
                    pack.index = index
                    pack.dupe_pass = dupe_pass
                    index += 1
                    is_open = True
                taken = min(room, stop - at)
                parts = with_room(parts, p)
                sentence = _note_part(parts[p], at, at + taken, d, sentence, sentence_offsets)
                p += 1
                packs[n].end_part = p
                at += taken
                room -= taken
                if room == 0:
                    n, p = _close(packs, n, p, seeds, max_seq_length, shifting and drop_last)
                    is_open = False
            if is_open and (by_document or place == len(order) - 1):
                n, p = _close(packs, n, p, seeds, max_seq_length, drop_last)
                is_open = False
    return packs[:n], parts[:p]


@njit(cache=True, nogil=True)
def reseed_packs(packs, seeds, max_seq_length, dupe_pass):  # type: ignore[no-untyped-def]
    """The rows of the first pass for another one: other masks and another place in the shuffle.

    Args:
      packs: ``PACK[rows]`` of one pass, as planned; not changed.
      seeds: uint64[documents].
      max_seq_length: of a row.
      dupe_pass: the other pass.
    """
    again = packs.copy()
    for n in range(len(again)):
        again[n].dupe_pass = dupe_pass
        _seed_row(again[n], seeds, max_seq_length)
    return again
