"""Writes each block's examples as Parquet shards, whole or not at all.

The element that comes out, :class:`BlockInfo`, carries every count of the block; totals that users
see are made of these, never of counters, which may count a retry twice.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import posixpath
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.metrics import Metrics

from schemas import SCHEMA_VERSION
from schemas.arrow import token_batch
from schemas.manifest import LABEL_CONVENTIONS
from schemas.stores import open_file
from transforms import SOURCES_DIGEST, progress
from transforms.atomic import atomic_write, sync_file
from transforms.blocks import BlockLayout
from transforms.examples import (
    ExampleOptions,
    ExampleStream,
    SpecialTokens,
)
from transforms.keys import key_array
from transforms.reference_examples import ReferenceStream, gather_group
from transforms.token_blocks import TokenBlock, gather_block

__all__ = [
    "RESUME_FOLDER",
    "BlockInfo",
    "ShardInfo",
    "ShardSettings",
    "WriteExamples",
    "gather",
    "open_stream",
    "shard_path",
    "write_block",
    "write_shard",
]

_LOGGER = logging.getLogger(__name__)

#: What ``--resume`` needs to know of the shards that are done; gone when the manifest is there.
RESUME_FOLDER = ".resume"

_COMPRESSION_LEVEL = 1

_READ_BYTES = 4 << 20


@dataclasses.dataclass(frozen=True)
class ShardInfo:
    """One shard, as the manifest will describe it.

    Attributes:
      path: relative to the output, e.g. ``seq128/train-00000-of-00016.parquet``.
      max_seq_length, max_predictions_per_seq, split: which data set it is part of.
      rows, bytes, sha256: of the file.
      counts: of its examples, see ``transforms.examples.ExampleStream``.
      histogram: rows by ``num_tokens``.
    """

    path: str
    max_seq_length: int
    max_predictions_per_seq: int
    split: str
    rows: int
    bytes: int
    sha256: str
    counts: dict[str, int]
    histogram: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class BlockInfo:
    """One block: the counts of its documents, and its shards, one for each length."""

    block: int
    split: str
    counts: dict[str, int]
    shards: tuple[ShardInfo, ...]


def shard_path(max_seq_length: int, layout: BlockLayout, block: int) -> str:
    """The path of a shard in the output."""
    split, index, of = layout.split_of(block)
    return f"seq{max_seq_length}/{split}-{index:05d}-of-{of:05d}.parquet"


class _HashedFile:
    """Passes bytes on to a file and keeps their sha256 and number."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._file.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def _column_settings(schema: pa.Schema) -> dict[str, Any]:
    """Encodings that measured best: byte streams of ids apart, and no dictionaries for them."""
    encoding, dictionary = {"num_tokens": "BYTE_STREAM_SPLIT"}, []
    for field in schema:
        name, kind = field.name, field.type
        while pa.types.is_list(kind):
            name, kind = f"{name}.list.element", kind.value_type
        if name in encoding:
            continue
        if name == field.name or pa.types.is_fixed_size_binary(kind):
            dictionary.append(name)
        else:
            # Of one byte there is nothing to split; booleans are bits.
            wide = kind not in (pa.uint8(), pa.bool_())
            encoding[name] = "BYTE_STREAM_SPLIT" if wide else "PLAIN"
    return {"column_encoding": encoding, "use_dictionary": dictionary}


def write_shard(
    stream: ExampleStream | ReferenceStream, path: str, *, metadata: dict[str, str]
) -> tuple[int, str]:
    """Writes all examples of a stream to ``path``, under a temporary name until it is whole.

    It may be in the system's memory only when this returns; see ``transforms.atomic.sync_file``.

    Returns:
      The file's bytes and sha256.
    """
    schema = stream.schema.with_metadata(metadata)
    with atomic_write(path, sync=False) as file:
        hashed = _HashedFile(file)
        with pq.ParquetWriter(
            pa.PythonFile(hashed, mode="w"),
            schema,
            compression="zstd",
            compression_level=_COMPRESSION_LEVEL,
            write_statistics=False,
            **_column_settings(schema),
        ) as writer:
            for batch in stream:
                writer.write_batch(batch)
    return hashed.size, hashed.sha256


