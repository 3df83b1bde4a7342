"""A plan against the build that follows: the same numbers when all is read, near them from a sample."""

from __future__ import annotations

import gzip
import json
import os

import pyarrow as pa
import pytest

from pipeline.config import BuildConfig
from pipeline.estimate import estimate
from pipeline.places import find_place
from pipeline.plan import describe, plan
from pipeline.prepare import prepare
from pipeline.sampling import draw_sample
from schemas.errors import SingleDocumentError
from tests.builds import DATA, VOCAB, build_here, documents_of, run_command, write_jsonl, write_text
from tests.unit.tables import write_arrow, write_avro, write_parquet


def planned(*inputs, max_bytes=None, beam_args=(), **settings):
    """The estimate, and the text about it."""
    values = {"vocab_file": str(VOCAB), "num_workers": 1} | settings
    config = BuildConfig.from_values(
        {"input": tuple(map(str, inputs)), "output": os.devnull} | values
    )
    prepared = prepare(config)
    sizes = {} if max_bytes is None else {"max_bytes": max_bytes}
    found = estimate(prepared, draw_sample(prepared, **sizes))
    return found, "\n".join(
        describe(prepared, found, find_place(prepared, beam_args), beam_args=beam_args)
    )


@pytest.mark.parametrize("name", ["documents.jsonl", "sentences.txt"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "max_seq_length": (64, 128),
            "validation_fraction": 0.2,
            "num_shards": 3,
            "do_whole_word_mask": True,
            "dupe_factor": 7,
            "provenance": True,
        },
    ],
    ids=["defaults", "everything"],
)
def test_small_input_is_planned_to_the_byte(tmp_path, name, settings):
    built = build_here(DATA / name, output=tmp_path / "out", **settings)
    found, text = planned(DATA / name, **settings)
    assert found.exact
    assert "the numbers are exact" in text
    assert "~" not in text.split("Running:")[0]
    assert found.manifest.counts == built.counts
    assert found.manifest.data_sets == built.data_sets  # the sha256 of every shard too
    assert found.totals["tokens"] == built.counts.tokens
    assert [
        (d.max_seq_length, d.split, d.examples, d.bytes, d.shards) for d in found.data_sets
    ] == [
        (d.max_seq_length, d.split, d.examples, sum(s.bytes for s in d.shards), len(d.shards))
        for d in built.data_sets
    ]
    for data_set in built.data_sets:
        line = next(t for t in text.split("\n") if f"{data_set.name}/{data_set.split}:" in t)
        assert f"{data_set.examples:,} examples, {len(data_set.shards)} shard" in line
        assert (
            f"{data_set.examples // 32:,} of 32 rows, {data_set.examples // 256:,} of 256 rows"
            in line
        )
    assert f"{built.counts.documents:,} documents (0 duplicates)" in text
    assert f"{built.counts.sentences:,} sentences, {built.counts.tokens:,} tokens" in text


@pytest.fixture(scope="module")
def large():
    """A corpus of 1,320 documents, of which a sample is a small part: a fifth of each one is missing."""
    documents = documents_of(DATA / "sentences.txt")
    return [
        [line for n, line in enumerate(document) if (n + i) % 5 or len(document) < 5]
        + [f"This is version {i} of it, which nobody should read."]
        for i in range(20)
        for document in documents
    ]


def as_text(folder, documents):
    return write_text(folder / "a.txt", documents), {}


def as_json_lines(folder, documents):
    return write_jsonl(folder / "a.jsonl", documents), {"sentence_splitter": "none"}


