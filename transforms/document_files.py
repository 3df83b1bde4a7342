"""Files of documents that are lists of sentences: a part at a time, and the parts to one file.

The record is that of ``schemas/document.avsc``. Parts of Avro and JSON lines are bytes of the file, so that
the workers do all the packing; those of Parquet are Arrow streams, for row groups of a good size.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import io
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import ConfigError
from transforms.formats.sentence_lists import LANGUAGE, SENTENCES, SOURCE, cut_after
from transforms.languages import language_of
from transforms.sentences import split_batch

__all__ = ["ENDINGS", "encode_part", "ending_of", "join_parts", "records_of"]

#: What a file may be, by its name.
ENDINGS = (".avro", ".parquet", ".jsonl")

#: Bytes of records in a block of Avro, and of a row group.
_BLOCK_BYTES, _GROUP_BYTES = 256 << 10, 16 << 20
_COPY_BYTES = 1 << 20

_COLUMNS = pa.schema(
    [
        pa.field(SOURCE, pa.string()),
        pa.field(LANGUAGE, pa.string()),
        pa.field(
            SENTENCES, pa.list_(pa.field("item", pa.string(), nullable=False)), nullable=False
        ),
    ]
)


def ending_of(path: str) -> str:
    """The kind of file that a path asks for.

    Raises:
      ConfigError: none of :data:`ENDINGS`.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in ENDINGS:
        raise ConfigError("output", path, f"must end in {', '.join(ENDINGS)}; that says what it is")
    return ending


def records_of(
    batch: pa.RecordBatch, *, language: str, sentence_splitter: str
) -> list[dict[str, Any]]:
    """The documents of a batch as records of the schema.

    Args:
      batch: DOCUMENT_BATCH or SPLIT_DOCUMENT_BATCH.
      language, sentence_splitter: see ``split_batch``.
    """
    split = split_batch(batch, language=language, sentence_splitter=sentence_splitter)
    columns = (
        batch.column("source").to_pylist(),
        batch.column("language").to_pylist(),
        batch.column("text").to_pylist(),
        split.column("sentences").to_pylist(),
    )
    return [
        {
            SOURCE: source,
            LANGUAGE: own or language_of(text, language),
            SENTENCES: cut_after(text, sentences),
        }
        for source, own, text, sentences in zip(*columns, strict=True)
    ]


#: What an Avro file begins with, by the specification. Of fastavro's own the order of the schema's
#: attributes is another in every process.
_HEADER = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}


def _header() -> bytes:
    _, marker, _ = _schema()
    text = json.dumps(json.loads(_schema_text()), ensure_ascii=False)
    meta = {"avro.codec": b"deflate", "avro.schema": text.encode()}
    file = io.BytesIO()
    fastavro.schemaless_writer(file, _HEADER, {"magic": b"Obj\x01", "meta": meta, "sync": marker})
    return file.getvalue()


def _schema_text() -> str:
    return importlib.resources.files("schemas").joinpath("document.avsc").read_text("utf-8")


@functools.cache
def _schema() -> tuple[Any, bytes, int]:
    """The Avro schema, the sync marker, and how long the header is that fastavro writes."""
    text = _schema_text()
    schema = fastavro.parse_schema(json.loads(text))
    # Random in other files; here the same documents are to be the same bytes.
    marker = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return schema, marker, len(_avro([], schema, marker))


def _avro(records: Iterable[dict[str, Any]], schema: Any, marker: bytes) -> bytes:
    file = io.BytesIO()
    fastavro.writer(
        file, schema, records, codec="deflate", sync_interval=_BLOCK_BYTES, sync_marker=marker
    )
    return file.getvalue()


def encode_part(records: list[dict[str, Any]], *, ending: str) -> bytes:
    """The records as a piece of a part."""
    if ending == ".avro":
        schema, marker, header = _schema()
        return _avro(records, schema, marker)[header:]
    if ending == ".jsonl":
        return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, _COLUMNS) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist(records, schema=_COLUMNS))
    return target.getvalue().to_pybytes()


def join_parts(parts: Sequence[str], target: BinaryIO, *, ending: str) -> None:
    """Writes the file that the parts, given as paths, make in their order."""
    if ending == ".parquet":
        _join_tables(parts, target)
        return
    if ending == ".avro":
        target.write(_header())
    for path in parts:
        with open(path, "rb") as part:
            while data := part.read(_COPY_BYTES):
                target.write(data)


def _join_tables(parts: Sequence[str], target: BinaryIO) -> None:
    waiting: list[pa.RecordBatch] = []
    with pq.ParquetWriter(
        target, _COLUMNS, compression="zstd", write_page_checksum=True, use_dictionary=[LANGUAGE]
    ) as writer:
        for path in parts:
            with open(path, "rb") as part:
                size = os.fstat(part.fileno()).st_size
                while part.tell() < size:  # a stream after another
                    waiting += pa.ipc.open_stream(part)
                    if sum(batch.nbytes for batch in waiting) >= _GROUP_BYTES:
                        writer.write_table(pa.Table.from_batches(waiting))
                        waiting.clear()
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
