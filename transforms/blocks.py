"""Groups tokenized documents into blocks: the one shuffle.

A document's block is a hash of (seed, key), so that it depends on its text alone. Train and
validation documents are told apart here, before anything is duplicated, and never share a block.

Two implementations stand behind one contract, ``(block, iterable of token batches)``:

* :class:`GroupIntoBlocks` with ``spill_dir=None``: a GroupByKey of compact batches, for runners
  whose shuffle spills to disk (Flink, Dataflow, Spark).
* with a ``spill_dir``: every bundle writes files sorted by block and only their ranges are grouped, for the
  local runner, which keeps every collection in memory.
"""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from schemas.arrow import KEY_BYTES, token_batch
from schemas.errors import BuildError
from transforms.keys import key_halves
from transforms.randomness import SHARDS, SPLIT, uniform_hash

__all__ = [
    "BlockBatches",
    "BlockLayout",
    "GroupIntoBlocks",
    "SpilledRange",
    "assign_blocks",
    "spill",
    "split_by_block",
]

#: Spill when this many bytes of tokens are waiting; several spills of a bundle make several files.
SPILL_BYTES = 32 << 20

#: Flink sorts the elements of a shuffle in managed memory; larger ones fail.
SHUFFLE_ELEMENT_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class BlockLayout:
    """How documents are spread over blocks, and blocks over splits.

    Blocks ``0 .. num_shards - 1`` are train, the following ``num_validation_shards`` validation.
    """

    random_seed: int
    num_shards: int
    num_validation_shards: int = 0
    validation_fraction: float = 0.0

    @property
    def num_blocks(self) -> int:
        """Blocks of both splits."""
        return self.num_shards + self.num_validation_shards

    def split_of(self, block: int) -> tuple[str, int, int]:
        """The split of a block, the block's number in it, and how many the split has."""
        if block < self.num_shards:
            return "train", block, self.num_shards
        return "validation", block - self.num_shards, self.num_validation_shards


def assign_blocks(keys: pa.FixedSizeBinaryArray, layout: BlockLayout) -> np.ndarray:
    """The block of each document, int64[documents]: a function of (seed, key) alone."""
    low, high = key_halves(keys)
    place = uniform_hash(layout.random_seed, SHARDS, low, high)
    if not layout.num_validation_shards:
        return (place % np.uint64(layout.num_shards)).astype(np.int64)
    coin = uniform_hash(layout.random_seed, SPLIT, low, high) >> np.uint64(11)
    held_out = coin < np.uint64(layout.validation_fraction * (1 << 53))
    train = place % np.uint64(layout.num_shards)
    validation = layout.num_shards + place % np.uint64(layout.num_validation_shards)
    return np.where(held_out, validation, train).astype(np.int64)