def as_gzip(folder, documents):
    path = write_text(folder / "a.txt", documents)
    (folder / "a.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    return folder / "a.txt.gz", {}


def as_many_files(folder, documents):
    (folder / "in").mkdir()
    for i in range(300):
        write_text(folder / "in" / f"{i}.txt", documents[i::300])
    return folder / "in", {}


def as_prose(folder, documents):
    (folder / "in").mkdir()
    for i, document in enumerate(documents):
        (folder / "in" / f"{i}.txt").write_text("\n".join(document))
    return folder / "in", {"format": "prose", "sentence_splitter": "none"}


def as_a_mix(folder, documents):
    (folder / "in").mkdir()
    packed = write_text(folder / "b.txt", documents[:500])
    (folder / "in" / "b.txt.gz").write_bytes(gzip.compress(packed.read_bytes()))
    write_text(folder / "in" / "a.txt", documents[500:])
    return folder / "in", {}


@pytest.mark.parametrize(
    "write", [as_text, as_json_lines, as_gzip, as_many_files, as_prose, as_a_mix]
)
def test_a_sample_is_near_the_build(tmp_path, large, write):
    path, settings = write(tmp_path, large)
    settings = settings | {"validation_fraction": 0.25, "num_shards": 4, "dupe_factor": 6}
    found, text = planned(path, max_bytes=300_000, **settings)
    built = build_here(path, output=tmp_path / "out", **settings)
    assert not found.exact
    assert "~" in text
    assert 50 < found.seen["documents"] < 0.35 * built.counts.documents
    for name in ("documents", "sentences", "tokens"):
        assert found.totals[name] == pytest.approx(getattr(built.counts, name), rel=0.15), name
    assert [(d.max_seq_length, d.split, d.shards) for d in found.data_sets] == [
        (d.max_seq_length, d.split, len(d.shards)) for d in built.data_sets
    ]
    assert sum(d.examples for d in found.data_sets) == pytest.approx(
        built.counts.examples, rel=0.15
    )
    size = sum(shard.bytes for d in built.data_sets for shard in d.shards)
    assert sum(d.bytes for d in found.data_sets) == pytest.approx(size, rel=0.15)
    train = found.data_sets[0]
    assert train.examples == pytest.approx(built.data_sets[0].examples, rel=0.2)


def test_a_sample_is_the_same_every_time(tmp_path, large):
    path, _ = as_text(tmp_path, large)
    assert planned(path, max_bytes=300_000) == planned(path, max_bytes=300_000)


def test_real_books(shared):
    """Recorded from a whole build of the benchmark corpus."""
    found, text = planned(
        shared / "data" / "corpora" / "books-130mb.jsonl.zst",
        vocab_file=str(shared / "data" / "vocab" / "bert-base-uncased-vocab.txt"),
        do_whole_word_mask=True,
    )
    assert found.totals["documents"] == pytest.approx(6_394, rel=0.15)
    assert found.totals["sentences"] == pytest.approx(1_263_323, rel=0.1)
    assert found.totals["tokens"] == pytest.approx(30_729_061, rel=0.05)
    assert found.data_sets[0].examples == pytest.approx(1_574_876, rel=0.1)
    assert found.data_sets[0].bytes == pytest.approx(336.7e6, rel=0.05)
    assert found.seen["text_bytes"] < 6e6
    assert "jsonl, zst" in text


def snapshot(folder):
    """Files with their content, and folders."""
    return {str(p): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def test_nothing_is_written(tmp_path):
    (tmp_path / "tmp").mkdir()
    bad = tmp_path / "a.jsonl"
    bad.write_bytes((DATA / "documents.jsonl").read_bytes() + b"{broken\n")
    before = snapshot(tmp_path)
    done = run_command(
        *["plan", bad, "--vocab_file", VOCAB, "--output", tmp_path / "out"],
        *["--max_reject_fraction=0.1"],
        env={"TMPDIR": str(tmp_path / "tmp")},
    )
    assert done.returncode == 0, done.stderr
    assert "66 documents" in done.stdout
    assert snapshot(tmp_path) == before


def test_refused_records_are_counted_and_shown(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    lines = (DATA / "documents.jsonl").read_text().splitlines()
    path.write_text("\n".join([*lines, "{broken", '{"body": "x"}', '{"text": " "}', "]"]) + "\n")
    config = BuildConfig(
        input=(str(path),), vocab_file=str(VOCAB), output="x", max_reject_fraction=0.1
    )
    assert plan(config) == 0
    out = capsys.readouterr().out
    assert "2 broken_json, 1 empty_document, 1 missing_field; the first of each" in out
    assert f"{path}@" in out
    assert "no field 'text'; there is 'body'" in out
    assert "warning" not in out
    config = BuildConfig(input=(str(path),), vocab_file=str(VOCAB), output="x")
    assert plan(config) == 3
    assert "more records are refused than --max_reject_fraction=0.001" in capsys.readouterr().out


def test_refused_records_in_a_sample(tmp_path, large):
    path = write_jsonl(tmp_path / "a.jsonl", large)
    lines = path.read_text().splitlines()
    for i in range(0, len(lines), 10):
        lines[i] = lines[i][:-1]
    path.write_text("\n".join(lines) + "\n")
    found, text = planned(path, max_bytes=400_000, sentence_splitter="none")
    assert found.rejects_by_reason["broken_json"] == pytest.approx(132, rel=0.5)
    assert "in the sample, more records are refused" in text
    assert found.totals["documents"] == pytest.approx(1188, rel=0.15)


def test_no_pairs_can_be_made(tmp_path):
    one = tmp_path / "a.txt"
    one.write_text("One sentence.\nAnother sentence.\n")
    config = BuildConfig(input=(str(one),), vocab_file=str(VOCAB), output="x")
    with pytest.raises(SingleDocumentError, match="is one document"):
        plan(config)
    done = run_command("plan", one, "--vocab_file", VOCAB)
    assert done.returncode == 2
    assert done.stderr.count("bert-data: error: the corpus is one document") == 1


def test_a_large_text_without_boundaries(tmp_path, large, capsys):
    path = tmp_path / "a.txt"
    path.write_text("\n".join("\n".join(d) for d in large))
    config = BuildConfig(input=(str(path),), vocab_file=str(VOCAB), output="x")
    assert plan(config, max_sample=100_000) == 0
    assert "are there boundaries between documents" in capsys.readouterr().out


def test_the_warnings_of_a_build(tmp_path, large, capsys):
    sentences = [[line] for document in large[:200] for line in document]
    path = write_text(tmp_path / "a.txt", sentences)
    built_in_vain = "documents have one sentence, and give no IsNext pair"
    assert built_in_vain in planned(path)[1]
    sampled = planned(path, max_bytes=100_000)[1]
    warning = next(line for line in sampled.split("\n") if built_in_vain in line)
    assert warning.startswith("warning: in the sample, ")
    other = tmp_path / "other.txt"
    write_text(other, [["Ж Щ Ю.", "Ы Э."], ["Ъ Ь.", "Я Ю Щ."]])
    assert "of the tokens are [UNK]; is it the vocabulary of this language" in planned(other)[1]
    cased = tmp_path / "vocab.txt"
    cased.write_text(VOCAB.read_text() + "".join(f"Word{i}\n" for i in range(100)))
    plan(BuildConfig(input=(str(path),), vocab_file=str(cased), output="x"))
    assert "warning: do_lower_case is on (--no-do_lower_case" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "beam_args", "text"),
    [
        ({}, [], "Running: this machine, one process; "),
        ({"num_workers": 3}, [], "Running: this machine, 3 worker processes, "),
        (
            {},
            ["--direct_running_mode=multi_processing", "--direct_num_workers=4"],
            "Running: this machine, Beam's multi_processing with 4 workers; ",
        ),
        (
            {"runner": "FnApiRunner"},
            [],
            "Running: FnApiRunner, workers as it has them, a shuffle by the runner; ",
        ),
    ],
)
def test_how_it_would_run(settings, beam_args, text):
    assert text in planned(DATA / "sentences.txt", beam_args=beam_args, **settings)[1]


def test_what_was_decided(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "One. Two."}) + "\n")
    (tmp_path / "b").write_text("\n".join(json.dumps({"text": f"Number {i}."}) for i in range(3)))
    text = planned(tmp_path, num_shards=2)[1]
    assert "1 jsonl: its name ends in .jsonl" in text
    assert "1 jsonl: it begins with {" in text
    assert "sentences sentencex, language en" in text
    assert "do_lower_case=True, num_shards=2" in text