@dataclasses.dataclass(frozen=True)
class ShardSettings:
    """What :class:`WriteExamples` is configured with; small and picklable.

    ``word_marks``: the batches say which tokens continue a word, see ``schemas.arrow.token_batch``.
    """

    output: str
    lengths: tuple[tuple[int, int], ...]
    options: ExampleOptions
    special: SpecialTokens
    layout: BlockLayout
    fingerprint: str
    tokenizer_digest: str
    word_marks: bool = False
    resume: bool = False
    #: Of documents with the same key, one is kept.
    deduplicate: bool = False
    #: Blocks are file groups in the order of their documents, and rows those of Google's script.
    exact_reference: bool = False

    def metadata(self, max_seq_length: int, max_predictions_per_seq: int) -> dict[str, str]:
        """What a shard says of itself, so that it can be told apart without its manifest.

        Only what decides its own rows: a shard of 128 is the same with and without one of 512 beside.
        """
        options = self.options
        labels = LABEL_CONVENTIONS[options.objective]
        said = {
            "schema_version": str(SCHEMA_VERSION),
            "next_sentence_label": ", ".join(f"{n} = {name}" for n, name in labels.items()),
            "tokenizer_digest": self.tokenizer_digest,
            "random_seed": str(options.random_seed),
            "max_seq_length": str(max_seq_length),
            "max_predictions_per_seq": str(max_predictions_per_seq),
        }
        if not labels:
            del said["next_sentence_label"]
        # What was there before anything else could be is not said.
        usual = {"objective": "nsp", "masking": "static", "layout": "separate"}
        said |= {n: v for n in usual if (v := getattr(options, n)) != usual[n]}
        return {f"bert_data.{name}": value for name, value in said.items()}


def gather(batches: Iterable[pa.RecordBatch], settings: ShardSettings) -> TokenBlock:
    """The documents of a block."""
    schema = token_batch(settings.special.vocab_size, word_marks=settings.word_marks)
    if settings.exact_reference:
        return gather_group(batches, schema)
    return gather_block(batches, schema, deduplicate=settings.deduplicate)


def open_stream(
    documents: TokenBlock, settings: ShardSettings, max_seq_length: int, max_predictions: int
) -> ExampleStream | ReferenceStream:
    """The examples of a block at one length."""
    kind = ReferenceStream if settings.exact_reference else ExampleStream
    return kind(
        documents,
        settings.options,
        settings.special,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions,
    )


def write_block(
    block: int, batches: Iterable[pa.RecordBatch], settings: ShardSettings
) -> BlockInfo:
    """Makes and writes all examples of one block, a shard for each length."""
    documents = gather(batches, settings)
    digest = _digest(documents, settings)
    shards = []
    for max_seq_length, max_predictions in settings.lengths:
        relative = shard_path(max_seq_length, settings.layout, block)
        done = _finished(relative, digest, settings) if settings.resume else None
        shards.append(
            done
            or _make_shard(
                block, documents, relative, digest, settings, max_seq_length, max_predictions
            )
        )
    split, _, _ = settings.layout.split_of(block)
    counts = documents.document_counts(settings.special.unk_id)
    return BlockInfo(block, split, counts, tuple(shards))


def _make_shard(
    block: int,
    documents: TokenBlock,
    relative: str,
    digest: str,
    settings: ShardSettings,
    max_seq_length: int,
    max_predictions: int,
) -> ShardInfo:
    stream = open_stream(documents, settings, max_seq_length, max_predictions)
    split, _, _ = settings.layout.split_of(block)
    size, sha256 = write_shard(
        stream,
        posixpath.join(settings.output, relative),
        metadata=settings.metadata(max_seq_length, max_predictions),
    )
    info = ShardInfo(
        path=relative,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions,
        split=split,
        rows=stream.counts["examples"],
        bytes=size,
        sha256=sha256,
        counts=dict(stream.counts),
        histogram=tuple(int(n) for n in stream.histogram),
    )
    with atomic_write(_note_path(relative, settings)) as file:
        file.write(json.dumps({"digest": digest, "shard": dataclasses.asdict(info)}).encode())
    return info


