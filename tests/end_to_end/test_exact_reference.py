"""Builds with ``--exact_reference``: the reference's instances in the shards, whoever makes them."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.config import BuildConfig
from pipeline.plan import plan
from schemas.errors import BuildError, ConfigError, SingleDocumentError
from schemas.manifest import load_manifest
from tests.builds import DATA, VOCAB, build_here, digests, run_command
from tests.golden.test_exact_reference import GOLDENS, find, read_golden

GOLDEN = Path(__file__).parents[1] / "golden" / "reference"
PARTS = (GOLDEN / "part-a.txt", GOLDEN / "part-b.txt")
QUICK = {"exact_reference": True, "dupe_factor": 2}


def rows_of(path: Path) -> list[list]:
    columns = pq.read_table(path).to_pydict()
    return [
        [ids, types.index(1), positions, labels, label]
        for ids, types, positions, labels, label in zip(
            columns["input_ids"],
            columns["token_type_ids"],
            columns["masked_lm_positions"],
            columns["masked_lm_ids"],
            columns["next_sentence_label"],
            strict=True,
        )
    ]


def settings_of(golden: dict) -> dict:
    names = (
        *("do_lower_case", "do_whole_word_mask", "random_seed", "dupe_factor"),
        *("short_seq_prob", "masked_lm_prob"),
    )
    lists = ("max_seq_length", "max_predictions_per_seq")
    return {name: golden[name] for name in names} | {name: (golden[name],) for name in lists}


@pytest.mark.parametrize("name", GOLDENS)
def test_the_goldens(name, tmp_path):
    golden, instances = read_golden(GOLDEN / f"{name}.jsonl.gz")
    inputs = [find(file, GOLDEN, DATA) for file in golden["inputs"]]
    manifest = build_here(
        *inputs, output=tmp_path / "out", exact_reference=True, **settings_of(golden)
    )
    assert manifest.counts.examples == len(instances)
    length = golden["max_seq_length"]
    assert rows_of(tmp_path / "out" / f"seq{length}" / "train-00000-of-00001.parquet") == instances
    resolved = manifest.configuration
    assert (resolved["random_tokens"], resolved["sentence_splitter"]) == ("all", "none")
    assert (resolved["format"], resolved["num_shards"]) == ("text", 1)
    (data_set,) = manifest.data_sets
    assert data_set.rates.not_next == sum(row[4] for row in instances) / len(instances)


def test_two_groups_are_two_builds_of_one(tmp_path):
    build_here(*PARTS, output=tmp_path / "both", reference_groups="file", **QUICK)
    for i, part in enumerate(PARTS):
        build_here(part, output=tmp_path / part.stem, **QUICK)
        together = tmp_path / "both" / "seq128" / f"train-{i:05d}-of-00002.parquet"
        alone = tmp_path / part.stem / "seq128" / "train-00000-of-00001.parquet"
        assert together.read_bytes() == alone.read_bytes()
    assert len(set(digests(tmp_path / "both").values())) == 2


def test_several_lengths_are_each_as_if_alone(tmp_path):
    build_here(*PARTS, output=tmp_path / "both", max_seq_length=(64, 128), **QUICK)
    found = digests(tmp_path / "both")
    assert len(found) == 2
    for length in (64, 128):
        build_here(*PARTS, output=tmp_path / str(length), max_seq_length=(length,), **QUICK)
        assert digests(tmp_path / str(length)).items() <= found.items()


def test_any_number_of_workers_gives_the_same_bytes(tmp_path):
    inputs = []
    for i in range(5):
        inputs.append(tmp_path / f"{i}.txt")
        inputs[-1].write_bytes(PARTS[i % 2].read_bytes() + b"\n" + b"More of it.\n" * i)
    build_here(*inputs, output=tmp_path / "one", reference_groups="file", **QUICK)
    for workers in (2, 3):
        done = run_command(
            *("build", *inputs, "--vocab_file", VOCAB, "--output", tmp_path / str(workers)),
            *("--exact_reference", "--reference_groups=file", "--dupe_factor=2"),
            f"--num_workers={workers}",
        )
        assert done.returncode == 0, done.stderr
        assert digests(tmp_path / str(workers)) == digests(tmp_path / "one")


def test_the_order_of_the_files_is_that_of_the_patterns(tmp_path):
    ab, ba = (
        build_here(*files, output=tmp_path / name, **QUICK)
        for name, files in (("ab", PARTS), ("ba", PARTS[::-1]))
    )
    assert digests(tmp_path / "ab") != digests(tmp_path / "ba")
    # Neither file ends in a blank line: the last document of the first goes on in the second.
    ours = build_here(*PARTS, output=tmp_path / "ours")
    assert ab.counts.documents == ba.counts.documents == ours.counts.documents - 1
    for name in ("x-1.txt", "x-2.txt"):
        shutil.copy(PARTS[int(name[2]) - 1], tmp_path / name)
    build_here(tmp_path / "x-*.txt", output=tmp_path / "pattern", **QUICK)
    assert digests(tmp_path / "pattern") == digests(tmp_path / "ab")
    # A file named twice is read twice, as there.
    twice = build_here(PARTS[1], PARTS[1], output=tmp_path / "twice", **QUICK)
    once = build_here(PARTS[1], output=tmp_path / "once", **QUICK)
    assert twice.counts.tokens == 2 * once.counts.tokens
    assert (
        twice.counts.duplicate_documents == once.counts.documents - 2
    )  # first and last run together


def test_a_compressed_file_is_the_same(tmp_path):
    packed = tmp_path / "part-b.txt.gz"
    packed.write_bytes(gzip.compress(PARTS[1].read_bytes()))
    build_here(packed, output=tmp_path / "packed", **QUICK)
    build_here(PARTS[1], output=tmp_path / "plain", **QUICK)
    assert digests(tmp_path / "packed") == digests(tmp_path / "plain")


def test_provenance_says_where_a_row_is_from(tmp_path):
    plain = build_here(PARTS[1], output=tmp_path / "plain", **QUICK)
    build_here(PARTS[1], output=tmp_path / "out", provenance=True, **QUICK)
    shard = "seq128/train-00000-of-00001.parquet"
    assert rows_of(tmp_path / "out" / shard) == rows_of(tmp_path / "plain" / shard)
    rows = pq.read_table(tmp_path / "out" / shard).to_pylist()
    assert {row["dupe_pass"] for row in rows} == {0, 1}
    assert len({row["a_document"] for row in rows}) == plain.counts.documents
    for row in rows:
        assert row["a_first_sentence"] < row["a_end_sentence"]
        if row["next_sentence_label"] == 0:
            assert row["a_document"] == row["b_document"]
            assert row["a_end_sentence"] == row["b_first_sentence"]
        else:
            assert row["a_document"] != row["b_document"]


def test_resume_keeps_what_is_done(tmp_path):
    build_here(*PARTS, output=tmp_path / "out", reference_groups="file", **QUICK)
    whole = digests(tmp_path / "out")
    kept, lost = sorted(tmp_path / "out" / path for path in whole)
    (tmp_path / "out" / "manifest.json").unlink()
    lost.unlink()
    build_here(*PARTS, output=tmp_path / "out", reference_groups="file", resume=True, **QUICK)
    assert digests(tmp_path / "out") == whole
    assert kept.exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "mlm"}, "--objective='mlm': cannot go with --exact_reference"),
        ({"masking": "none"}, "--masking='none': cannot go"),
        ({"format": "jsonl"}, "--format='jsonl': cannot go"),
        ({"sentence_splitter": "sentencex"}, "--sentence_splitter='sentencex': cannot go"),
        ({"validation_fraction": 0.1}, "--validation_fraction=0.1: cannot go"),
        ({"dupe_mode": "remask"}, "--dupe_mode='remask': cannot go"),
        ({"word_segmenter": "jieba"}, "--word_segmenter=.jieba.: "),
        ({"max_ngram_size": 2}, "--max_ngram_size=2: cannot go"),
        ({"num_shards": 3}, "--num_shards=3: cannot go .* its 1 file groups"),
        ({"exact_reference": False, "reference_groups": "file"}, "is for --exact_reference"),
    ],
)
def test_what_the_script_does_not_do_is_refused(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        build_here(*PARTS, output=tmp_path / "out", **(QUICK | settings))
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_utf8_is_one_line(tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(PARTS[1].read_bytes() + b"caf\xe9\n")
    done = run_command(
        *("build", bad, "--vocab_file", VOCAB, "--output", tmp_path / "out", "--exact_reference")
    )
    assert done.returncode == 1
    (line,) = [text for text in done.stderr.splitlines() if "error" in text.lower()]
    assert "bad.txt: not UTF-8: 0xe9 at byte" in line
    assert "Traceback" not in done.stderr
    with pytest.raises(BuildError, match=r"bad\.txt: not UTF-8: 0xe9 at byte"):
        build_here(bad, output=tmp_path / "here", **QUICK)


def test_a_corpus_without_text_is_refused(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n\u200b\n")
    with pytest.raises(SingleDocumentError, match="no document with text"):
        build_here(empty, output=tmp_path / "out", **QUICK)


def test_plan_says_that_it_cannot(tmp_path):
    config = BuildConfig(
        input=(str(PARTS[0]),), vocab_file=str(VOCAB), output="-", exact_reference=True
    )
    with pytest.raises(ConfigError, match="cannot be planned"):
        plan(config)


def test_what_was_adapted_is_said(tmp_path):
    done = run_command(
        *(
            "build",
            PARTS[1],
            "--vocab_file",
            VOCAB,
            "--output",
            tmp_path / "out",
            "--exact_reference",
        )
    )
    assert done.returncode == 0, done.stderr
    assert "random_tokens=all" in done.stderr
    assert load_manifest(tmp_path / "out").configuration["random_tokens"] == "all"
