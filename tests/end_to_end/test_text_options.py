"""Encodings, copies, short documents and strictness, from the command to the manifest and the audit."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from pipeline.check import audit
from pipeline.cli import main
from pipeline.config import BuildConfig
from schemas.errors import RefusedRecordError, SingleDocumentError
from schemas.manifest import load_manifest
from tests.builds import DATA, VOCAB, build_here, digests, documents_of
from transforms.reader import READ_COUNTS

DOCUMENTS = documents_of(DATA / "sentences.txt")
SETTINGS = {"dupe_factor": 2, "num_shards": 2, "provenance": True}
FLAGS = ("--vocab_file", str(VOCAB), "--dupe_factor=1", "--num_shards=1", "--num_workers=1")


def write(path: Path, records: list[dict]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def records(documents=DOCUMENTS) -> list[dict]:
    return [{"text": "\n".join(document)} for document in documents]


def error_of(stderr: str) -> str:
    """The one line that says why."""
    (line,) = [line for line in stderr.splitlines() if "error: " in line]
    return line


def rules(findings) -> set[str]:
    return set(findings.broken)


@pytest.mark.parametrize("objective", ["nsp", "mlm"])
def test_copies_are_left_out_counted_and_checked(tmp_path, objective):
    corpus = write(tmp_path / "a.jsonl", [*records(), *records(DOCUMENTS[:20]), records()[0]])
    once = write(tmp_path / "b.jsonl", records())
    settings = SETTINGS | {"objective": objective}
    counts = build_here(once, output=tmp_path / "once", **settings).counts
    manifest = build_here(corpus, output=tmp_path / "out", deduplicate=True, **settings)
    assert manifest.counts == dataclasses.replace(
        counts, documents=counts.documents + 21, duplicate_documents=21
    )
    assert digests(tmp_path / "out") == digests(tmp_path / "once")
    for given in ([], [str(corpus)]):
        found = audit(str(tmp_path / "out"), manifest, corpus=given, num_workers=1)
        assert not found.broken, found.violations
    # Of the corpus without the copies the counts are others, and nothing else.
    assert rules(audit(str(tmp_path / "out"), manifest, corpus=[str(once)])) == {"counts"}


@pytest.mark.parametrize("objective", ["nsp", "mlm"])
def test_a_copy_in_the_rows_is_found(tmp_path, objective):
    corpus = write(tmp_path / "a.jsonl", [*records(), records()[3]])
    settings = SETTINGS | {"objective": objective}
    kept = build_here(corpus, output=tmp_path / "out", **settings)
    config = BuildConfig.from_values(dict(kept.configuration) | {"deduplicate": True})
    claimed = dataclasses.replace(
        kept,
        configuration=json.loads(config.to_json()),
        fingerprint=config.fingerprint(tokenizer_digest=kept.tokenizer.digest, num_shards=2),
    )
    assert claimed.fingerprint != kept.fingerprint
    found = rules(audit(str(tmp_path / "out"), claimed, corpus=[str(corpus)], num_workers=1))
    assert found >= {"sentence_again" if objective == "nsp" else "tokens_again"}


def test_which_copy_stays_does_not_hang_on_the_order(tmp_path):
    """Copies of one text may have other sentences, where they name another language."""
    text = (
        "Er ist ca. 30 Jahre alt. Dr. Maier kam am 3. Mai. Er ging. Sie blieb z. B. hier. Nun ja."
    )
    more = [{"text": " ".join(document), "lang": "en"} for document in DOCUMENTS]
    two = [{"text": text, "lang": "de"}, {"text": text, "lang": "en"}]
    found = []
    for name, order in (("a", [*two, *more]), ("b", [*more, *two[::-1]]), ("c", [two[1], *more])):
        corpus = write(tmp_path / f"{name}.jsonl", order)
        build_here(
            corpus,
            output=tmp_path / name,
            deduplicate=True,
            sentence_splitter="sentencex",
            **SETTINGS,
        )
        found.append(digests(tmp_path / name))
        manifest = load_manifest(tmp_path / name)
        checked = audit(str(tmp_path / name), manifest, corpus=[str(corpus)], num_workers=1)
        assert not checked.broken, checked.violations
    assert found[0] == found[1]


def test_a_data_set_from_before_there_was_any_of_it_still_holds(tmp_path):
    corpus = write(tmp_path / "a.jsonl", records())
    build_here(corpus, output=tmp_path / "out", **SETTINGS)
    path = tmp_path / "out" / "manifest.json"
    data = json.loads(path.read_text())
    for name in ("encoding", "min_document_chars", "deduplicate", "strict"):
        del data["configuration"][name]
    for name in READ_COUNTS:
        del data["counts"][name]
    path.write_text(json.dumps(data))
    found = audit(str(tmp_path / "out"), load_manifest(tmp_path / "out"), corpus=[str(corpus)])
    assert not found.broken, found.violations


def test_odd_characters_and_short_documents_are_in_the_manifest(tmp_path, capsys):
    odd = (
        [{"text": "lost \ufffd. And found."}] * 3 + [{"text": "N\0L. Two."}] + [{"text": "ab"}] * 5
    )
    corpus = write(tmp_path / "a.jsonl", [*records(), *odd])
    flags = [*FLAGS, "--provenance", "--min_document_chars=3", "--output", str(tmp_path / "out")]
    assert main(["build", str(corpus), *flags]) == 0
    printed = capsys.readouterr().out
    assert "left out 5 short ones; refused 0 records" in printed
    assert "3 of 70 documents have U+FFFD" in printed
    assert "right encoding (--encoding)?" in printed
    manifest = load_manifest(tmp_path / "out")
    counts = manifest.counts
    assert (counts.documents, counts.rejects, counts.skipped_documents) == (70, 0, 5)
    assert counts.documents_with_control_characters == 1
    assert counts.documents_with_replacement_characters == 3
    assert main(["check", str(tmp_path / "out"), "--corpus", str(corpus)]) == 0
    wrong = dataclasses.replace(
        counts, documents_with_replacement_characters=2, skipped_documents=None
    )
    lying = dataclasses.replace(manifest, counts=wrong)
    found = audit(str(tmp_path / "out"), lying, corpus=[str(corpus)], num_workers=1)
    (violation,) = found.violations
    assert "documents_with_replacement_characters is 2, the corpus has 3" in violation.words


def test_a_few_lost_characters_are_no_warning(tmp_path, capsys):
    corpus = write(tmp_path / "a.jsonl", [*records(DOCUMENTS * 2), {"text": "lost \ufffd. Two."}])
    assert main(["build", str(corpus), *FLAGS, "--output", str(tmp_path / "out")]) == 0
    assert "U+FFFD" not in capsys.readouterr().out


def test_all_documents_too_short_is_said(tmp_path):
    corpus = write(tmp_path / "a.jsonl", records())
    with pytest.raises(
        SingleDocumentError, match="66 have fewer characters than --min_document_chars"
    ):
        build_here(corpus, output=tmp_path / "out", min_document_chars=10**6, **SETTINGS)


def test_short_documents_are_named_beside_refused_records(tmp_path):
    corpus = write(tmp_path / "a.jsonl", [*records(), {"text": 5}])
    settings = SETTINGS | {"max_reject_fraction": 1.0}
    with pytest.raises(SingleDocumentError) as caught:
        build_here(corpus, output=tmp_path / "out", min_document_chars=10**6, **settings)
    assert "66 have fewer characters than --min_document_chars, 1 records were" in str(caught.value)


def test_strict_stops_a_build_at_the_first_refused_record(tmp_path, capsys):
    corpus = write(tmp_path / "a.jsonl", [*records(), {"text": 7}])
    with pytest.raises(RefusedRecordError, match="field_not_a_string"):
        build_here(corpus, output=tmp_path / "here", strict=True, max_reject_fraction=0.5)
    flags = [*FLAGS[:-1], "--strict", "--max_reject_fraction=0.5", "--num_workers=2"]
    assert main(["build", str(corpus), *flags, "--output", str(tmp_path / "out")]) == 3
    line = error_of(capsys.readouterr().err)
    size = sum(len(json.dumps(record)) + 1 for record in records())
    assert line == f"bert-data: error: --strict: {corpus}@{size}: field_not_a_string: 'text' is int"
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert main(["plan", str(corpus), *flags]) == 3
    assert "more records are refused than --strict allows" in capsys.readouterr().out


def test_strict_is_no_hindrance_to_a_good_corpus(tmp_path):
    corpus = write(tmp_path / "a.jsonl", records())
    manifest = build_here(corpus, output=tmp_path / "out", strict=True, **SETTINGS)
    build_here(corpus, output=tmp_path / "again", **SETTINGS)
    assert digests(tmp_path / "out") == digests(tmp_path / "again")
    # A check counts what is refused now, and does not stop at it.
    corpus.write_text(corpus.read_text() + "broken\n")
    assert rules(audit(str(tmp_path / "out"), manifest, corpus=[str(corpus)])) == {"counts"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_named_before_anything_runs(tmp_path, capsys):
    corpus = write(tmp_path / "a.jsonl", records())
    corpus.chmod(0)
    assert main(["build", str(corpus), *FLAGS, "--output", str(tmp_path / "out")]) == 2
    assert "permission denied" in error_of(capsys.readouterr().err)


def test_what_was_decided_is_told(tmp_path, capsys):
    content = "\n\n".join("\n".join(document) for document in DOCUMENTS)
    marked, latin = tmp_path / "a.txt", tmp_path / "b.txt"
    marked.write_bytes(content.encode("utf-16"))
    latin.write_bytes(("Größe. Zwei.\n\n" * 20 + content).encode("latin-1", "ignore"))
    flags = [*FLAGS, "--encoding=latin-1"]
    assert main(["plan", str(marked), str(latin), *flags]) == 0
    printed = capsys.readouterr().out
    assert "1 text, utf-16-le (its byte order mark): neither" in printed
    assert "1 text, iso8859-1 (--encoding latin-1): neither" in printed
    assert main(["build", str(marked), str(latin), *flags, "--output", str(tmp_path / "out")]) == 0
    assert (
        "Reading 1 text in iso8859-1 (--encoding latin-1), 1 text in utf-16-le (its byte order mark)"
        in capsys.readouterr().out
    )
    counts = load_manifest(tmp_path / "out").counts
    assert (counts.documents, counts.rejects) == (86 + 66, 0)


def test_a_large_file_in_another_encoding_is_planned_from_a_sample(tmp_path, capsys):
    content = "\n\n".join("\n".join(document) for document in DOCUMENTS * 60) + "\n"
    found = {}
    for name in ("utf-8", "utf-16"):
        path = tmp_path / name
        path.write_bytes(content.encode(name))
        assert main(["plan", str(path), *FLAGS]) == 0
        line = next(t for t in capsys.readouterr().out.splitlines() if t.startswith("Text: "))
        found[name] = int(line.split()[1].lstrip("~").replace(",", ""))
    assert found["utf-8"] == pytest.approx(60 * 66, rel=0.2)
    assert found["utf-16"] == pytest.approx(60 * 66, rel=0.2)


@pytest.mark.parametrize(
    "flag", ["--encoding=latin-1", "--deduplicate", "--min_document_chars=5"], ids=str
)
def test_the_exact_reference_knows_none_of_it(tmp_path, capsys, flag):
    output = str(tmp_path / "out")
    code = main(
        [
            "build",
            str(DATA / "sentences.txt"),
            *FLAGS,
            "--exact_reference",
            flag,
            "--output",
            output,
        ]
    )
    assert code == 2
    assert "cannot go with --exact_reference" in error_of(capsys.readouterr().err)
