"""Corpora with something wrong in them: what is said, and that the rest is built all the same."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.config import BuildConfig
from pipeline.run import build
from schemas.errors import SingleDocumentError, TooManyRejectsError
from tests.builds import (
    DATA,
    VOCAB,
    build_here,
    digests,
    documents_of,
    run_command,
    write_jsonl,
    write_text,
)
from tests.end_to_end.commands import error_line, files_of

SETTINGS = {"dupe_factor": 1, "num_shards": 2, "max_reject_fraction": 0.2}
FLAGS = ("--dupe_factor=1", "--num_shards=2", "--max_reject_fraction=0.2")

DOCUMENTS = documents_of(DATA / "sentences.txt")
LINES = [json.dumps({"text": "\n".join(d)}, ensure_ascii=False).encode() for d in DOCUMENTS]

#: A record, why it is refused, and how its excerpt begins.
BAD = [
    (b'{"text": "caf\xe9"}', "undecodable", '{"text": "caf\N{REPLACEMENT CHARACTER}"}'),
    (b'{"text": "\\ud800"}', "undecodable", '{"text": "\\ud800"}'),
    (b'{"text": "never', "broken_json", '{"text": "never'),
    (b"[1, 2]", "broken_json", "[1, 2]"),
    (b'{"text": "a"} {"text": "b"}', "broken_json", '{"text": "a"} {"text": "b"}'),
    (b'{"content": "a"}', "missing_field", '{"content": "a"}'),
    (b'{"text": null}', "field_not_a_string", '{"text": null}'),
    (b'{"text": ["a", "b"]}', "field_not_a_string", '{"text": ["a", "b"]}'),
    (b'{"text": "a", "lang": 7}', "field_not_a_string", '{"text": "a", "lang": 7}'),
    (b'{"text": " \\n\\t"}', "empty_document", '{"text": " \\n\\t"}'),
    (b'{"text": "' + b"word " * 10_000 + b'"}', "too_long", '{"text": "word word'),
]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The digests of the corpus without anything wrong in it."""
    folder = tmp_path_factory.mktemp("clean")
    build_here(write_jsonl(folder / "a.jsonl", DOCUMENTS), output=folder / "out", **SETTINGS)
    return digests(folder / "out")


def with_bad_records(path: Path) -> dict[str, tuple[str, str]]:
    """Puts one after every fifth document; gives reason and excerpt by source."""
    lines, expected, offset = [], {}, 0
    for i, line in enumerate(LINES):
        there = [line]
        if i % 5 == 0 and i // 5 < len(BAD):
            record, reason, excerpt = BAD[i // 5]
            expected[f"{path}@{offset}"] = (reason, excerpt)
            there = [record, line]
        lines += there
        offset += sum(len(part) + 1 for part in there)
    assert len(expected) == len(BAD)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return expected


def rejects_of(output: Path) -> dict[str, dict[str, str]]:
    """All refused records by source; a record may be there once only."""
    rows = [
        json.loads(line)
        for path in output.glob("rejects/*")
        for line in path.read_text(encoding="utf8").split("\n")[:-1]
    ]
    assert len({row["source"] for row in rows}) == len(rows)
    return {row["source"]: row for row in rows}


def check_rejects(output: Path, expected: dict[str, tuple[str, str]]) -> None:
    found = rejects_of(output)
    assert found.keys() == expected.keys()
    for source, (reason, excerpt) in expected.items():
        assert found[source]["reason"] == reason
        assert found[source]["detail"]
        assert found[source]["excerpt"].startswith(excerpt)
        assert len(found[source]["excerpt"]) <= 200


def test_bad_records_are_set_apart_and_the_rest_is_as_without_them(clean, tmp_path):
    expected = with_bad_records(tmp_path / "a.jsonl")
    manifest = build_here(
        tmp_path / "a.jsonl", output=tmp_path / "out", max_document_bytes=20_000, **SETTINGS
    )
    assert digests(tmp_path / "out") == clean
    check_rejects(tmp_path / "out", expected)
    assert manifest.counts.documents == len(DOCUMENTS)
    assert manifest.counts.rejects == len(BAD)
    assert manifest.counts.rejects_by_reason == {
        "broken_json": 3,
        "empty_document": 1,
        "field_not_a_string": 3,
        "missing_field": 1,
        "too_long": 1,
        "undecodable": 2,
    }


def test_the_command_says_so_and_succeeds_below_the_limit(commands, clean, tmp_path):
    expected = with_bad_records(tmp_path / "a.jsonl")
    flags = [*FLAGS, "--max_document_bytes=20000", "--num_workers=2"]
    done = commands.build(tmp_path / "a.jsonl", tmp_path / "out", *flags).wait()
    assert (done.code, done.stderr) == (0, "")
    assert "refused 11 records (3 broken_json, 1 empty_document, " in done.stdout
    assert digests(tmp_path / "out") == clean
    check_rejects(tmp_path / "out", expected)


@pytest.mark.parametrize("workers", [1, 2])
def test_above_the_limit_nothing_is_written_but_the_rejects(commands, tmp_path, workers):
    expected = with_bad_records(tmp_path / "a.jsonl")
    flags = [*FLAGS, "--max_document_bytes=20000", f"--num_workers={workers}"]
    flags += ["--max_reject_fraction=0.14"]
    done = commands.build(tmp_path / "a.jsonl", tmp_path / "out", *flags).wait()
    assert done.code == 3
    said = error_line(done)
    assert said.startswith("11 of 77 records were refused (3 broken_json, 1 empty_document, ")
    assert "--max_reject_fraction=0.14" in said
    assert f"one of them is {tmp_path}/a.jsonl@0: not UTF-8: 0xe9 at byte 13 " in said
    check_rejects(tmp_path / "out", expected)
    assert all(name.startswith("rejects/") for name in files_of(tmp_path / "out"))


def test_the_limit_itself_is_allowed(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*LINES[:9], b"{"]) + b"\n")
    settings = SETTINGS | {"max_reject_fraction": 0.1}
    build_here(tmp_path / "a.jsonl", output=tmp_path / "a", **settings)
    with pytest.raises(TooManyRejectsError, match="1 of 10 records"):
        build_here(
            tmp_path / "a.jsonl", output=tmp_path / "b", **settings | {"max_reject_fraction": 0.09}
        )