@pytest.mark.parametrize("kind", ["parquet", "groups", "avro", "arrow"])
def test_small_tables_are_planned_to_the_byte(tmp_path, kind):
    path = table_of(kind, tmp_path, (DATA / "documents.jsonl").read_text(encoding="utf8"))
    built = build_here(path, output=tmp_path / "out", num_shards=2)
    found, text = planned(path, num_shards=2)
    assert found.exact
    assert found.manifest.data_sets == built.data_sets
    assert f"1 {'parquet' if kind == 'groups' else kind}: its name ends in" in text


@pytest.mark.parametrize("kind", ["parquet", "groups", "avro", "arrow"])
def test_a_sample_of_a_table_stands_for_all_of_it(tmp_path, kind, large):
    """Whether it has one row group or hundreds; of one group its first rows are read."""
    lines = [json.dumps({"text": "\n".join(d)}) for d in large]
    path = table_of(kind, tmp_path, "\n".join(lines) + "\n")
    built = build_here(path, output=tmp_path / "out", num_shards=4)
    found, _ = planned(path, num_shards=4, max_bytes=400_000)
    assert not found.exact
    assert found.seen["text_bytes"] < 1_500_000
    for name in ("documents", "sentences", "tokens"):
        assert found.totals[name] == pytest.approx(getattr(built.counts, name), rel=0.15)


def table_of(kind, folder, lines):
    table = pa.Table.from_pylist([json.loads(line) for line in lines.splitlines()])
    if kind == "avro":
        fields = [{"name": name, "type": ["null", "string"]} for name in table.schema.names]
        return write_avro(folder / "a.avro", table.to_pylist(), fields=fields, sync_interval=20_000)
    if kind == "arrow":
        return write_arrow(folder / "a.arrow", table, rows=50)
    rows = table.num_rows if kind == "parquet" else 40
    return write_parquet(folder / "a.parquet", table, row_group_size=rows)
