"""No thread of Arrow's calls a Python file: one that does when Python ends aborts the process."""

from __future__ import annotations

import io
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.row_text import read_rows
from train import shards


class _Watched(io.BytesIO):
    """Remembers who reads it."""

    def __init__(self, content: bytes):
        super().__init__(content)
        self.readers: set[int] = set()

    def read(self, size: int | None = -1, /) -> bytes:
        self.readers.add(threading.get_ident())
        return super().read(size)


@pytest.fixture
def file():
    table = pa.table({f"column_{i}": list(range(5_000)) for i in range(8)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1_000)
    return _Watched(sink.getvalue())


def test_rows_that_are_shown_are_read_by_the_thread_that_asks(file):
    rows = list(read_rows(file, [0, 999, 4_000]))
    assert [row["column_7"] for _, row in rows] == [0, 999, 4_000]
    assert file.readers == {threading.get_ident()}


def test_rows_to_train_on_are_read_by_the_thread_that_asks(file, monkeypatch):
    monkeypatch.setattr(shards, "open_file", lambda _: file)
    group = shards.RowGroup("a.parquet", 2, 2_000, 1_000)
    table = shards.read_row_group(group, columns=["column_0", "column_5"])
    assert table["column_5"].to_pylist() == list(range(2_000, 3_000))
    assert file.readers == {threading.get_ident()}
