"""The same documents in tables, in saved data sets, by way of ``bert-data documents``: the same shards."""

from __future__ import annotations

import json

import datasets
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.check import check
from pipeline.config import BuildConfig
from pipeline.documents import write_documents
from tests.builds import DATA, ROOT, VOCAB, build_here, digests, run_command
from tests.unit.tables import CODECS, write_arrow, write_avro, write_parquet

datasets.disable_progress_bars()

SETTINGS = {"num_shards": 3, "max_seq_length": (64,), "dupe_factor": 2}
CORPUS = DATA / "documents.jsonl"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    output = tmp_path_factory.mktemp("expected") / "out"
    manifest = build_here(CORPUS, output=output, **SETTINGS)
    assert manifest.counts.documents == 66
    found = digests(output)
    assert len(set(found.values())) == len(found) == 3
    return found


@pytest.fixture(scope="module")
def table():
    """The sample's documents in another order."""
    with open(CORPUS, encoding="utf8") as lines:
        rows = [json.loads(line) for line in lines]
    order = np.random.default_rng(1).permutation(len(rows))
    return pa.Table.from_pylist([rows[i] for i in order])


def dictionary(table):
    column = table["text"].combine_chunks().dictionary_encode()
    return table.set_column(table.schema.names.index("text"), "text", column)


def nested(table):
    return pa.table({"id": table["id"], "a": pa.array([{"b": row} for row in table.to_pylist()])})


@pytest.mark.parametrize("kind", ["plain", "groups", "dictionary", "nested", "arrow"])
def test_arrows_tables(expected, table, tmp_path, kind):
    settings, path = dict(SETTINGS), tmp_path / "a.parquet"
    if kind == "arrow":
        path = write_arrow(tmp_path / "a.arrow", table, rows=5)
    elif kind == "groups":
        write_parquet(path, table, row_group_size=5)
    elif kind == "nested":
        write_parquet(path, nested(table), row_group_size=20)
        settings |= {"text_field": "a.b.text", "language_field": "a.b.lang"}
    else:
        write_parquet(path, dictionary(table) if kind == "dictionary" else table)
    build_here(path, output=tmp_path / "out", **settings)
    assert digests(tmp_path / "out") == expected


