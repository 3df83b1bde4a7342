"""What is read is what is in the files: every document once, every bad record with its reason."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.arrow import DOCUMENT_BATCH, REJECT_BATCH
from schemas.errors import ConfigError
from tests.unit.compressing import COMPRESS
from transforms import progress
from transforms.canonical import canonical_text
from transforms.formats.batching import text_bytes
from transforms.formats.prose import Prose
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import ReadOptions, read_task


def read(*paths, format="auto", stripes=1, range_bytes=None, **options):
    """Documents and rejects as lists of rows, over all tasks."""
    separator = options.get("document_separator")
    files = list_inputs([str(path) for path in paths], format=format)
    tasks = plan_reads(
        files, num_stripes=stripes, range_bytes=range_bytes, document_separator=separator
    )
    found: dict[str, list[dict]] = {"documents": [], "rejects": []}
    for task in tasks:
        for output, batch in read_task(task, options=ReadOptions(**options)):
            assert batch.schema == (DOCUMENT_BATCH if output == "documents" else REJECT_BATCH)
            assert batch.num_rows
            batch.validate(full=True)
            found[output] += batch.to_pylist()
    return found["documents"], found["rejects"]


def texts(documents) -> list[str]:
    return [document["text"] for document in documents]


def reasons(rejects) -> list[tuple[int, str]]:
    """Offset and reason."""
    return [(int(row["source"].rpartition("@")[2]), row["reason"]) for row in rejects]


def file_with(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# Canonical text


def by_the_book(text: str) -> str:
    lines = [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    return "\n".join(lines)


@settings(max_examples=500)
@given(st.text(alphabet=" \t\n\r\x0b\x0c\x1c\x1f\x85\xa0  　aé漢😀", max_size=30))
def test_canonical_text_is_what_its_definition_says(text):
    assert canonical_text(text) == by_the_book(text)


@given(st.text())
def test_canonical_text_is_canonical(text):
    once = canonical_text(text)
    assert canonical_text(once) is once
    assert "\r" not in once


# Formats


def test_the_sample_documents(data):
    documents, rejects = read(data / "documents.jsonl", id_field="id")
    with open(data / "documents.jsonl", encoding="utf8") as lines:
        expected = [json.loads(line) for line in lines]
    assert texts(documents) == [by_the_book(record["text"]) for record in expected]
    assert [d["language"] for d in documents] == [record.get("lang") for record in expected]
    assert documents[0]["source"] == f"{data / 'documents.jsonl'}#{expected[0]['id']}"
    assert rejects == []


def test_the_same_documents_in_every_format(tmp_path):
    wanted = ["One.\nTwo, é.", "Three.", "漢字 。\nFour."]
    jsonl = file_with(tmp_path / "a.jsonl", "".join(json.dumps({"text": t}) + "\n" for t in wanted))
    text = file_with(tmp_path / "a.txt", "\r\n \r\n".join(t.replace("\n", " \r\n") for t in wanted))
    prose = file_with(tmp_path / "b.txt", "\n---\n".join(f"\n{t}\n\n" for t in wanted))
    several = [file_with(tmp_path / f"c{i}.txt", t) for i, t in enumerate(wanted)]
    assert texts(read(jsonl)[0]) == wanted
    assert texts(read(text)[0]) == wanted
    assert texts(read(prose, format="prose", document_separator="---")[0]) == wanted
    assert texts(read(*several, format="prose")[0]) == wanted


def test_text_has_a_document_between_blank_lines(tmp_path):
    path = file_with(tmp_path / "a", "\n\nA one.\nA two.\n\n \t\nB one.\n　\nC one.")
    documents, rejects = read(path)
    assert texts(documents) == ["A one.\nA two.", "B one.", "C one."]
    assert [d["source"] for d in documents] == [f"{path}@2", f"{path}@20", f"{path}@31"]
    assert [d["language"] for d in documents] == [None] * 3
    assert rejects == []


def test_two_files_never_make_one_document(tmp_path):
    a = file_with(tmp_path / "a", "end of a")
    b = file_with(tmp_path / "b", "beginning of b")
    assert texts(read(a, b)[0]) == ["end of a", "beginning of b"]


def test_fields_of_json_lines(tmp_path):
    records = [
        {"id": "x", "body": {"text": "nested"}, "language": "de"},
        {"id": 7, "body.text": "dotted", "body": {"text": "not this"}, "language": None},
        {"id": None, "body": {"text": "no name", "score": float("nan")}},
    ]
    path = file_with(tmp_path / "a.jsonl", "\n".join(json.dumps(r) for r in records))
    documents, rejects = read(
        path, text_field="body.text", id_field="id", language_field="language"
    )
    offset = sum(len(json.dumps(r)) + 1 for r in records[:2])
    assert documents == [
        {"text": "nested", "source": f"{path}#x", "language": "de"},
        {"text": "dotted", "source": f"{path}#7", "language": None},
        {"text": "no name", "source": f"{path}@{offset}", "language": None},
    ]
    assert rejects == []


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
@pytest.mark.parametrize("codec", ["none", "gz"])
def test_a_byte_order_mark_is_dropped(name, codec, tmp_path):
    content = '\ufeff{"text": "é"}\n' if name == "a.jsonl" else "\ufeff\né\n"
    path = file_with(tmp_path / name, COMPRESS[codec](content.encode()))
    assert read(path)[1] == []
    assert texts(read(path)[0]) == ["é"]


# Refused records


def test_bad_lines_of_json_cost_themselves_only(tmp_path):
    lines = [
        b'{"text": "good"}',
        b"",
        b" \t\r",
        b'{"text": "caf\xe9"}',
        b'{"text": "cut',
        b"[1, 2]",
        b'{"text": "two"} {"text": "values"}',
        b'{"body": "x", "\\ud800": 1}',
        b'{"text": null}',
        b'{"text": ["list"]}',
        b'{"text": " \\n\\u3000"}',
        b'{"text": "half a \\ud83d character"}',
        b'{"text": "' + b"x" * 300 + b'"}',
        b'{"text": "x", "lang": 3}',
        b'{"text": "x", "lang": "\\udcff"}',
        b"[" * 100_000,
        b'{"text": "x", "n": ' + b"1" * 5000 + b"}",
        b'{"text": "last", "id": "\\ud800"}',
    ]
    offsets = [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]
    path = file_with(tmp_path / "a.jsonl", b"\n".join(lines))
    documents, rejects = read(path, max_document_bytes=200_000, id_field="id")
    assert texts(documents) == ["good", "x" * 300, "last"]
    assert documents[-1]["source"] == f"{path}#\\ud800"
    assert reasons(rejects) == [
        (offsets[3], "undecodable"),
        (offsets[4], "broken_json"),
        (offsets[5], "broken_json"),
        (offsets[6], "broken_json"),
        (offsets[7], "missing_field"),
        (offsets[8], "field_not_a_string"),
        (offsets[9], "field_not_a_string"),
        (offsets[10], "empty_document"),
        (offsets[11], "undecodable"),
        (offsets[13], "field_not_a_string"),
        (offsets[14], "undecodable"),
        (offsets[15], "broken_json"),
        (offsets[16], "broken_json"),
    ]
    by_offset = dict(zip([offset for offset, _ in reasons(rejects)], rejects, strict=True))
    assert by_offset[offsets[3]]["excerpt"] == '{"text": "caf\ufffd"}'
    assert "0xe9" in by_offset[offsets[3]]["detail"]
    assert f"{offsets[3] + 13:,}" in by_offset[offsets[3]]["detail"]
    assert "'body'" in by_offset[offsets[7]]["detail"]
    assert "U+D83D" in by_offset[offsets[11]]["detail"]
    assert by_offset[offsets[15]]["excerpt"] == "[" * 200


def test_a_document_that_is_not_utf8_costs_itself_only(tmp_path):
    path = file_with(tmp_path / "a", b"good\n\nbad \xff here\nand more\n\ngood too\n")
    documents, rejects = read(path)
    assert texts(documents) == ["good", "good too"]
    assert reasons(rejects) == [(6, "undecodable")]
    assert rejects[0]["excerpt"] == "bad \ufffd here\nand more"


@pytest.mark.parametrize(
    ("content", "separator", "wanted", "refused"),
    [
        ("", None, [], [(0, "empty_document")]),
        (" \n\n", None, [], [(0, "empty_document")]),
        ("a\n\nb\n", None, ["a\n\nb"], []),
        ("", "---", [], [(0, "empty_document")]),
        (" \n", "---", [], [(0, "empty_document")]),
        ("---\na\n---\n", "---", ["a"], []),
        ("\n---\na\n  ---\t\r\n\nb\n---\n \n", "---", ["a", "b"], []),
        ("a\n---\n \n---\nb", "---", ["a", "b"], [(6, "empty_document")]),
        ("a\n---\n---\nb", "---", ["a", "b"], [(6, "empty_document")]),
        ("a\n----\nb --- c\n<doc>\nd", "<doc>", ["a\n----\nb --- c", "d"], []),
    ],
)
def test_prose(content, separator, wanted, refused, tmp_path):
    path = file_with(tmp_path / "a.txt", content)
    other = file_with(tmp_path / "other.txt", "not empty")
    documents, rejects = read(path, other, format="prose", document_separator=separator)
    assert texts(documents) == [*wanted, "not empty"]
    assert reasons(rejects) == refused


@pytest.mark.parametrize("separator", ["", " ", " ---", "a\nb"])
def test_a_separator_that_no_line_can_be_is_refused(separator):
    with pytest.raises(ConfigError, match="document_separator"):
        Prose(separator)


def test_too_long_records_come_with_the_remedy(tmp_path):
    lines = file_with(tmp_path / "a.jsonl", json.dumps({"text": "x" * 1000}) + '\n{"text": "ok"}\n')
    text = file_with(tmp_path / "a.txt", "line\n" * 200 + "\nok\n")
    prose = file_with(tmp_path / "b.txt", "line\n" * 200)
    documents, rejects = read(lines, text, max_document_bytes=900)
    assert texts(documents) == ["ok", "ok"]
    assert [row["reason"] for row in rejects] == ["too_long"] * 2
    assert "blank line" in rejects[1]["detail"]
    assert "max_document_bytes" in rejects[1]["detail"]
    assert rejects[1]["excerpt"] == ("line\n" * 200)[:200]
    _, (row,) = read(prose, format="prose", max_document_bytes=900)
    assert row["reason"] == "too_long"
    assert "--document_separator" in row["detail"]


@pytest.mark.parametrize("form", ["jsonl", "text"])
def test_a_huge_record_is_never_held(form, tmp_path):
    size = 200_000_000
    path = tmp_path / f"huge.{form}"
    with open(path, "wb") as file:
        file.write(b"x")
        file.truncate(size)  # nothing is written: the disk has a hole
        file.seek(size)
        file.write(b'\n\n{"text": "after"}\n')
    tracemalloc.start()
    documents, rejects = read(path, format=form, max_document_bytes=2_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(documents) == 1
    assert "after" in documents[0]["text"]
    assert reasons(rejects) == [(0, "too_long")]
    assert peak < 10_000_000


def test_a_file_that_is_gone_or_locked_crashes_with_its_name(tmp_path):
    path = file_with(tmp_path / "a.txt", "text")
    (task,) = plan_reads(list_inputs([str(path)], format="text"), num_stripes=1, range_bytes=None)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.txt"):
        list(read_task(task))


# Sharing the work


def corpus(tmp_path: Path, codec: str) -> tuple[list[Path], list[str], list[tuple[str, str]]]:
    """Files of every format, the documents in them, and reasons with excerpts."""
    wanted = [f"Document {i}.\n" + f"Line of {i}. " * (i * 7 % 90) + "end." for i in range(300)]
    wanted = [canonical_text(text) for text in wanted]
    lines = [json.dumps({"text": text}) for text in wanted[:150]]
    lines.insert(40, "not json")
    lines.insert(90, json.dumps({"text": "long " * 2000}))
    text = (
        "\n\n".join(wanted[150:220]) + "\n\n" + "long\n" * 2500 + "\n" + "\n\n".join(wanted[220:])
    )
    suffix = "" if codec == "none" else f".{codec}"
    return (
        [
            file_with(tmp_path / f"a.jsonl{suffix}", COMPRESS[codec]("\n".join(lines).encode())),
            file_with(tmp_path / f"b.txt{suffix}", COMPRESS[codec](text.encode())),
        ],
        sorted(wanted),
        [("broken_json", "not json"), ("too_long", "long\n" * 40), ("too_long", lines[90][:200])],
    )


@pytest.mark.parametrize("codec", list(COMPRESS))
@pytest.mark.parametrize("stripes", [1, 2, 3, 4, 5])
def test_every_codec_and_number_of_stripes_gives_the_same_documents(codec, stripes, tmp_path):
    paths, wanted, refused = corpus(tmp_path, codec)
    for range_bytes in (None, 1500):
        documents, rejects = read(
            *paths, stripes=stripes, range_bytes=range_bytes, max_document_bytes=8000
        )
        assert sorted(texts(documents)) == wanted
        assert sorted((row["reason"], row["excerpt"]) for row in rejects) == refused
        assert len({d["source"] for d in documents}) == len(documents)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 5))
def test_any_range_and_stripes_give_the_same_documents(tmp_path_factory, range_bytes, stripes):
    folder = tmp_path_factory.mktemp("corpus")
    for codec in ("none", "zst"):
        paths, wanted, _ = corpus(folder, codec)
        documents, _ = read(
            *paths, stripes=stripes, range_bytes=range_bytes + 150, max_document_bytes=8000
        )
        assert sorted(texts(documents)) == wanted


@pytest.mark.parametrize("codec", ["gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("stripes", [1, 3])
def test_what_comes_before_damage_is_kept_and_the_damage_told_once(codec, stripes, tmp_path):
    lines = [
        json.dumps({"text": f"Document {i}: {os.urandom(40).hex()}"}) + "\n" for i in range(3000)
    ]
    whole = "".join(lines).encode()
    # Two members; the second one is cut short.
    half = len("".join(lines[:1500]))
    first, second = COMPRESS[codec](whole[:half]), COMPRESS[codec](whole[half:])
    path = file_with(tmp_path / f"a.jsonl.{codec}", first + second[: len(second) // 2])
    documents, rejects = read(path, stripes=stripes, range_bytes=20_000)
    wanted = [json.loads(line)["text"] for line in lines]
    assert 1500 <= len(documents) < 3000
    assert sorted(texts(documents)) == sorted(wanted[: len(documents)])
    (row,) = rejects
    assert row["reason"] == "damaged_stream"
    offset = int(row["source"].rpartition("@")[2])
    # Only the record that the damage is in was dropped.
    assert len("".join(lines[: len(documents)])) <= offset
    assert offset < len("".join(lines[: len(documents) + 1]))
    assert f"{len(first) + len(second) // 2:,}" in row["detail"]
    assert f"{offset:,}" in row["detail"]


@pytest.mark.parametrize("end", [b"\r", b"\r\n", b"\n"])
def test_lines_that_end_as_those_of_an_old_mac_are_named(tmp_path, end):
    path = file_with(tmp_path / "a.jsonl", b'{"text": "One."}' + end + b'{"text": "Two."}' + end)
    documents, rejects = read(path)
    if end != b"\r":
        assert (texts(documents), rejects) == (["One.", "Two."], [])
        return
    (row,) = rejects
    assert row["reason"] == "broken_json"
    assert r"this one has \r in it: tr '\r' '\n' mends that" in row["detail"]


def test_a_text_document_that_damage_cuts_is_dropped(tmp_path):
    packed = gzip.compress(b"whole\n\nhalf of\n" + os.urandom(5000).hex().encode())
    path = file_with(tmp_path / "a.txt.gz", packed[:-1000])
    documents, rejects = read(path)
    assert texts(documents) == ["whole"]
    assert [row["reason"] for row in rejects] == ["damaged_stream"]


# Batches and progress


def test_batches_are_of_the_size_that_was_asked_for(tmp_path):
    path = file_with(
        tmp_path / "a.jsonl", "".join(json.dumps({"text": "é" * 500}) + "\n" for _ in range(1000))
    )
    files = list_inputs([str(path)], format="auto")
    (task,) = plan_reads(files, num_stripes=1, range_bytes=1 << 24)
    sizes = []
    for output, batch in read_task(task, options=ReadOptions(batch_bytes=100_000)):
        assert output == "documents"
        sizes.append(text_bytes(batch))
        assert sizes[-1] == sum(len(text.as_py().encode()) for text in batch.column("text"))
        assert text_bytes(batch.slice(3, 5)) == 5000
    assert sum(sizes) == 1_000_000
    assert sizes == [100_000] * 10


def test_many_rejects_come_in_batches(tmp_path):
    path = file_with(tmp_path / "a.jsonl", "bad\n" * 10_000)
    (task,) = plan_reads(list_inputs([str(path)], format="auto"), num_stripes=1, range_bytes=None)
    batches = [batch for _, batch in read_task(task)]
    assert sum(batch.num_rows for batch in batches) == 10_000
    assert max(batch.num_rows for batch in batches) <= 4096


@pytest.mark.parametrize("codec", ["none", "gz"])
@pytest.mark.parametrize("stripes", [1, 3])
def test_progress_adds_up(codec, stripes, tmp_path):
    lines = [json.dumps({"text": os.urandom(500).hex()}) for _ in range(4000)] + ["bad"] * 3
    paths = [
        file_with(tmp_path / "a.jsonl", COMPRESS[codec]("\n".join(lines).encode())),
        file_with(tmp_path / "b.jsonl", '{"text": "small"}'),
    ]
    reports: list[dict[str, int]] = []
    progress.set_listener(lambda **amounts: reports.append(amounts))
    try:
        documents, rejects = read(*paths, stripes=stripes, range_bytes=1 << 20)
    finally:
        progress.set_listener(None)
    totals = {name: sum(r[name] for r in reports) for name in reports[0]}
    assert totals == {
        "raw_bytes": sum(path.stat().st_size for path in paths),
        "text_bytes": sum(len(text) for text in texts(documents)),
        "documents": 4001,
        "rejects": 3,
    }
    assert len(rejects) == 3
    assert all(amount >= 0 for report in reports for amount in report.values())
    # A stripe reads all of the file, at a pace that makes up its share.
    step = 0.06 if (codec, stripes) == ("gz", 3) else 1.1
    assert max(report["raw_bytes"] for report in reports) <= step * 2**20


def test_nothing_is_reported_without_a_listener(tmp_path):
    progress.set_listener(None)
    progress.report(raw_bytes=1)
    assert texts(read(file_with(tmp_path / "a", "text"))[0]) == ["text"]


def test_the_batch_is_what_arrow_would_make(tmp_path):
    path = file_with(tmp_path / "a.jsonl", '{"text": "é", "lang": "fr"}\n{"text": "b"}')
    (task,) = plan_reads(list_inputs([str(path)], format="auto"), num_stripes=1, range_bytes=None)
    ((_, batch),) = read_task(task)
    assert batch == pa.RecordBatch.from_pydict(
        {"text": ["é", "b"], "source": [f"{path}@0", f"{path}@29"], "language": ["fr", None]},
        schema=DOCUMENT_BATCH,
    )
