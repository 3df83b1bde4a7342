"""ReadDocuments as a step of a pipeline."""

from __future__ import annotations

import json
import pickle

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that

from schemas.arrow import DOCUMENT_BATCH
from schemas.errors import ConfigError
from transforms.coders import ArrowBatchCoder
from transforms.documents import ReadDocuments
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads


def batch_of(*texts: str) -> pa.RecordBatch:
    columns = {"text": texts, "source": [""] * len(texts), "language": [None] * len(texts)}
    return pa.RecordBatch.from_pydict(columns, schema=DOCUMENT_BATCH)


@pytest.fixture
def corpus(tmp_path):
    lines = [json.dumps({"text": f"Text {i}. " * 20}) for i in range(500)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines[:200], "broken", *lines[200:]]))
    (tmp_path / "b.txt").write_text("One.\nTwo.\n\nThree.")
    tasks = plan_reads(list_inputs([str(tmp_path)], format="auto"), num_stripes=2, range_bytes=9000)
    wanted = [json.loads(line)["text"].strip() for line in lines] + ["One.\nTwo.", "Three."]
    return tasks, wanted


def test_documents_rejects_and_counters(corpus):
    tasks, wanted = corpus

    def check_documents(batches):
        assert sorted(t for batch in batches for t in batch["text"].to_pylist()) == sorted(wanted)
        assert {batch.schema for batch in batches} == {DOCUMENT_BATCH}
        assert len(batches) >= len(tasks)

    def check_rejects(batches):
        (row,) = [row for batch in batches for row in batch.to_pylist()]
        assert (row["reason"], row["excerpt"]) == ("broken_json", "broken")

    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    documents, rejects, _ = pipeline | "ReadDocuments" >> ReadDocuments(tasks)
    assert_that(documents, check_documents, label="Documents")
    assert_that(rejects, check_rejects, label="Rejects")
    result = pipeline.run()
    result.wait_until_finish()
    counters = result.metrics().query(beam.metrics.MetricsFilter().with_namespace("ReadDocuments"))
    assert {c.key.metric.name: c.committed for c in counters["counters"]} == {
        "documents": len(wanted),
        "bytes": sum(len(text) for text in wanted),
        "rejects": 1,
    }


def test_no_tasks_no_documents():
    def check(batches):
        assert batches == []

    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as pipeline:
        documents, rejects, _ = pipeline | "ReadDocuments" >> ReadDocuments(())
        assert_that(documents, check, label="Documents")
        assert_that(rejects, check, label="Rejects")


def test_the_tasks_are_dealt_out_to_the_workers(corpus):
    # FnApiRunner gives worker k every n-th group; without a GroupByKey one worker has them all.
    tasks, _ = corpus
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    _ = pipeline | "ReadDocuments" >> ReadDocuments(tasks)
    transforms = pipeline.to_runner_api().components.transforms
    urns = {t.unique_name: t.spec.urn for t in transforms.values()}
    assert urns["ReadDocuments/SpreadTasks"] == "beam:transform:group_by_key:v1"
    assert len(tasks) > 8


def test_the_coder_of_both_outputs_is_arrow(corpus):
    tasks, _ = corpus
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    documents, rejects, _ = pipeline | "ReadDocuments" >> ReadDocuments(tasks)
    for collection in (documents, rejects):
        assert collection.element_type is pa.RecordBatch
        coder = beam.coders.registry.get_coder(collection.element_type)
        assert isinstance(coder, ArrowBatchCoder)
    proto: beam_runner_api_pb2.Pipeline = pipeline.to_runner_api()
    for transform in proto.components.transforms.values():
        if transform.unique_name != "ReadDocuments/ReadTasks":
            continue
        for name, output in transform.outputs.items():
            if name == "counts":
                continue
            coder_id = proto.components.pcollections[output].coder_id
            assert b"ArrowBatchCoder" in proto.components.coders[coder_id].spec.payload
        assert len(transform.outputs) == 3


def test_batches_are_never_pickled(corpus, monkeypatch):
    tasks, _ = corpus

    def refuse(self, protocol=None):
        raise AssertionError("a batch is pickled")

    # RecordBatch cannot be patched, being C: what its pickling calls can.
    import copyreg

    monkeypatch.setitem(copyreg.dispatch_table, pa.RecordBatch, refuse)
    with pytest.raises(AssertionError, match="is pickled"):
        pickle.dumps(batch_of("guarded"))
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as pipeline:
        documents, _, _ = pipeline | "ReadDocuments" >> ReadDocuments(tasks)
        _ = (
            documents
            | "Key"
            >> beam.Map(lambda batch: (batch.num_rows, batch)).with_output_types(
                tuple[int, pa.RecordBatch]
            )
            | "Shuffle" >> beam.GroupByKey()
        )


@pytest.mark.parametrize(
    "batch",
    [batch_of("é", "", "x" * 1000), batch_of(), batch_of("a", "b", "c").slice(1, 1)],
    ids=["some", "none", "slice"],
)
def test_a_batch_survives_the_coder(batch):
    coder = beam.coders.registry.get_coder(pa.RecordBatch)
    encoded = coder.encode(batch)
    decoded = coder.decode(encoded)
    assert decoded == batch
    assert decoded.schema == batch.schema
    assert coder.encode(decoded) == encoded
    assert coder.is_deterministic()
    assert coder.estimate_size(batch) == batch.nbytes
    assert pickle.loads(pickle.dumps(coder)) == coder


def test_decoding_copies_nothing():
    coder = ArrowBatchCoder()
    encoded = coder.encode(batch_of("x" * 1_000_000))
    before = pa.total_allocated_bytes()
    decoded = coder.decode(encoded)
    assert pa.total_allocated_bytes() - before < 10_000
    assert decoded["text"][0].as_py() == "x" * 1_000_000


def test_a_slice_is_encoded_without_its_neighbours():
    batch = batch_of("x" * 1_000_000, "small")
    assert len(ArrowBatchCoder().encode(batch.slice(1, 1))) < 2000


def test_a_wrong_separator_is_refused_before_anything_runs():
    with pytest.raises(ConfigError, match="document_separator"):
        ReadDocuments((), document_separator=" ")
