"""The documents of one block as flat arrays: what examples are made of.

A block is gathered from token batches in whatever order they come, and sorted by key before anything
random happens, so that the order in which a shuffle delivers makes no difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numba import njit

from schemas.errors import BuildError
from transforms.keys import key_halves
from transforms.long_sentences import longest_part, split_long

__all__ = ["TokenBlock", "covered_tokens", "gather_block"]


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
      continues_word: uint8[tokens], 1 where a token belongs to the word of the token before it; None
        where the vocabulary alone tells (``##``).
      num_dropped: copies of documents that are in none of the arrays either.
    """

    ids: np.ndarray
    sentence_offsets: np.ndarray
    first_sentence: np.ndarray
    end_sentence: np.ndarray
    low: np.ndarray
    high: np.ndarray
    num_empty: int
    continues_word: np.ndarray | None = None
    num_dropped: int = 0

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

    def long_sentences(self, max_seq_length: int) -> int:
        """How many sentences are longer than the text of a row."""
        return int(np.count_nonzero(np.diff(self.sentence_offsets) > max_seq_length - 3))

    def without_long_sentences(self, marks: np.ndarray, max_seq_length: int) -> TokenBlock:
        """The same documents, with parts in the place of sentences that a row has no room for.

        Args:
          marks: ``transforms.long_sentences.table_of_marks``.
          max_seq_length: of a row.
        """
        continues = self.continues_word
        offsets, before = split_long(
            self.ids,
            self.sentence_offsets,
            np.zeros(0, np.uint8) if continues is None else continues,
            marks,
            max_seq_length - 3,
            longest_part(max_seq_length),
        )
        return dataclasses.replace(
            self,
            sentence_offsets=offsets,
            first_sentence=before[self.first_sentence],
            end_sentence=before[self.end_sentence],
        )

    def document_counts(self, unk_id: int) -> dict[str, int]:
        """What the manifest counts of a block's documents, whatever is made of them."""
        starts, _ = self.copies()
        sentences = self.end_sentence - self.first_sentence
        return {
            "documents": len(self.low) + self.num_empty + self.num_dropped,
            "documents_without_tokens": self.num_empty,
            "duplicate_documents": int(np.count_nonzero(starts != np.arange(len(starts))))
            + self.num_dropped,
            "one_sentence_documents": int(np.count_nonzero(sentences == 1)),
            "sentences": int(sentences.sum()),
            "tokens": len(self.ids),
            "unknown_tokens": int(np.count_nonzero(self.ids == unk_id)),
        }


def gather_block(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, deduplicate: bool = False
) -> TokenBlock:
    """Gathers a block's token batches, in any order, and sorts the documents by key.

    Args:
      batches: batches of ``schema``; the order in which they and their documents come makes no
        difference to what is made of the block.
      schema: ``schemas.arrow.token_batch``.
      deduplicate: keep one of the documents with the same key. Where they differ after all, see
        :func:`_sort_copies`, it is the first of them in that order.

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
    block, rows = _gather(table)
    if not deduplicate:
        return block
    first, _ = block.copies()
    kept = rows[first == np.arange(len(first))]
    if len(kept) == len(rows):
        return block
    alone, _ = _gather(table.take(pa.array(np.sort(kept))).combine_chunks())
    return dataclasses.replace(alone, num_empty=block.num_empty, num_dropped=len(rows) - len(kept))


def _gather(table: pa.Table) -> tuple[TokenBlock, np.ndarray]:
    """The block of a table in one chunk, and int64[documents]: their rows in it."""
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
    block = TokenBlock(
        ids=ids,
        sentence_offsets=sentence_offsets,
        first_sentence=document_offsets[:-1][order],
        end_sentence=document_offsets[1:][order],
        low=low[order],
        high=high[order],
        num_empty=documents - len(order),
        continues_word=_word_marks(table),
    )
    return block, order


def _word_marks(table: pa.Table) -> np.ndarray | None:
    if "continues_word" not in table.column_names:
        return None
    return np.asarray(_only_chunk(table.column("continues_word")).flatten())


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
def covered_tokens(starts, ends, more_starts, more_ends, num_tokens):  # type: ignore[no-untyped-def]
    """How many of a block's tokens lie in at least one of some ranges.

    Args:
      starts, ends, more_starts, more_ends: int64[ranges], tokens of the block; of pairs A's and B's,
        which lie side by side in memory.
      num_tokens: tokens of the block.
    """
    depth = np.zeros(num_tokens + 1, np.int32)
    for n in range(len(starts)):
        depth[starts[n]] += 1
        depth[ends[n]] -= 1
        depth[more_starts[n]] += 1
        depth[more_ends[n]] -= 1
    covered = 0
    open_ranges = 0
    for t in range(num_tokens):
        open_ranges += depth[t]
        covered += open_ranges > 0
    return covered


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