@pytest.mark.parametrize("codec", CODECS)
def test_avro(expected, table, tmp_path, codec):
    fields = [{"name": name, "type": ["null", "string"]} for name in table.schema.names]
    path = write_avro(
        tmp_path / "a.avro", table.to_pylist(), fields=fields, codec=codec, sync_interval=5000
    )
    build_here(path, output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected


def test_a_saved_data_set(expected, table, tmp_path):
    saved = datasets.Dataset.from_list(table.to_pylist())
    parts = {"train": saved, "test": saved.select([0])}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved", num_shards={"train": 2, "test": 1})
    build_here(tmp_path / "saved", split="train", output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected


def documents(*inputs, output, **settings):
    values = {"input": tuple(map(str, inputs)), "output": str(output), "vocab_file": str(VOCAB)}
    config = BuildConfig.from_values(values | {"num_workers": 1} | settings)
    return write_documents(config, quiet=True)


@pytest.mark.parametrize("ending", ["avro", "parquet", "jsonl"])
def test_by_way_of_documents(expected, tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    totals = documents(CORPUS, output=path)
    manifest = build_here(path, output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected
    assert (totals.documents, totals.sentences) == (66, manifest.counts.sentences)
    assert manifest.configuration["sentence_splitter"] == "sentencex"


@pytest.mark.parametrize("ending", ["avro", "parquet", "jsonl"])
def test_a_sentence_a_line_by_way_of_documents(tmp_path, ending):
    """Where a line is a sentence, and may hold what sentencex would cut."""
    lines = (DATA / "sentences.txt").read_text(encoding="utf8").replace(". ", ". Dr. No. Yes! ")
    text = tmp_path / "in.txt"
    text.write_text(lines, encoding="utf8")
    build_here(text, output=tmp_path / "expected", **SETTINGS)
    path = tmp_path / f"a.{ending}"
    documents(text, output=path)
    build_here(path, output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == digests(tmp_path / "expected")


def test_documents_of_many_languages_and_prose(tmp_path, data):
    build_here(data / "multilingual.jsonl", output=tmp_path / "expected", num_shards=2)
    path = tmp_path / "a.avro"
    documents(data / "multilingual.jsonl", output=path)
    build_here(path, output=tmp_path / "out", num_shards=2)
    assert digests(tmp_path / "out") == digests(tmp_path / "expected")


@pytest.mark.parametrize(
    ("name", "ending"),
    [("zh-CN", "avro"), ("ja-JP", "jsonl"), ("ar-MA", "parquet")],
)
def test_real_text_by_way_of_documents(shared, tmp_path, name, ending):
    lines = (shared / "data" / "corpora" / f"handbook.{name}.jsonl").read_bytes().splitlines(True)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_bytes(b"".join(lines[::4]))
    settings = {
        "vocab_file": str(shared / "data" / "vocab" / "bert-base-multilingual-cased-vocab.txt"),
        "do_lower_case": False,
        "num_shards": 1,
        "dupe_factor": 1,
    }
    build_here(corpus, output=tmp_path / "expected", language=name, **settings)
    path = tmp_path / f"a.{ending}"
    documents(corpus, output=path, language=name)
    build_here(path, output=tmp_path / "out", **settings)
    assert digests(tmp_path / "out") == digests(tmp_path / "expected")


@pytest.mark.parametrize("ending", ["avro", "parquet", "jsonl"])
def test_the_file_is_the_same_whoever_reads(tmp_path, ending):
    """Whatever the number of workers; and of its own documents the same sentences again."""
    big = tmp_path / "big.jsonl"
    big.write_text(CORPUS.read_text(encoding="utf8") * 30, encoding="utf8")  # three tasks
    path, other = tmp_path / f"1.{ending}", tmp_path / f"2.{ending}"
    documents(big, output=path)
    flags = ["--output", other, "--num_workers=2"]
    done = run_command("documents", big, *flags, env={"PYTHONHASHSEED": "2"})
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == other.read_bytes()
    again = tmp_path / f"again.{ending}"
    documents(path, output=again)
    assert [r["sentences"] for r in records(again)] == [r["sentences"] for r in records(path)]
    assert len(records(path)) == 66 * 30


def test_an_avro_file_says_what_its_fields_are(tmp_path):
    path = tmp_path / "a.avro"
    documents(CORPUS, output=path)
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        assert len(list(reader)) == 66
    assert json.loads(reader.metadata["avro.schema"]) == json.loads(
        (ROOT / "schemas" / "document.avsc").read_text()
    )


def records(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    with open(path, "rb") as file:
        return list(fastavro.reader(file))


@pytest.mark.parametrize("kind", ["parquet", "avro", "arrow", "documents"])
def test_a_data_set_is_proved_against_its_table(table, tmp_path, kind, capsys):
    if kind == "parquet":
        path = write_parquet(tmp_path / "a.parquet", table, row_group_size=9)
    elif kind == "arrow":
        path = write_arrow(tmp_path / "a.arrow", table, rows=9)
    elif kind == "avro":
        fields = [{"name": name, "type": ["null", "string"]} for name in table.schema.names]
        path = write_avro(tmp_path / "a.avro", table.to_pylist(), fields=fields)
    else:
        path = tmp_path / "a.parquet"
        documents(CORPUS, output=path)
    build_here(path, output=tmp_path / "out", provenance=True, num_shards=2)
    assert check(str(tmp_path / "out"), corpus=[str(path)], num_workers=1) == 0
    assert "66 documents" in capsys.readouterr().out
