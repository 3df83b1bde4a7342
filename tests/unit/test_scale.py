"""The table of sizes, against a data set that is there."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from benchmarks.scale import measure, scale, table
from pipeline.prepare import default_num_shards
from schemas.arrow import DOCUMENT_BATCH
from tests.builds import DATA, VOCAB, build_here
from transforms.inputs import InputFile
from transforms.read_tasks import plan_reads
from transforms.sentences import split_batch
from transforms.tokenization import Encoder, tokenize_batch
from transforms.vocabulary import load_tokenizer


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The manifest of the sample, and the bytes of its text."""
    manifest = build_here(DATA / "documents.jsonl", output=tmp_path_factory.mktemp("out") / "d")
    with open(DATA / "documents.jsonl", encoding="utf8") as file:
        return manifest, sum(len(json.loads(line)["text"].encode()) for line in file)


def test_the_corpus_itself_comes_to_what_its_manifest_says(sample):
    manifest, text_bytes = sample
    volumes = scale(measure(manifest, text_bytes=text_bytes), text_bytes=text_bytes)
    counts = manifest.counts
    shards = [shard for data in manifest.data_sets for shard in data.shards]
    assert volumes.documents == pytest.approx(counts.documents)
    assert volumes.tokens == pytest.approx(counts.tokens)
    assert volumes.examples == pytest.approx(counts.examples)
    assert volumes.written == pytest.approx(sum(shard.bytes for shard in shards))
    assert volumes.blocks == len(shards)
    assert volumes.shuffled == pytest.approx(
        2 * counts.tokens + 16 * counts.documents + 4 * counts.sentences
    )


def test_what_crosses_the_shuffle_is_what_the_batches_hold(sample):
    """Held to the Arrow buffers of the sample's own token batch."""
    manifest, text_bytes = sample
    with open(DATA / "documents.jsonl", encoding="utf8") as file:
        texts = [json.loads(line)["text"] for line in file]
    columns = {"text": texts, "source": [""] * len(texts), "language": [None] * len(texts)}
    documents = pa.RecordBatch.from_pydict(columns, schema=DOCUMENT_BATCH)
    sentences = split_batch(documents, language="en", sentence_splitter="sentencex")
    vocabulary = load_tokenizer(str(VOCAB), do_lower_case=None)
    tokens = tokenize_batch(sentences, Encoder.of(vocabulary), word_marks=None)
    volumes = scale(measure(manifest, text_bytes=text_bytes), text_bytes=text_bytes)
    assert volumes.shuffled == pytest.approx(tokens.nbytes, rel=0.05)


def test_a_thousand_times_the_text_is_a_thousand_times_of_all_but_the_blocks(sample):
    manifest, text_bytes = sample
    measured = measure(manifest, text_bytes=text_bytes)
    one, many = (scale(measured, text_bytes=size) for size in (1e9, 1e12))
    for name in ("documents", "tokens", "examples", "shuffled", "written", "core_hours"):
        assert getattr(many, name) == pytest.approx(1000 * getattr(one, name))
    assert (one.blocks, many.blocks) == (60, 14_902)
    assert many.block * many.blocks == pytest.approx(many.shuffled)
    assert many.block < many.largest_block < 2 * many.block
    assert one.cores_for_an_hour == 1
    assert scale(measured, text_bytes=1e12, mb_per_core_second=1).cores_for_an_hour == 278


def test_the_table_has_a_column_for_each_size(sample):
    manifest, text_bytes = sample
    measured = measure(manifest, text_bytes=text_bytes)
    lines = table([scale(measured, text_bytes=size) for size in (20e9, 10e12)]).splitlines()
    assert lines[0] == "|  | 20 GB | 10 TB |"
    assert {line.count("|") for line in lines} == {4}
    assert "| blocks, and shards of each length | 1,024 | 99,999 |" in lines


def test_ten_terabytes_have_names_for_their_shards_and_room_for_their_tasks_in_the_graph():
    assert default_num_shards(10 * 10**12) == 99_999
    files = [InputFile(f"gs://b/{n}", 10**12, "none", "jsonl", "") for n in range(10)]
    tasks = plan_reads(files, num_stripes=8, range_bytes=None)
    assert len(tasks) == 20_000
    assert sum(share.weight for task in tasks for share in task.shares) == 10**13
    files = [InputFile("gs://b/a", 10**11, "none", "jsonl", "")]
    assert len(plan_reads(files, num_stripes=8, range_bytes=None)) == -(-(10**11) // (16 << 20))
