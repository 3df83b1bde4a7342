"""Rates of reading each format, and of ``bert-data documents``: MB of text a second of one core.

    python -m benchmarks.tables corpus.jsonl

One process, whose time on the processor is counted; each file is read three times in turns, medians. The
corpus is written to a temporary folder in every format; it may be packed, as .gz or .zst.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import BuildConfig
from pipeline.documents import write_documents
from transforms.formats.batching import text_bytes
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import ReadOptions, read_task

_FIELDS = [{"name": "text", "type": "string"}]
_RUNS = 3


def _documents(*paths: str) -> Iterator[pa.RecordBatch]:
    files = list_inputs(paths, format="auto")
    for task in plan_reads(files, num_stripes=1, range_bytes=None):
        for output, batch in read_task(task, options=ReadOptions(id_field=None)):
            if output == "documents":
                yield batch


def _write_all(corpus: str, folder: Path) -> Iterator[tuple[str, Path]]:
    table = pa.Table.from_batches(_documents(corpus)).select(["text"])
    rows = table.to_pylist()
    path = folder / "plain.jsonl"
    with open(path, "w", encoding="utf8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    yield "jsonl", path
    for codec in ("snappy", "zstd"):
        path = folder / f"{codec}.parquet"
        pq.write_table(table, path, compression=codec, row_group_size=1000)
        yield f"parquet, {codec}", path
    path = folder / "plain.arrow"
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    yield "arrow, 1,000 rows a batch", path
    schema = {"type": "record", "name": "Row", "fields": _FIELDS}
    for codec in ("null", "deflate", "snappy", "zstandard", "bzip2", "xz"):
        path = folder / f"{codec}.avro"
        with open(path, "wb") as file_of_bytes:
            fastavro.writer(file_of_bytes, schema, rows, codec=codec)
        yield f"avro, {codec}", path


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="JSON lines, packed or not")
    corpus = parser.parse_args().corpus
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = sum(map(text_bytes, _documents(corpus)))
        files = dict(_write_all(corpus, folder))
        for ending in (".avro", ".parquet", ".jsonl"):
            path = folder / f"documents{ending}"
            values = {"input": (str(files["jsonl"]),), "output": str(path), "vocab_file": "none"}
            config = BuildConfig.from_values(values | {"num_workers": 1})
            took = _seconds(lambda config=config: write_documents(config, quiet=True))  # type: ignore[misc]
            print(f"documents {ending}: {size / 1e6 / took:.0f} MB a core-second", flush=True)
            files[f"documents, {ending}"] = path
        times: dict[str, list[float]] = {kind: [] for kind in files}
        for _ in range(_RUNS):
            for kind, path in files.items():
                times[kind].append(
                    _seconds(lambda path=path: [None for _ in _documents(str(path))])  # type: ignore[misc]
                )
        print("| format | MB on disk | MB of text a core-second |\n|---|---|---|")
        for kind, path in files.items():
            rate = size / 1e6 / statistics.median(times[kind])
            print(f"| {kind} | {path.stat().st_size / 1e6:.1f} | {rate:.0f} |")


if __name__ == "__main__":
    main()
