"""``bert-data documents``: a file that is whole or absent, rejects told, documents that can be mended."""

from __future__ import annotations

import json
import os
import signal

import pyarrow.parquet as pq
import pytest

from pipeline.config import BuildConfig
from pipeline.documents import rejects_path, write_documents
from schemas.errors import ConfigError, SingleDocumentError, TooManyRejectsError
from tests.builds import DATA, VOCAB, build_here, run_command
from tests.end_to_end.commands import error_line, wait_until_gone
from tests.unit.remote import MemoryFileSystem
from transforms import languages

CORPUS = DATA / "documents.jsonl"


def documents(*inputs, output, **settings):
    values = {"input": tuple(map(str, inputs)), "output": str(output), "vocab_file": str(VOCAB)}
    config = BuildConfig.from_values(values | {"num_workers": 1} | settings)
    return write_documents(config, quiet=True)


def one_line(done) -> str:
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def names(folder):
    return sorted(os.listdir(folder))


@pytest.fixture
def bad(tmp_path):
    """Three documents and two records that are refused."""
    path = tmp_path / "in" / "bad.jsonl"
    path.parent.mkdir()
    rows = ['{"text": "A one. A two.", "lang": "de"}', "no json", '{"text": 7}']
    path.write_text("\n".join([*rows, *('{"text": "B one.\\n\\nB two."}',) * 2]) + "\n")
    return path


def test_what_it_writes_and_says(bad, tmp_path):
    path = tmp_path / "out.jsonl"
    done = run_command("documents", bad, "--output", path, "--max_reject_fraction=0.5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "Read 3 documents, 6 sentences; refused 2 records (1 broken_json, 1 field_not_a_string; they "
        f"are in {tmp_path}/_out.jsonl.rejects.jsonl)\nWrote {path} in "
    )
    assert names(tmp_path) == ["_out.jsonl.rejects.jsonl", "in", "out.jsonl"]
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"source": f"{bad}@0", "language": "de", "sentences": ["A one. ", "A two."]},
        {"source": f"{bad}@60", "language": "en", "sentences": ["B one.\n\n", "B two."]},
        {"source": f"{bad}@89", "language": "en", "sentences": ["B one.\n\n", "B two."]},
    ]
    rejects = (tmp_path / "_out.jsonl.rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["reason"] for line in rejects] == ["broken_json", "field_not_a_string"]


def test_too_many_rejects_leave_no_file_but_these(bad, tmp_path):
    path = tmp_path / "out.avro"
    with pytest.raises(TooManyRejectsError) as caught:
        documents(bad, output=path)
    for words in (
        "2 of 5 records were refused (1 broken_json, 1 field_not_a_string)",
        "--max_reject_fraction=0.001",
        rejects_path(str(path)),
        f"one of them is {bad}@",
    ):
        assert words in str(caught.value)
    assert names(tmp_path) == ["_out.avro.rejects.jsonl", "in"]
    done = run_command("documents", bad, "--output", path)
    assert done.returncode == 3
    assert one_line(done)
    documents(CORPUS, output=path)
    assert names(tmp_path) == ["in", "out.avro"]  # the rejects were another input's


def test_a_language_that_was_found_out_is_named(tmp_path, monkeypatch):
    """The file says by whose rules a document was cut: never "auto", which is no language."""
    monkeypatch.setattr(languages, "detect_language", lambda text: "de" if "ß" in text else "en")
    corpus, path = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [{"text": "Groß. Ja."}, {"text": "No. One."}, {"text": "Groß. Yes.", "lang": "fr"}]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    documents(corpus, output=path, language="auto")
    found = [json.loads(line)["language"] for line in path.read_text().splitlines()]
    assert found == ["de", "en", "fr"]


def test_short_documents_are_left_out_and_told(tmp_path):
    corpus, path = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    corpus.write_text('{"text": "A one. A two."}\n{"text": "No."}\n')
    done = run_command("documents", corpus, "--output", path, "--min_document_chars=4")
    assert done.stdout.startswith(
        "Read 1 document, 2 sentences; left out 1 short one; refused 0 records\n"
    )
    with pytest.raises(SingleDocumentError, match="2 have fewer characters than --min_doc"):
        documents(corpus, output=tmp_path / "none.jsonl", min_document_chars=99)


def test_strict_names_the_first_bad_record(bad, tmp_path):
    done = run_command("documents", bad, "--output", tmp_path / "a.avro", "--strict")
    assert done.returncode == 3
    assert one_line(done).startswith(f"bert-data: error: --strict: {bad}@40: broken_json: ")
    assert names(tmp_path) == ["in"]


def test_what_is_there_is_replaced_only_when_asked_and_only_at_the_end(bad, tmp_path):
    path = tmp_path / "out.parquet"
    documents(CORPUS, output=path)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="is there already; --overwrite replaces it"):
        documents(CORPUS, output=path)
    with pytest.raises(TooManyRejectsError):
        documents(bad, output=path, overwrite=True)
    assert path.read_bytes() == before
    documents(bad, output=path, overwrite=True, max_reject_fraction=0.5)
    assert pq.read_table(path).num_rows == 3


