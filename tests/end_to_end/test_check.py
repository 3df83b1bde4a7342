"""``bert-data check``: data sets of every kind hold, and every fault that is planted is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.check import audit, check
from pipeline.cli import main
from schemas.manifest import load_manifest
from tests.builds import DATA, build_here
from tests.end_to_end.check_faults import FAULTS
from tests.end_to_end.check_kinds import KINDS, MORE_KINDS
from tests.fault_rows import half_mask, is_next, set_types, shift_b
from tests.faults import Planter

CORPUS = DATA / "documents.jsonl"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Callable[[str], Path]:
    """Builds a kind of data set, once."""
    root = tmp_path_factory.mktemp("kinds")

    def build(kind: str) -> Path:
        output = root / kind
        if not output.exists():
            settings = {"provenance": True} | (KINDS | MORE_KINDS)[kind]
            build_here(CORPUS, output=output, **settings)
        return output

    return build


def broken_rules(printed: str) -> dict[str, int]:
    """Of the last line but one."""
    line = next(line for line in printed.splitlines() if line.startswith("Violations: "))
    pairs = (part.split(" ") for part in line.removeprefix("Violations: ").split(", "))
    return {rule: int(n.replace(",", "")) for n, rule in pairs}


@pytest.mark.parametrize("corpus", [[], [str(CORPUS)]], ids=["alone", "corpus"])
@pytest.mark.parametrize("kind", [*KINDS, *MORE_KINDS])
def test_what_a_build_makes_holds(built, kind, corpus, capsys):
    directory = built(kind)
    if corpus and not load_manifest(directory).configuration["provenance"]:
        pytest.skip("needs provenance")
    code = check(str(directory), corpus=corpus, num_workers=1)
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "All of it holds" in printed
    if corpus:
        assert "66 documents, 1,365 sentences, 29,080 tokens" in printed
        assert "are in no row" in printed


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(built, fault, tmp_path, capsys):
    directory = tmp_path / "out"
    shutil.copytree(built(fault.kind), directory)
    fault.plant(Planter(directory))
    corpus = [str(CORPUS)] if fault.corpus else []
    code = check(str(directory), corpus=corpus, num_workers=1)
    printed = capsys.readouterr().out
    assert code == 1, printed
    found = set(broken_rules(printed))
    rules = fault.rules - {"*"}
    assert rules <= found, printed
    if "*" in fault.rules:  # whatever else, but nothing about the file where the manifest is mended
        assert rules or not found & {"sha256", "size"}
    else:
        assert found - rules <= {"rate", "histogram"}, printed
    for rule in rules:
        assert f": {rule}: " in printed


def test_a_violation_is_shown_with_its_row_as_text(built, tmp_path, capsys):
    directory = tmp_path / "out"
    shutil.copytree(built("nsp"), directory)
    half_mask(Planter(directory))
    assert main(["check", str(directory), "--max_violations", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if ": half_word: " in line)
    assert lines[at].startswith("seq128/train-00000-of-00002.parquet row ")
    assert lines[at].endswith(": half_word: all pieces of a word are masked, or none")
    assert lines[at + 1].startswith("    [CLS] ")
    assert "[MASK:" in lines[at + 1] + lines[at + 2]
    assert "    label " in lines[at + 3]
    assert lines[-1].startswith("Not all of it holds")
    assert sum("parquet row" in line for line in lines) == 2


def test_a_document_that_the_data_set_lacks(built, tmp_path, capsys):
    more = tmp_path / "more.jsonl"
    more.write_text('{"text": "A fox saw the grapes. They hung high. It left."}\n')
    code = check(str(built("nsp")), corpus=[str(CORPUS), str(more)], num_workers=1)
    printed = capsys.readouterr().out
    assert code == 1
    assert "counts.documents is 66, the corpus has 67" in printed
    assert broken_rules(printed) == {"counts": 3, "document_missing": 5, "rate": 1}


def test_a_document_that_the_corpus_lacks(built, tmp_path, capsys):
    lines = CORPUS.read_text().splitlines()
    fewer = tmp_path / "fewer.jsonl"
    fewer.write_text("\n".join(lines[1:]))
    code = check(str(built("nsp")), corpus=[str(fewer)], num_workers=1)
    found = broken_rules(capsys.readouterr().out)
    assert code == 1
    assert {"counts", "unknown_document"} <= set(found)
    assert found["unknown_document"] > 20
    assert "wrong_block" not in found


def test_copies_of_documents_and_records_of_other_languages(tmp_path, capsys):
    """Copies share a key; a copy that names another language has other sentences."""
    records = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    quoted = "He said a lot. e.g. this. Dr. No came z.B. at noon. It was late. " * 9
    copies = [*records, *records[:9], {"text": quoted}, {"text": quoted, "lang": "de"}]
    path = tmp_path / "copies.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in copies))
    for settings in ({}, {"objective": "sop"}, {"objective": "mlm"}):
        output = tmp_path / str(settings.get("objective"))
        build_here(path, output=output, provenance=True, num_shards=2, **settings)
        assert check(str(output), corpus=[str(path)], num_workers=1) == 0, capsys.readouterr().out
        assert "77 documents" in capsys.readouterr().out


@pytest.mark.parametrize("groups", ["all", "file"])
def test_what_the_reference_makes_is_allowed_to_it_alone(tmp_path, groups, capsys):
    """B of A's own document, words across [SEP], random tokens that are special."""
    text = (DATA / "sentences.txt").read_text()
    copies = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in copies:
        path.write_text(text)
    output = tmp_path / "out"
    build_here(
        *copies,
        output=output,
        exact_reference=True,
        reference_groups=groups,
        provenance=True,
        do_whole_word_mask=True,
        max_seq_length=(32,),
    )
    corpus = list(map(str, copies))
    for inputs in ([], corpus):
        assert check(str(output), corpus=inputs, num_workers=1) == 0, capsys.readouterr().out
    planter = Planter(output)
    planter.manifest["configuration"] |= {"exact_reference": False, "reference_groups": "all"}
    planter.save()
    assert check(str(output), num_workers=1) == 1
    found = set(broken_rules(capsys.readouterr().out))
    assert "fingerprint" in found
    assert ("not_next" in found) == (groups == "all")  # of a copy of A's document
    assert ("same_rows" in found) == (groups == "file")


