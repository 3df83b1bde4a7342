"""Turns one block of tokenized documents into masked examples, as Arrow record batches.

A block is planned (``transforms.pairing``), put in shuffled order, laid out row group by row group and
masked (``transforms.masking``). All of it is a function of the block's documents and the options;
nothing here knows of files or of Beam.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numba import njit

from schemas.arrow import example_schema
from schemas.errors import BuildError
from schemas.manifest import HISTOGRAM_BINS
from transforms.keys import key_array, key_halves
from transforms.masking import Fates, mask_rows
from transforms.pairing import PairCounts, covered_tokens, plan_pairs
from transforms.randomness import document_seeds

__all__ = [
    "ROW_GROUP_ROWS",
    "ExampleOptions",
    "ExampleStream",
    "SpecialTokens",
    "TokenBlock",
    "gather_block",
]

#: Rows of a row group; part of the format, so that a shard's bytes do not depend on the machine.
ROW_GROUP_ROWS = 16_384


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """What the examples need to know of the vocabulary."""

    cls_id: int
    sep_id: int
    mask_id: int
    unk_id: int
    #: bool[vocabulary]: the token continues a word (``##ing``).
    is_subword: np.ndarray
    #: The ids random replacements are drawn from.
    random_ids: np.ndarray

    @property
    def vocab_size(self) -> int:
        """Entries of the vocabulary."""
        return len(self.is_subword)


@dataclasses.dataclass(frozen=True)
class ExampleOptions:
    """How examples are made; the names are those of the reference's flags."""

    masked_lm_prob: float
    short_seq_prob: float
    dupe_factor: int
    random_seed: int
    do_whole_word_mask: bool
    provenance: bool


@dataclasses.dataclass(frozen=True)
class TokenBlock:
    """The documents of one block as flat arrays, sorted by key.

    Attributes:
      ids: uint16 or uint32[tokens], in the order of delivery.
      sentence_offsets: int64[sentences + 1], into ``ids``.
      first_sentence, end_sentence: int64[documents], into the sentences. Documents without a
        sentence are not among them.
      low, high: uint64[documents], the halves of the keys.
      num_empty: documents without a token, which are in none of the arrays.
    """

    ids: np.ndarray
    sentence_offsets: np.ndarray
    first_sentence: np.ndarray
    end_sentence: np.ndarray
    low: np.ndarray
    high: np.ndarray
    num_empty: int

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """For each document the run [start, end) of documents with the same key, itself included."""
        n = len(self.low)
        if not n:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        new = np.ones(n, bool)
        new[1:] = (self.low[1:] != self.low[:-1]) | (self.high[1:] != self.high[:-1])
        starts = np.flatnonzero(new)
        run = np.cumsum(new) - 1
        return starts[run], np.append(starts[1:], n)[run]

    def document_counts(self, unk_id: int) -> dict[str, int]:
        """What the manifest counts of a block's documents, whatever is made of them."""
        starts, _ = self.copies()
        sentences = self.end_sentence - self.first_sentence
        return {
            "documents": len(self.low) + self.num_empty,
            "documents_without_tokens": self.num_empty,
            "duplicate_documents": int(np.count_nonzero(starts != np.arange(len(starts)))),
            "one_sentence_documents": int(np.count_nonzero(sentences == 1)),
            "sentences": int(sentences.sum()),
            "tokens": len(self.ids),
            "unknown_tokens": int(np.count_nonzero(self.ids == unk_id)),
        }


