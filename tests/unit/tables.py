"""Tables for tests: the same rows as Parquet, Avro, Arrow; and what is read of a file."""

from __future__ import annotations

from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import ReadOptions, read_task

CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")


def read(*paths, range_bytes=None, split=None, format="auto", **options):
    """Documents and rejects as lists of rows, over all tasks."""
    files = list_inputs([str(path) for path in paths], format=format, split=split)
    found: dict[str, list[dict]] = {"documents": [], "rejects": []}
    for task in plan_reads(files, num_stripes=1, range_bytes=range_bytes):
        for output, batch in read_task(task, options=ReadOptions(**options)):
            batch.validate(full=True)
            found[output] += batch.to_pylist()
    return found["documents"], found["rejects"]


def texts(documents) -> list[str]:
    return [document["text"] for document in documents]


def write_parquet(path: Path, table: pa.Table, **settings) -> Path:
    pq.write_table(table, path, **settings)
    return path


def write_avro(path: Path, records, *, fields=None, codec="deflate", sync_interval=500) -> Path:
    fields = fields or [{"name": "text", "type": ["null", "string"]}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    with open(path, "wb") as file:
        fastavro.writer(
            file,
            schema,
            records,
            codec=codec,
            sync_interval=sync_interval,
            sync_marker=bytes(range(200, 216)),
        )
    return path


def write_arrow(path: Path, table: pa.Table, *, rows: int, file_format=False) -> Path:
    new = pa.ipc.new_file if file_format else pa.ipc.new_stream
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path