def test_workers_find_the_same(built, tmp_path):
    directory = tmp_path / "out"
    shutil.copytree(built("split"), directory)
    planter = Planter(directory)
    planter.change(shift_b, where=is_next)
    planter.change(set_types, data_set=1)
    manifest = load_manifest(directory)
    results = [audit(str(directory), manifest, corpus=[str(CORPUS)], num_workers=n) for n in (1, 2)]
    assert results[0] == results[1]
    assert {"is_next", "token_types"} <= set(results[0].broken)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "must be"),
        (["nowhere"], "no manifest.json"),
        ([DATA], "no manifest.json"),
        (["{without provenance}", "--corpus", CORPUS], "--provenance"),
        (["{nsp}", "--corpus", "nowhere.jsonl"], "--corpus='nowhere.jsonl'"),
        (["{nsp}", "--max_violations", "-1"], "--max_violations=-1"),
        (["{nsp}", "--num_workers", "0"], "--num_workers=0"),
        (["{nsp}", "--corpse", "x"], "--corpse"),
    ],
)
def test_what_is_no_data_set_or_no_use(built, arguments, words, capsys):
    def filled(argument: object) -> str:
        text = str(argument)
        return str(built(text[1:-1])) if text.startswith("{") else text

    assert main(["check", *map(filled, arguments)]) == 2
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1
    assert words in printed.err or not arguments
    assert not printed.out