def test_an_undecodable_document_of_berts_format(clean, tmp_path):
    documents = ["\n".join(d).encode() for d in DOCUMENTS]
    documents.insert(7, b"A fine line.\nA caf\xe9.\nAnother one.")
    (tmp_path / "a.txt").write_bytes(b"\n\n".join(documents))
    build_here(tmp_path / "a.txt", output=tmp_path / "out", **SETTINGS | {"num_shards": 2})
    offset = sum(len(d) + 2 for d in documents[:7])
    source = f"{tmp_path}/a.txt@{offset}"
    check_rejects(tmp_path / "out", {source: ("undecodable", "A fine line.\nA caf\ufffd.")})
    write_text(tmp_path / "b.txt", DOCUMENTS)
    build_here(tmp_path / "b.txt", output=tmp_path / "clean", **SETTINGS)
    assert digests(tmp_path / "out") == digests(tmp_path / "clean")


def test_a_line_of_200_mb_is_never_held_in_memory(commands, clean, tmp_path):
    long_line = 200 << 20
    small = tmp_path / "small"
    small.mkdir()
    (small / "a.jsonl").write_bytes(b"\n".join(LINES) + b"\n")
    large = shutil.copytree(small, tmp_path / "large")
    with (large / "b.jsonl").open("wb") as file:  # sparse: the bytes are zeros, and nowhere on disk
        file.write(LINES[0] + b"\n")
        file.truncate(file.tell() + long_line)
        file.seek(0, 2)
        file.write(b"\n" + LINES[1] + b"\n")
    with gzip.open(large / "c.jsonl.gz", "wb", compresslevel=1) as packed:
        for _ in range(200):
            packed.write(b"x" * (1 << 20))
        packed.write(b"\n" + LINES[2] + b"\n")
    with (small / "b.jsonl").open("wb") as file:
        file.write(b"\n".join(LINES[:3]) + b"\n")
    peaks = {}
    for folder in (small, large):
        flags = [*FLAGS, "--format=jsonl", "--num_workers=1"]
        done = commands.build(folder, tmp_path / f"out-{folder.name}", *flags).wait()
        assert (done.code, done.stderr) == (0, "")
        peaks[folder.name] = done.peak_bytes
    found = rejects_of(tmp_path / "out-large")
    assert found.keys() == {f"{large}/b.jsonl@{len(LINES[0]) + 1}", f"{large}/c.jsonl.gz@0"}
    for reject in found.values():
        assert reject["reason"] == "too_long"
        assert "more than 67,108,864 bytes (--max_document_bytes)" in reject["detail"]
        assert len(reject["excerpt"]) == 200
    assert digests(tmp_path / "out-large") == digests(tmp_path / "out-small")
    # A record is held up to the limit, 64 MiB.
    assert 0 < peaks["small"] < peaks["large"] < peaks["small"] + 0.6 * long_line


