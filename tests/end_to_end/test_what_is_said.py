"""What the commands say of a corpus fits that corpus."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import pipeline.check
import pipeline.summary
from pipeline.cli import main
from pipeline.summary import COMPILING
from tests.builds import DATA, VOCAB
from tests.unit.tables import write_parquet
from tests.unit.wiki_exports import export, page
from transforms import has_kernel

FLAGS = ("--vocab_file", VOCAB, "--num_workers", "1")


@pytest.fixture
def run(capsys):
    """Runs a command in this process: its exit code, and all that it says."""

    def run_here(command, *arguments):
        code = main([command, *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run_here


def test_a_plan_names_the_language_of_the_wiki(run, tmp_path):
    path = tmp_path / "wiki.xml"
    pages = [page(f"Article {i} is here. It is short.", title=f"T{i}") for i in range(5)]
    path.write_text(export(pages, language="bg"), encoding="utf8")
    assert "language bg (the documents' own), " in run("plan", path, *FLAGS)[1]
    mixed = tmp_path / "mixed.jsonl"
    records = [
        {"text": f"Text {i}. More.", "lang": lang} for i, lang in enumerate(["de", None, "fr"])
    ]
    mixed.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert "language en (of those that name their own: de, fr), " in run("plan", mixed, *FLAGS)[1]


def test_advice_to_a_corpus_of_one_document_fits_its_format(run, tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("It was a dark night.\n\nA stone went over the river.\n" * 20)
    code, said = run("plan", path, *FLAGS, "--format", "gutenberg")
    assert code == 2
    assert "of html, gutenberg and prose a file is one" in said


def test_one_of_a_thing_is_said_so(run, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("a stone went slowly over the dark river\n")
    output = tmp_path / "out"
    _, said = run("build", path, *FLAGS, "--output", output, "--objective", "mlm")
    assert "Read 1 document (0 duplicates, " in said
    assert ", 1 sentence, " in said
    shown = run("show", output, "-n", "1")[1]
    assert "1 shard" in shown
    assert "1 shards" not in shown


def test_sentences_that_a_corpus_brings_are_not_said_to_be_found(run, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(json.dumps({"sentences": [f"One {i}. ", "Two."]}) + "\n" for i in range(9))
    )
    _, said = run("build", path, *FLAGS, "--output", tmp_path / "out")
    assert "sentences: found by sentencex (where documents bring none), " in said


def test_documents_of_one_long_sentence_are_not_said_to_give_no_pairs(run, tmp_path):
    words = "a stone went slowly over the dark river and the bee saw it there "
    long, short = (tmp_path / name for name in ("long.jsonl", "short.jsonl"))
    long.write_text("".join(json.dumps({"text": words * 30 + str(i)}) + "\n" for i in range(20)))
    short.write_text("".join(json.dumps({"text": f"{words}{i}"}) + "\n" for i in range(20)))
    assert "give no IsNext pair" not in run("plan", long, *FLAGS)[1]
    assert "20 of 20 documents have one sentence" in run("plan", short, *FLAGS)[1]


@pytest.mark.parametrize(("asked", "meant"), [("doc.boddy", "doc.body"), ("txet", "text")])
def test_a_column_of_nearly_that_name_is_named(run, tmp_path, asked, meant):
    rows = [{"doc": {"body": "One. Two.", "n": 1}, "text": None}]
    path = write_parquet(tmp_path / "a.parquet", pa.Table.from_pylist(rows))
    code, said = run("plan", path, *FLAGS, "--text_field", asked)
    assert code == 2
    assert f"did you mean {meant!r}?" in said


#: Flags of builds that compile kernels of their own.
KINDS = ("--objective nsp", "--objective sop", "--objective mlm", "--exact_reference")


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_run_of_a_kind_says_what_it_waits_for(kind, run, monkeypatch, tmp_path):
    corpus, out = DATA / "sentences.txt", tmp_path / "out"
    flags = (corpus, *FLAGS, *kind.split(), "--provenance")
    for command in (
        ("plan", *flags, *["--no-exact_reference"] * ("exact" in kind)),  # which cannot be planned
        ("build", *flags, "--output", out, "--overwrite"),
        ("check", out),
        ("check", out, "--corpus", corpus),
    ):
        with monkeypatch.context() as patch:
            for module in (pipeline.summary, pipeline.check):
                patch.setattr(module, "has_kernel", lambda name: False)
            assert COMPILING in run(*command)[1]
        # It is compiled now, under the very name.
        assert COMPILING not in run(*command)[1]


def test_a_kernel_is_there_once_it_was_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    assert not has_kernel("a.kernel")
    (tmp_path / "kernels" / "b").mkdir(parents=True)
    assert not has_kernel("a.kernel")
    (tmp_path / "kernels" / "b" / "a.kernel_of_others-1.py311.nbi").touch()
    assert not has_kernel("a.kernel")
    (tmp_path / "kernels" / "b" / "a.kernel-1.py311.nbi").touch()
    assert has_kernel("a.kernel")
