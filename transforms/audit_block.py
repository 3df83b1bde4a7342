"""The documents of one block for the audit, and what the rows of a shard hold of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numba import njit

from transforms.audit_columns import halves
from transforms.long_sentences import longest_part, split_long

__all__ = ["CorpusBlock", "Coverage", "find_documents"]


@dataclasses.dataclass(frozen=True)
class CorpusBlock:
    """The documents of a block that have tokens, sorted by key.

    Attributes:
      ids: the tokens, in the order of delivery.
      sentence_offsets: int64[sentences + 1], into ``ids``.
      first_sentence, end_sentence: int64[documents].
      low, high: uint64[documents], halves of the keys.
      first_copy, end_copy: int64[documents], the run of documents with the same key.
      alike: bool[documents], all copies of this document have the same sentences.
      num_empty: documents without a token, in none of the arrays.
      num_dropped: copies of documents that the data set leaves out, in none of the arrays either.
      continues: uint8[tokens], not 0 where a token goes on with the word before it; empty where the
        vocabulary's table says it.
    """

    ids: np.ndarray
    sentence_offsets: np.ndarray
    first_sentence: np.ndarray
    end_sentence: np.ndarray
    low: np.ndarray
    high: np.ndarray
    first_copy: np.ndarray
    end_copy: np.ndarray
    alike: np.ndarray
    num_empty: int
    continues: np.ndarray
    num_dropped: int = 0

    @classmethod
    def of(
        cls, batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, deduplicate: bool = False
    ) -> CorpusBlock:
        """From the token batches of a block, in any order; of copies all or, by rule, one."""
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        if not table.num_rows:
            table = schema.empty_table()
        block, rows = cls._of(table)
        if not deduplicate:
            return block
        # Of copies that differ, the one whose lengths and tokens come first.
        firsts = np.flatnonzero(block.first_copy == np.arange(len(rows)))
        kept = [
            start if alike else min(range(start, end), key=block.content)
            for start, end, alike in zip(
                firsts.tolist(), block.end_copy[firsts].tolist(), block.alike[firsts], strict=True
            )
        ]
        alone, _ = cls._of(table.take(pa.array(np.sort(rows[kept]))).combine_chunks())
        dropped = len(rows) - len(kept)
        return dataclasses.replace(alone, num_empty=block.num_empty, num_dropped=dropped)

    @classmethod
    def _of(cls, table: pa.Table) -> tuple[CorpusBlock, np.ndarray]:
        """The documents of a table in one chunk, and int64[documents]: their rows in it."""
        keys, sentences = (_only_chunk(table.column(name)) for name in ("key", "sentences"))
        documents = sentences.offsets.to_numpy().astype(np.int64)
        values = sentences.flatten()
        offsets = values.offsets.to_numpy().astype(np.int64)
        documents, offsets = documents - documents[0], offsets - offsets[0]
        ids = values.flatten().to_numpy()
        continues = np.zeros(0, np.uint8)
        if "continues_word" in table.schema.names:
            continues = _only_chunk(table.column("continues_word")).flatten().to_numpy()
        low, high = halves(keys)
        filled = np.flatnonzero(np.diff(documents))
        order = filled[np.lexsort((low[filled], high[filled]))]
        low, high = low[order], high[order]
        first, end = documents[:-1][order], documents[1:][order]
        new = np.ones(len(order), bool)
        new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        starts = np.flatnonzero(new)
        ends = np.append(starts[1:], len(order))[: len(starts)]
        alike = np.ones(len(order), bool)
        for start, stop in zip(starts, ends, strict=True):
            if stop - start > 1:
                contents = {_content(ids, offsets, first[d], end[d]) for d in range(start, stop)}
                alike[start:stop] = len(contents) == 1
        run = np.cumsum(new) - 1
        block = cls(
            ids=ids,
            sentence_offsets=offsets,
            first_sentence=first,
            end_sentence=end,
            low=low,
            high=high,
            first_copy=starts[run] if len(run) else run,
            end_copy=ends[run] if len(run) else run,
            alike=alike,
            num_empty=table.num_rows - len(order),
            continues=continues,
        )
        return block, order

    def content(self, document: int) -> bytes:
        """What a document holds: where its sentences end, and the ids of its tokens."""
        first, end = self.first_sentence[document], self.end_sentence[document]
        return _content(self.ids, self.sentence_offsets, first, end)

    def long_sentences(self, max_seq_length: int) -> int:
        """How many sentences have more tokens than a row but for [CLS] and two [SEP]."""
        sizes = self.sentence_offsets[1:] - self.sentence_offsets[:-1]
        return int((sizes + 3 > max_seq_length).sum())

    def without_long_sentences(self, marks: np.ndarray, max_seq_length: int) -> CorpusBlock:
        """The same documents with these sentences split as in a build."""
        offsets, before = split_long(
            self.ids,
            self.sentence_offsets,
            self.continues,
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

    def counts(self, unk_id: int) -> dict[str, int]:
        """What the manifest counts of documents."""
        sentences = self.end_sentence - self.first_sentence
        copies = np.arange(len(self.low)) != self.first_copy
        return {
            "documents": len(self.low) + self.num_empty + self.num_dropped,
            "duplicate_documents": int(np.count_nonzero(copies)) + self.num_dropped,
            "documents_without_tokens": self.num_empty,
            "one_sentence_documents": int(np.count_nonzero(sentences == 1)),
            "sentences": int(sentences.sum()),
            "tokens": len(self.ids),
            "unknown_tokens": int(np.count_nonzero(self.ids == unk_id)),
        }

    def key(self, document: int) -> str:
        """The key of a document, in hexadecimal."""
        both = np.array([self.low[document], self.high[document]], "<u8")
        return both.tobytes().hex()


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _content(ids: np.ndarray, offsets: np.ndarray, first: int, end: int) -> bytes:
    bounds = offsets[first : end + 1]
    return (bounds - bounds[0]).tobytes() + ids[bounds[0] : bounds[-1]].tobytes()


@dataclasses.dataclass
class Coverage:
    """What the rows of one shard hold of its block; filled row group by row group.

    Where a part fits its sentences at several places, which tokens it covers is not known: then
    there is a least and a most.

    Attributes:
      least, most: int32[tokens + 1], how many parts begin less those that end before a token.
      sentences: int32[passes, sentences + 1], likewise of chunks of sentences, of pairs.
      tokens: int64[2, passes, documents], lengths of all parts of a document, of mlm.
      used: bool[documents], some row is of it.
    """

    least: np.ndarray
    most: np.ndarray
    sentences: np.ndarray
    tokens: np.ndarray
    used: np.ndarray

    @classmethod
    def of(cls, block: CorpusBlock, *, passes: int, pairs: bool) -> Coverage:
        """Nothing covered yet."""
        tokens, documents = len(block.ids), len(block.low)
        sentences = len(block.sentence_offsets) - 1
        return cls(
            least=np.zeros(tokens + 1, np.int32),
            most=np.zeros(tokens + 1, np.int32),
            sentences=np.zeros((passes if pairs else 0, sentences + 1), np.int32),
            tokens=np.zeros((2, 0 if pairs else passes, documents), np.int64),
            used=np.zeros(documents, np.bool_),
        )

    def covered(self, block: CorpusBlock) -> tuple[int, int]:
        """How many of the block's tokens are in some row, at least and at most."""
        least, most = (np.cumsum(depth[:-1]) for depth in (self.least, self.most))
        copies = np.zeros(len(block.ids), np.int32)
        fixed = np.zeros(2, np.int64)  # of copies that differ, nothing is known
        for d in np.flatnonzero(block.first_copy == np.arange(len(block.low))):
            size = block.end_copy[d] - d
            if block.alike[d]:
                low = block.sentence_offsets[block.first_sentence[d]]
                high = block.sentence_offsets[block.end_sentence[d]]
                copies[low:high] = size
                continue
            for other in range(d, block.end_copy[d]):
                ends = block.end_sentence[other], block.first_sentence[other]
                fixed[1] += block.sentence_offsets[ends[0]] - block.sentence_offsets[ends[1]]
        fixed[0] += np.minimum(least, copies > 0).sum()
        fixed[1] += np.minimum(most, copies).sum()
        return int(fixed[0]), int(fixed[1])


def find_documents(block: CorpusBlock, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """int64[keys]: the first document with each key; -1 where the block has none."""
    return _find_documents(block.low, block.high, low, high)


@njit(cache=True, nogil=True)
def _find_documents(lows, highs, low, high):  # type: ignore[no-untyped-def]
    """Documents are sorted by (high, low)."""
    found = np.full(len(low), -1, np.int64)
    for i in range(len(low)):
        left, right = 0, len(lows)
        while left < right:
            middle = (left + right) // 2
            if highs[middle] < high[i] or (highs[middle] == high[i] and lows[middle] < low[i]):
                left = middle + 1
            else:
                right = middle
        if left < len(lows) and lows[left] == low[i] and highs[left] == high[i]:
            found[i] = left
    return found