def gather_block(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> TokenBlock:
    """Gathers a block's token batches, in any order, and sorts the documents by key.

    Args:
      batches: batches of ``schema``; the order in which they and their documents come makes no
        difference to what is made of the block.
      schema: ``schemas.arrow.token_batch``.

    Raises:
      BuildError: more than 2^31 - 1 tokens.
    """
    table = pa.Table.from_batches(batches, schema)
    tokens = sum(len(chunk.flatten().flatten()) for chunk in table.column("sentences").chunks)
    if tokens > np.iinfo(np.int32).max:
        raise BuildError(
            f"a block has {tokens:,} tokens, more than Arrow's offsets can count; give more --num_shards"
        )
    table = table.combine_chunks()
    documents = table.num_rows
    sentences = _only_chunk(table.column("sentences"))
    # A sliced array's ``offsets`` and ``flatten`` know of the slice, its buffers do not.
    document_offsets = np.asarray(sentences.offsets, np.int64)
    document_offsets = document_offsets - document_offsets[0]
    values = sentences.flatten()
    sentence_offsets = np.asarray(values.offsets, np.int64)
    sentence_offsets = sentence_offsets - sentence_offsets[0]
    low, high = key_halves(_only_chunk(table.column("key")))
    filled = np.flatnonzero(document_offsets[1:] > document_offsets[:-1])
    order = filled[np.lexsort((low[filled], high[filled]))]
    ids = np.asarray(values.flatten())
    _sort_copies(order, low, high, document_offsets, sentence_offsets, ids)
    return TokenBlock(
        ids=ids,
        sentence_offsets=sentence_offsets,
        first_sentence=document_offsets[:-1][order],
        end_sentence=document_offsets[1:][order],
        low=low[order],
        high=high[order],
        num_empty=documents - len(order),
    )


def _sort_copies(
    order: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    document_offsets: np.ndarray,
    sentence_offsets: np.ndarray,
    ids: np.ndarray,
) -> None:
    """Sorts documents with the same key by what they hold, in place, so that arrival decides nothing.

    Copies of a text may differ after all: records that name another language have other sentences.
    """
    same = (low[order[1:]] == low[order[:-1]]) & (high[order[1:]] == high[order[:-1]])
    steps = np.diff(np.concatenate([[0], same, [0]]).astype(np.int8))
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)

    def content(document: int) -> bytes:
        first, end = document_offsets[document : document + 2]
        offsets = sentence_offsets[first : end + 1]
        return (offsets - offsets[0]).tobytes() + ids[offsets[0] : offsets[-1]].tobytes()

    for start, end in zip(starts, ends + 1, strict=True):
        order[start:end] = sorted(order[start:end].tolist(), key=content)


@njit(cache=True, nogil=True)
def _lay_out(ids, pairs, order, cls_id, sep_id, input_ids, token_type_ids, offsets):  # type: ignore[no-untyped-def]
    """Writes ``[CLS] A [SEP] B [SEP]`` for each pair in the given order.

    Args:
      ids: the block's tokens.
      pairs: ``PAIR[examples]``; ``order``: int64[rows], which of them, in which order.
      input_ids, token_type_ids: filled, large enough; offsets: int32[rows + 1], filled.
    """
    p = 0
    offsets[0] = 0
    for r in range(len(order)):
        pair = pairs[order[r]]
        b = p + 2 + pair.a_end - pair.a_start
        end = b + 1 + pair.b_end - pair.b_start
        input_ids[p] = cls_id
        input_ids[p + 1 : b - 1] = ids[pair.a_start : pair.a_end]
        input_ids[b - 1] = sep_id
        input_ids[b : end - 1] = ids[pair.b_start : pair.b_end]
        input_ids[end - 1] = sep_id
        token_type_ids[p:b] = 0
        token_type_ids[b:end] = 1
        p = end
        offsets[r + 1] = p