def split_by_block(table: pa.Table, layout: BlockLayout) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The documents of each block that occurs in a table of token batches, blocks ascending."""
    table = table.combine_chunks()
    if not table.num_rows:
        return
    blocks = assign_blocks(table.column("key").chunk(0), layout)
    order = np.argsort(blocks, kind="stable")
    taken = table.take(pa.array(order)).combine_chunks().to_batches()[0]
    blocks = blocks[order]
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    for start, end in zip(starts, np.append(starts[1:], len(blocks)), strict=True):
        yield int(blocks[start]), taken.slice(start, end - start)


@dataclasses.dataclass(frozen=True)
class SpilledRange:
    """Where the documents of one block lie in one spill file: an Arrow IPC stream."""

    path: str
    offset: int
    length: int

    def read(self) -> pa.RecordBatch:
        """The documents of the range.

        Raises:
          BuildError: the spill file is gone.
        """
        try:
            with pa.OSFile(self.path) as file:
                file.seek(self.offset)
                buffer = file.read_buffer(self.length)
        except FileNotFoundError as error:
            raise BuildError(
                f"{self.path}: the spill file is gone; leave the temp folder alone while a build runs"
            ) from error
        with pa.ipc.open_stream(buffer) as stream:
            return stream.read_next_batch()


def spill(
    batches: list[pa.RecordBatch], layout: BlockLayout, directory: str
) -> list[tuple[int, SpilledRange]]:
    """Writes batches to one new file, sorted by block.

    A retried bundle writes another file; the ranges of only one of them are ever read.
    """
    path = os.path.join(directory, f"{uuid.uuid4().hex}.arrow")
    ranges = []
    with pa.OSFile(path, "wb") as file:
        for block, batch in split_by_block(pa.Table.from_batches(batches), layout):
            start = file.tell()
            with pa.ipc.new_stream(file, batch.schema) as stream:
                stream.write_batch(batch)
            ranges.append((block, SpilledRange(path, start, file.tell() - start)))
    return ranges


class _SpillByBlock(beam.DoFn):
    """Token batches in, ``(block, SpilledRange)`` out; holds at most ``SPILL_BYTES`` of tokens."""

    def __init__(self, layout: BlockLayout, directory: str):
        self._layout = layout
        self._directory = directory

    def setup(self) -> None:
        os.makedirs(self._directory, exist_ok=True)

    def start_bundle(self) -> None:
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def process(self, batch: pa.RecordBatch) -> Iterator[tuple[int, SpilledRange]]:
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= SPILL_BYTES:
            yield from self._spill()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        window = GlobalWindow()
        for element in self._spill():
            yield WindowedValue(element, window.max_timestamp(), [window])

    def _spill(self) -> list[tuple[int, SpilledRange]]:
        if not self._waiting:
            return []
        ranges = spill(self._waiting, self._layout, self._directory)
        Metrics.counter("GroupIntoBlocks", "spilled_bytes").inc(sum(r.length for _, r in ranges))
        self._waiting, self._bytes = [], 0
        return ranges


class _SplitForShuffle(beam.DoFn):
    """Token batches in, ``(block, batch)`` out, each small enough or a single document."""

    def __init__(self, layout: BlockLayout):
        self._layout = layout

    def process(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        for block, part in split_by_block(pa.Table.from_batches([batch]), self._layout):
            for start, end in _pieces(part, max_bytes=SHUFFLE_ELEMENT_BYTES):
                yield block, part.slice(start, end - start)


def _pieces(batch: pa.RecordBatch, *, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Runs of documents that have at most so many bytes, or are one document that has more."""
    sentences = batch.column("sentences")
    tokens = np.asarray(sentences.values.offsets, np.int64)[np.asarray(sentences.offsets)]
    width = batch.schema.field("sentences").type.value_type.value_type.bit_width // 8
    marks = int("continues_word" in batch.schema.names)  # a byte a token
    # A document's key and offsets, and four bytes of offset for each sentence.
    ends = tokens * (width + marks) + np.asarray(sentences.offsets, np.int64) * 4
    ends += np.arange(len(ends)) * (KEY_BYTES + 4 + 4 * marks)
    start = 0
    while start < batch.num_rows:
        end = int(np.searchsorted(ends, ends[start] + max_bytes, side="right")) - 1
        yield start, (start := max(end, start + 1))


@dataclasses.dataclass(frozen=True)
class BlockBatches:
    """The token batches of one block, read from the spill files while they are iterated over."""

    ranges: tuple[SpilledRange, ...]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return (spilled.read() for spilled in self.ranges)


def _open_ranges(
    block: int, ranges: Iterable[SpilledRange | None]
) -> tuple[int, Iterable[pa.RecordBatch]]:
    return block, BlockBatches(tuple(r for r in ranges if r is not None))


class GroupIntoBlocks(beam.PTransform):
    """Token batches in, ``(block, iterable of token batches)`` out, one element for **every** block.

    A block without documents comes with nothing in it, so that every shard gets written.

    Args:
      layout: which document goes where.
      vocab_size, word_marks: decide the schema of the token batches.
      spill_dir: a folder on this machine's disk for the implementation with files; None for the
        runner's own GroupByKey.
    """

    def __init__(
        self,
        layout: BlockLayout,
        *,
        vocab_size: int,
        word_marks: bool = False,
        spill_dir: str | None = None,
    ):
        super().__init__()
        self.layout = layout
        self.schema = token_batch(vocab_size, word_marks=word_marks)
        self.spill_dir = spill_dir

    def expand(self, batches: beam.PCollection) -> beam.PCollection:
        split: beam.DoFn
        keyed: Any
        if self.spill_dir is None:
            split, nothing = _SplitForShuffle(self.layout), _no_documents(self.schema)
            keyed = tuple[int, pa.RecordBatch]
        else:
            split, nothing = _SpillByBlock(self.layout, self.spill_dir), None
            keyed = tuple[int, SpilledRange | None]
        parts = batches | "SplitByBlock" >> beam.ParDo(split).with_output_types(keyed)
        # A marker for every block, or one without documents would not come out at all.
        markers = (
            batches.pipeline
            | "ListBlocks" >> beam.Create(range(self.layout.num_blocks), reshuffle=False)
            | "MarkBlocks" >> beam.Map(lambda block: (block, nothing)).with_output_types(keyed)
        )
        grouped = (
            (parts, markers) | "Flatten" >> beam.Flatten() | "GroupByBlock" >> beam.GroupByKey()
        )
        if self.spill_dir is None:
            return grouped
        return grouped | "OpenRanges" >> beam.MapTuple(_open_ranges)


def _no_documents(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