def _digest(documents: TokenBlock, settings: ShardSettings) -> str:
    """What a block's shards are made of: the row-affecting configuration, and the documents' tokens.

    The keys alone would not do: a record's language, which decides its sentences, is not in them.
    And other code may draw otherwise, and another pyarrow write other bytes, of which the manifest
    would not speak.
    """
    made_by = f"{settings.fingerprint} {SOURCES_DIGEST} {pa.__version__}"
    digest = hashlib.sha256(made_by.encode())
    digest.update(key_array(documents.low, documents.high).buffers()[1])
    for first, end in zip(documents.first_sentence, documents.end_sentence, strict=True):
        offsets = documents.sentence_offsets[first : end + 1]
        digest.update((offsets - offsets[0]).data)
        digest.update(documents.ids[offsets[0] : offsets[-1]].data)
        if documents.continues_word is not None:
            digest.update(documents.continues_word[offsets[0] : offsets[-1]].data)
    return digest.hexdigest()


def _note_path(relative: str, settings: ShardSettings) -> str:
    return posixpath.join(settings.output, RESUME_FOLDER, relative.replace("/", "-") + ".json")


def _finished(relative: str, digest: str, settings: ShardSettings) -> ShardInfo | None:
    """The shard of an earlier run, if it was made of the same and its checksum still holds."""
    note, path = _note_path(relative, settings), posixpath.join(settings.output, relative)
    try:
        with open_file(note) as file:
            kept = json.loads(file.read())
        if kept["digest"] != digest:
            return None
        kept["shard"]["histogram"] = tuple(kept["shard"]["histogram"])
        info = ShardInfo(**kept["shard"])
        sha256 = hashlib.sha256()
        with open_file(path) as file:
            while chunk := file.read(_READ_BYTES):
                sha256.update(chunk)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None  # there is none, or what is there is damaged, or another version's
    if sha256.hexdigest() != info.sha256:
        _LOGGER.warning("%s: its checksum does not hold; it is made again", relative)
        return None
    return info


class _WriteBlock(beam.DoFn):
    """Waits for the disk in a thread, while the next block is made; with the bundle all is there."""

    def __init__(self, settings: ShardSettings):
        self._settings = settings

    def setup(self) -> None:
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="sync")

    def start_bundle(self) -> None:
        self._syncing: list[Future[None]] = []

    def process(
        self, element: tuple[int, Iterable[pa.RecordBatch]], unused_barrier: object = None
    ) -> Iterator[BlockInfo]:
        block, batches = element
        info = write_block(block, batches, self._settings)
        for shard in info.shards:
            path = posixpath.join(self._settings.output, shard.path)
            self._syncing.append(self._disk.submit(sync_file, path))
            Metrics.counter("WriteExamples", "examples").inc(shard.rows)
            Metrics.counter("WriteExamples", "bytes").inc(shard.bytes)
        Metrics.counter("WriteExamples", "documents").inc(info.counts["documents"])
        Metrics.counter("WriteExamples", "blocks").inc()
        progress.report(blocks=1, examples=sum(shard.rows for shard in info.shards))
        yield info

    def finish_bundle(self) -> None:
        for waiting in self._syncing:
            waiting.result()

    def teardown(self) -> None:
        self._disk.shutdown()


class WriteExamples(beam.PTransform):
    """``(block, token batches)`` in, one :class:`BlockInfo` out, its shards written.

    Args:
      settings: the configuration.
      barrier: a side input that has to be there before the first shard is written.
    """

    def __init__(self, settings: ShardSettings, *, barrier: Any = None):
        super().__init__()
        self.settings = settings
        self.barrier = barrier

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        side = () if self.barrier is None else (self.barrier,)
        return blocks | "WriteBlock" >> beam.ParDo(_WriteBlock(self.settings), *side)