class ExampleStream:
    """The examples of one block at one length: iterate over it, then read ``counts``.

    Args:
      block: the documents.
      options: how examples are made.
      special: what the vocabulary says.
      max_seq_length, max_predictions_per_seq: of this length.

    Iterating gives one ``schemas.arrow.example_schema`` batch for each row group.
    """

    def __init__(
        self,
        block: TokenBlock,
        options: ExampleOptions,
        special: SpecialTokens,
        *,
        max_seq_length: int,
        max_predictions_per_seq: int,
    ):
        self._block = block
        self._options = options
        self._special = special
        self._max_seq_length = max_seq_length
        self._max_predictions = max_predictions_per_seq
        self.schema = example_schema(special.vocab_size, provenance=options.provenance)
        self.histogram = np.zeros(HISTOGRAM_BINS, np.int64)
        self._pairs, self.counts = self._plan()

    def _plan(self) -> tuple[np.ndarray, dict[str, int]]:
        block, options = self._block, self._options
        copies_start, copies_end = block.copies()
        pairs, counted = plan_pairs(
            block.sentence_offsets,
            block.first_sentence,
            block.end_sentence,
            copies_start,
            copies_end,
            document_seeds(options.random_seed, block.low, block.high),
            options.dupe_factor,
            self._max_seq_length,
            options.short_seq_prob,
        )
        counts = {
            "examples": len(pairs),
            "not_next": int(counted[PairCounts.NOT_NEXT]),
            "single_segment_not_next": int(counted[PairCounts.SINGLE_SEGMENT_NOT_NEXT]),
            "chunks_without_partner": int(counted[PairCounts.WITHOUT_PARTNER]),
            "short": int(np.count_nonzero(pairs["short"])),
            "uncovered_tokens": len(block.ids) - int(covered_tokens(pairs, len(block.ids))),
            "example_tokens": 0,
            "unknown_tokens": 0,
            "mask_tokens": 0,
            "random_tokens": 0,
            "kept_tokens": 0,
        }
        return pairs, counts

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        order = np.argsort(self._pairs["shuffle_key"], kind="stable")
        for start in range(0, len(order), ROW_GROUP_ROWS):
            yield self._rows(order[start : start + ROW_GROUP_ROWS])

    def _rows(self, order: np.ndarray) -> pa.RecordBatch:
        special, options = self._special, self._options
        room = len(order) * self._max_seq_length
        input_ids = np.empty(room, self._block.ids.dtype)
        token_type_ids = np.empty(room, np.uint8)
        offsets = np.empty(len(order) + 1, np.int32)
        _lay_out(
            self._block.ids,
            self._pairs,
            order,
            special.cls_id,
            special.sep_id,
            input_ids,
            token_type_ids,
            offsets,
        )
        input_ids, token_type_ids = input_ids[: offsets[-1]], token_type_ids[: offsets[-1]]
        lengths = np.diff(offsets)
        self.counts["unknown_tokens"] += int(np.count_nonzero(input_ids == special.unk_id))
        joins_word = (
            special.is_subword if options.do_whole_word_mask else np.zeros_like(special.is_subword)
        )
        positions, labels, prediction_offsets, fates = mask_rows(
            input_ids,
            offsets,
            self._pairs["mask_seed"][order],
            joins_word,
            special.random_ids,
            special.cls_id,
            special.sep_id,
            special.mask_id,
            options.masked_lm_prob,
            self._max_predictions,
        )
        self._count(lengths, fates)
        columns = [
            _lists(input_ids, offsets, self.schema.field("input_ids").type),
            _lists(token_type_ids, offsets, self.schema.field("token_type_ids").type),
            _lists(positions, prediction_offsets, self.schema.field("masked_lm_positions").type),
            _lists(labels, prediction_offsets, self.schema.field("masked_lm_ids").type),
            pa.array(self._pairs["label"][order]),
            pa.array(lengths.astype(np.uint16)),
        ]
        if options.provenance:
            columns += self._provenance(self._pairs[order])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _count(self, lengths: np.ndarray, fates: np.ndarray) -> None:
        self.counts["example_tokens"] += int(lengths.sum())
        self.counts["mask_tokens"] += int(fates[Fates.MASK_TOKEN])
        self.counts["random_tokens"] += int(fates[Fates.RANDOM_TOKEN])
        self.counts["kept_tokens"] += int(fates[Fates.KEPT_TOKEN])
        bins = (lengths - 1) * HISTOGRAM_BINS // self._max_seq_length
        self.histogram += np.bincount(bins, minlength=HISTOGRAM_BINS)

    def _provenance(self, pairs: np.ndarray) -> list[pa.Array]:
        columns: list[pa.Array] = []
        for side in ("a", "b"):
            documents = pairs[f"{side}_document"]
            base = self._block.first_sentence[documents]
            columns += [
                key_array(self._block.low[documents], self._block.high[documents]),
                pa.array((pairs[f"{side}_first_sentence"] - base).astype(np.uint32)),
                pa.array((pairs[f"{side}_end_sentence"] - base).astype(np.uint32)),
            ]
        return [*columns, pa.array(pairs["dupe_pass"])]


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _lists(values: np.ndarray, offsets: np.ndarray, list_type: pa.ListType) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), type=list_type)