@pytest.mark.parametrize(("workers", "limit"), [(2, 0.2), (1, 0.001)])
def test_a_compressed_file_that_is_cut_off(commands, tmp_path, workers, limit):
    whole = gzip.compress(b"\n".join(LINES) + b"\n")
    cut = len(whole) * 2 // 3
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(whole[:cut])
    flags = [*FLAGS, f"--num_workers={workers}", f"--max_reject_fraction={limit}"]
    done = commands.build(path, tmp_path / "out", *flags).wait()
    (reject,) = rejects_of(tmp_path / "out").values()
    offset = int(reject["source"].removeprefix(f"{path}@"))
    assert reject["reason"] == "damaged_stream"
    assert f"near byte {cut:,} of the file, after {offset:,} bytes" in reject["detail"]
    if limit == 0.001:
        assert done.code == 3
        said = error_line(done)
        assert f"one of them is {path}@{offset}: " in said
        assert f"near byte {cut:,} of the file" in said
        assert not list((tmp_path / "out").glob("seq*"))
        return
    assert done.code == 0
    assert done.stderr == f"bert-data: warning: {reject['source']}: {reject['detail']}\n"
    # What came before the damage is there, all of it: more than half, and not the cut-off line.
    kept = (
        b"".join(line + b"\n" for line in LINES)[:offset].decode(errors="ignore").split("\n")[:-1]
    )
    assert len(DOCUMENTS) / 2 < len(kept) < len(DOCUMENTS)
    (tmp_path / "kept.jsonl").write_text("\n".join(kept) + "\n")
    build_here(tmp_path / "kept.jsonl", output=tmp_path / "kept", **SETTINGS)
    assert digests(tmp_path / "out") == digests(tmp_path / "kept")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("One. And two.\nThree.\n", "is one document, and --objective=nsp needs"),
        ("One.\nTwo.\n\n" * 5, "is one document, and --objective=nsp needs"),
        ("One.\nTwo.\n\n  One.\t\r\nTwo.\n", "is one document, and --objective=nsp needs"),
        ("One.\nTwo.\n\n\N{ZERO WIDTH SPACE}\n", "is one document, and --objective=nsp needs"),
        (" \n\n\t\n \r\n", "has no document with text; nothing"),
        ("\N{ZERO WIDTH SPACE}\n\n\N{SOFT HYPHEN}\n", "has no document with text; nothing"),
    ],
    ids=["one", "all-the-same", "the-same-but-for-space", "one-with-tokens", "blank", "no-tokens"],
)
def test_a_corpus_without_pairs(tmp_path, text, what):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(SingleDocumentError, match=f"^the corpus {what}"):
        build_here(tmp_path / "a.txt", output=tmp_path / "out", **SETTINGS)
    assert "manifest.json" not in files_of(tmp_path / "out")


def test_the_command_refuses_a_corpus_of_one_document(commands, tmp_path):
    (tmp_path / "a.txt").write_text("One. And two.\nThree.\n")
    done = commands.build(tmp_path / "a.txt", tmp_path / "out", "--num_workers=2").wait()
    assert done.code == 2
    assert "--objective=nsp needs at least two different ones" in error_line(done)
    assert not files_of(tmp_path / "out")


def test_a_corpus_where_every_document_is_one_sentence(tmp_path, capsys):
    sentences = [[sentence] for document in DOCUMENTS[:20] for sentence in document]
    write_text(tmp_path / "a.txt", sentences)
    config = BuildConfig(
        input=(str(tmp_path / "a.txt"),),
        output=str(tmp_path / "out"),
        vocab_file=str(VOCAB),
        num_workers=1,
    )
    manifest = build(config)
    assert manifest is not None
    n = len({tuple(s) for s in sentences})
    assert manifest.counts.one_sentence_documents >= n
    assert manifest.data_sets[0].rates.not_next == 1
    said = [line for line in capsys.readouterr().out.splitlines() if "warning: " in line]
    assert "documents have one sentence, and give no IsNext pair" in said[0]


def test_a_healthy_corpus_is_not_warned_about(tmp_path, capsys):
    config = BuildConfig(
        input=(str(DATA / "sentences.txt"),),
        output=str(tmp_path / "out"),
        vocab_file=str(VOCAB),
        num_workers=1,
    )
    build(config)
    said = capsys.readouterr()
    assert "warning" not in said.out
    assert said.err == ""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("command", ["build", "plan"])
def test_a_table_without_the_column_is_a_wrong_flag(tmp_path, workers, command):
    """Exit code 2, also where a worker process is the one that finds it."""
    paths = [tmp_path / f"{name}.parquet" for name in "ab"]
    for path in paths:
        pq.write_table(pa.table({"body": ["A fox.", "A crow."]}), path)
    done = run_command(
        command,
        *map(str, paths),
        *FLAGS,
        f"--vocab_file={VOCAB}",
        f"--output={tmp_path / 'out'}",
        f"--num_workers={workers}",
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("bert-data: error: ")
    assert "has no column 'text'; there is 'body'; say which" in line
