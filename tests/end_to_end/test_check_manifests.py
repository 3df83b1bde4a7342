"""``bert-data check`` of manifests that are damaged or say what cannot be: no tracebacks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline.check import audit
from pipeline.cli import main
from schemas.manifest import load_manifest
from tests.builds import DATA, build_here
from tests.fault_files import edit
from tests.faults import Planter

CORPUS = DATA / "documents.jsonl"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("built") / "out"
    build_here(CORPUS, output=output, provenance=True, dupe_factor=2, num_shards=2)
    return output


@pytest.fixture
def planter(built, tmp_path) -> Planter:
    shutil.copytree(built, tmp_path / "out")
    return Planter(tmp_path / "out")


def empty(planter: Planter) -> None:
    planter.manifest["data_sets"] = []
    planter.manifest["counts"]["examples"] = 0
    planter.save()


def without_shards(planter: Planter) -> None:
    planter.manifest["data_sets"][0] |= {
        "shards": [],
        "examples": 0,
        "num_tokens_histogram": [0] * 16,
    }
    planter.manifest["counts"]["examples"] = 0
    planter.save()


def twins(planter: Planter) -> None:
    planter.manifest["data_sets"] *= 2
    planter.manifest["counts"]["examples"] *= 2
    planter.save()


DAMAGES = {
    "no dupe_factor": (lambda p: p.drop("configuration", "dupe_factor"), "configuration"),
    "no masked_lm_prob": (lambda p: p.drop("configuration", "masked_lm_prob"), "configuration"),
    "dupe_factor": (edit("configuration", "dupe_factor", value="5x"), "configuration"),
    "max_ngram_size": (edit("configuration", "max_ngram_size", value="x"), "configuration"),
    "mask_per": (edit("configuration", "mask_per", value="zz"), "configuration"),
    "objective": (edit("objective", value="foo"), "configuration"),
    "both objectives": (edit("configuration", "objective", value="foo"), "configuration"),
    "no data sets": (empty, "data_sets"),
    "no shards": (without_shards, "configuration"),
    "data sets twice": (twins, "data_sets"),
    "length": (edit("data_sets", 0, "max_seq_length", value=0), "data_sets"),
    "negative length": (edit("data_sets", 0, "max_seq_length", value=-5), "data_sets"),
    "huge length": (edit("data_sets", 0, "max_seq_length", value=10**30), "data_sets"),
    "predictions": (
        edit("data_sets", 0, "max_predictions_per_seq", value=10**30),
        "configuration",
    ),
    "huge vocabulary": (edit("tokenizer", "vocab_size", value=10**12), "tokenizer"),
    "no vocabulary": (edit("tokenizer", "vocab_size", value=-1), "tokenizer"),
    "huge id": (edit("tokenizer", "mask_id", value=10**30), "tokenizer"),
    "negative id": (edit("tokenizer", "cls_id", value=-7), "tokenizer"),
    "huge unknown id": (edit("tokenizer", "unk_id", value=10**30), "tokenizer"),
    "size": (edit("data_sets", 0, "shards", 0, "bytes", value=10**30), "size"),
    "negative rate": (edit("data_sets", 0, "rates", "random_token", value=-0.5), "rate"),
    "no short": (lambda p: null(p, "short"), "rate"),
    "no uncovered": (lambda p: null(p, "uncovered_tokens"), "rate"),
    "chunks": (edit("data_sets", 0, "chunks_without_partner", value=-1), "counts"),
    "num_shards": (lambda p: null_setting(p, "num_shards"), "configuration"),
}


def null(planter: Planter, name: str) -> None:
    planter.manifest["data_sets"][0]["rates"][name] = None
    planter.save()


def null_setting(planter: Planter, name: str) -> None:
    planter.manifest["configuration"][name] = None
    planter.save()


@pytest.mark.parametrize("corpus", [[], ["--corpus", str(CORPUS)]], ids=["alone", "corpus"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_manifest_is_a_violation(planter, damage, corpus, capsys):
    plant, rule = DAMAGES[damage]
    plant(planter)
    code = main(["check", str(planter.directory), "--num_workers", "1", *corpus])
    printed = capsys.readouterr()
    assert code == 1, printed
    assert f": {rule}: " in printed.out
    assert "error" not in printed.err


def test_an_unknown_setting_does_not_switch_the_fingerprint_off(planter, capsys):
    planter.manifest["configuration"]["new_setting"] = 1
    planter.manifest["fingerprint"] = "0" * 64
    planter.save()
    assert main(["check", str(planter.directory), "--num_workers", "1"]) == 1
    printed = capsys.readouterr().out
    assert "new_setting is no setting" in printed
    assert ": fingerprint: " in printed


def test_chunks_without_a_partner_are_counted_by_the_corpus(tmp_path):
    """Of sop a chunk of one sentence is dropped; of nsp the only document of a block has no partner."""
    lonely = tmp_path / "lonely.jsonl"
    text = "The old fox saw it and went on. " * 30
    lonely.write_text(f'{{"text": "{text}"}}\n{{"text": "A word."}}\n{{"text": "It left."}}\n')
    dropped = {"objective": "sop", "single_segment": "drop"}
    cases: list[tuple[Path, dict[str, Any]]] = [
        (CORPUS, dropped | {"max_seq_length": (32,)}),
        (CORPUS, dropped | {"dupe_mode": "remask"}),
        (lonely, {"num_shards": 3, "max_seq_length": (16,)}),
    ]
    for i, (corpus, settings) in enumerate(cases):
        output = tmp_path / str(i)
        manifest = build_here(corpus, output=output, provenance=True, **settings)
        assert manifest.data_sets[0].chunks_without_partner > 0
        assert not broken(output, corpus)
        edit("data_sets", 0, "chunks_without_partner")(Planter(output))
        assert broken(output, corpus) == {"counts"}


def broken(output: Path, corpus: Path) -> set[str]:
    found = audit(str(output), load_manifest(output), corpus=[str(corpus)], num_workers=1)
    return set(found.broken)


def test_another_version_of_a_library_is_named(planter, tmp_path, capsys):
    planter.manifest["created_by"]["sentencex"] = "0.0.1"
    planter.manifest["created_by"]["text_readers"] = "chardet 0.0.2, no-such-package 3"
    planter.save()
    command = ["check", str(planter.directory), "--num_workers", "1", "--corpus"]
    assert main([*command, str(CORPUS)]) == 0
    printed = capsys.readouterr()
    assert "warning: the data set was made with sentencex 0.0.1, installed is " in printed.err
    assert "warning: the data set was made with chardet 0.0.2, installed is " in printed.err
    assert "made with no-such-package 3, installed is none" in printed.err
    assert "likely cause" not in printed.out
    lines = CORPUS.read_text().splitlines()
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join(lines[1:]))
    assert main([*command, str(other)]) == 1
    assert "likely cause" in capsys.readouterr().out


def test_a_missing_file_of_many_groups_is_named_as_such(tmp_path, capsys):
    text = (DATA / "sentences.txt").read_text()
    files = [tmp_path / f"{name}.txt" for name in "ab"]
    for path in files:
        path.write_text(text)
    settings: dict[str, Any] = {"exact_reference": True, "reference_groups": "file"}
    build_here(*files, output=tmp_path / "out", provenance=True, **settings)
    assert main(["check", str(tmp_path / "out"), "--corpus", str(files[0])]) == 2
    printed = capsys.readouterr()
    assert "has 1 file, the data set was made of 2" in printed.err
    assert "num_shards" not in printed.err
    assert len(printed.err.splitlines()) == 1
