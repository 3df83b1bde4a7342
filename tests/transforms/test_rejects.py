"""WriteRejects, and files that appear whole or not at all."""

from __future__ import annotations

import json

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that

from schemas.arrow import REJECT_BATCH
from tests.unit.remote import MemoryFileSystem
from transforms.atomic import atomic_write
from transforms.coders import ArrowBatchCoder
from transforms.rejects import WriteRejects, write_rejects


def batch_of(*rows: tuple[str, str, str, str]) -> pa.RecordBatch:
    names = REJECT_BATCH.names
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=REJECT_BATCH
    )


FIRST = batch_of(
    ("a.txt@0", "undecodable", "not UTF-8", "caf\ufffd"),
    ("a.txt@9", "too_long", "more than", "漢字\n\u2028"),
    ("b.txt@0", "undecodable", "not UTF-8", ""),
)
SECOND = batch_of(("c.jsonl@4", "broken_json", "Expecting value", "x"))


def written(folder) -> dict[str, list[dict]]:
    return {
        path.name: [json.loads(line) for line in path.read_bytes().decode().split("\n")[:-1]]
        for path in folder.iterdir()
    }


def test_every_batch_is_a_file_of_json_lines(tmp_path):
    assert write_rejects(FIRST, output=str(tmp_path)) == {"too_long": 1, "undecodable": 2}
    assert write_rejects(SECOND, output=str(tmp_path)) == {"broken_json": 1}
    rows = sorted(written(tmp_path / "rejects").values(), key=len)
    assert rows == [SECOND.to_pylist(), FIRST.to_pylist()]


def test_a_replay_writes_the_same_file(tmp_path):
    write_rejects(FIRST, output=str(tmp_path))
    before = {path: path.read_bytes() for path in (tmp_path / "rejects").iterdir()}
    write_rejects(FIRST, output=str(tmp_path))
    assert {path: path.read_bytes() for path in (tmp_path / "rejects").iterdir()} == before


def test_the_step(tmp_path):
    def check(counts):
        assert sorted(counts, key=str) == [{"broken_json": 1}, {"too_long": 1, "undecodable": 2}]

    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    batches = pipeline | "Batches" >> beam.Create([FIRST, SECOND])
    assert isinstance(beam.coders.registry.get_coder(batches.element_type), ArrowBatchCoder)
    counts = batches | "WriteRejects" >> WriteRejects(str(tmp_path))
    assert counts.element_type == beam.typehints.Dict[str, int]
    assert_that(counts, check)
    result = pipeline.run()
    result.wait_until_finish()
    assert len(written(tmp_path / "rejects")) == 2
    counters = result.metrics().query(beam.metrics.MetricsFilter().with_namespace("WriteRejects"))
    assert {c.key.metric.name: c.committed for c in counters["counters"]} == {
        "rejects": 4,
        "files": 2,
    }


def test_nothing_is_written_without_rejects(tmp_path):
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as pipeline:
        batches = pipeline | "Batches" >> beam.Create([]).with_output_types(pa.RecordBatch)
        _ = batches | "WriteRejects" >> WriteRejects(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


# atomic_write


@pytest.fixture(params=["local", "remote"])
def place(request, tmp_path, monkeypatch):
    """A path, and what is there: names and contents."""
    if request.param == "local":
        folder = tmp_path / "new" / "folder"
        return str(folder / "f.bin"), lambda: {
            path.name: path.read_bytes() for path in (folder.iterdir() if folder.exists() else ())
        }
    monkeypatch.setattr(MemoryFileSystem, "files", {})
    return "memory://box/f.bin", lambda: {
        path.removeprefix("memory://box/"): content
        for path, content in MemoryFileSystem.files.items()
    }


def test_a_file_appears_when_it_is_whole(place):
    path, files = place
    with atomic_write(path) as file:
        file.write(b"one, ")
        assert "f.bin" not in files()
        file.write(b"two")
    assert files() == {"f.bin": b"one, two"}
    with atomic_write(path) as file:
        file.write(b"again")
        if not path.startswith("memory"):
            (temporary,) = set(files()) - {"f.bin"}
            assert temporary.startswith(".f.bin.")
            assert temporary.endswith(".tmp")
        assert files()["f.bin"] == b"one, two"
    assert files() == {"f.bin": b"again"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_nothing_is_left_of_a_file_that_fails(place, error):
    path, files = place

    def fail():
        with atomic_write(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert files() == {}


def test_a_failure_keeps_what_was_there(place):
    path, files = place
    with atomic_write(path) as file:
        file.write(b"good")
    with pytest.raises(ValueError, match="no"), atomic_write(path):
        raise ValueError("no")
    assert files() == {"f.bin": b"good"}


def test_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with atomic_write("f.bin") as file:
        file.write(b"x")
    assert (tmp_path / "f.bin").read_bytes() == b"x"