def test_wrong_outputs(tmp_path):
    (tmp_path / "a.avro").mkdir()
    link = tmp_path / "link.jsonl"
    link.symlink_to(CORPUS)
    for output, words in (
        ("a.txt", "must end in .avro, .parquet, .jsonl"),
        ("a.avro", "is a directory"),
        ("link.jsonl", "is an input as well"),
    ):
        with pytest.raises(ConfigError, match=words):
            documents(CORPUS, output=tmp_path / output, overwrite=True)
    empty = tmp_path / "blank.txt"
    empty.write_text(" \n\n")
    with pytest.raises(SingleDocumentError, match="no document with text"):
        documents(empty, output=tmp_path / "b.avro")
    assert names(tmp_path) == ["a.avro", "blank.txt", "link.jsonl"]


def test_flags_that_are_no_concern_of_it(tmp_path):
    for flag, words in (
        ("--dupe_factor=2", "no such flag: --dupe_factor=2"),
        ("--vocab_file=x", "no such flag: --vocab_file=x"),
        ("--deduplicate", "no such flag: --deduplicate"),
        ("--overwrit", "did you mean --overwrite?"),
    ):
        done = run_command("documents", CORPUS, "--output", tmp_path / "a.avro", flag)
        assert done.returncode == 2
        assert words in one_line(done)
    done = run_command("documents", CORPUS)
    assert "must be given: --output" in one_line(done)
    shown = run_command("documents", "--help").stdout
    assert "--sentence_splitter" in shown
    assert "--output FILE" in shown
    assert "--vocab_file" not in shown


def test_mended_by_hand(tmp_path):
    """A sentence that was cut in two is made one again: the build takes it so."""
    path, mended = tmp_path / "a.jsonl", tmp_path / "mended.jsonl"
    documents(CORPUS, output=path)
    rows = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    sentences = sum(len(row["sentences"]) for row in rows)
    rows[0]["sentences"][:2] = ["".join(rows[0]["sentences"][:2])]
    mended.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf8")
    first = build_here(path, output=tmp_path / "first", num_shards=1, provenance=True)
    second = build_here(mended, output=tmp_path / "second", num_shards=1, provenance=True)
    assert first.counts.sentences == sentences
    assert second.counts.sentences == sentences - 1
    assert second.counts.tokens == first.counts.tokens
    keys = [
        set(pq.read_table(tmp_path / out / "seq128")["a_document"].to_pylist())
        for out in ("first", "second")
    ]
    assert keys[0] == keys[1]  # the text is the same


@pytest.mark.parametrize("ending", ["avro", "parquet", "jsonl"])
def test_to_another_file_system(ending, monkeypatch):
    monkeypatch.setattr(MemoryFileSystem, "files", {})
    documents(CORPUS, output=f"memory://b/a.{ending}")
    assert list(MemoryFileSystem.files) == [f"memory://b/a.{ending}"]
    with pytest.raises(ConfigError, match="is there already"):
        documents(CORPUS, output=f"memory://b/a.{ending}")


def test_an_interrupt_leaves_nothing(commands, tmp_path):
    big = tmp_path / "big.jsonl"
    big.write_text(CORPUS.read_text(encoding="utf8") * 300, encoding="utf8")
    folder = tmp_path / "out"
    command = commands.start("documents", big, "--output", folder / "a.avro", "--num_workers=2")
    command.until(lambda: any(folder.glob(".spill-*/*.tmp")))
    os.kill(command.pid, signal.SIGINT)
    done = command.wait()
    assert done.code == 130
    assert "interrupted" in error_line(done)
    wait_until_gone(command.pid)
    assert names(folder) == []
