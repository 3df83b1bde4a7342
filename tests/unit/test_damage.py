"""Mutated files: nothing crashes, nothing is lost in silence, what came before the damage is there.

And what is no damage of the content: a file that cannot be read to its end fails the run.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import RejectReason
from tests.unit.compressing import COMPRESS
from tests.unit.reading import read_rows
from transforms import streams
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import read_task

DOCUMENTS = 120
ENCODINGS = ["utf-8", "utf-16-le", "gb18030"]
_MARK = {"utf-16-le": codecs.BOM_UTF16_LE}


def spell(form: str, i: int) -> str:
    text = f"Größe {i}: 人人生而自由"
    return (
        json.dumps({"text": text}, ensure_ascii=False) + "\n" if form == "jsonl" else text + "\n\n"
    )


def members(form: str, encoding: str) -> list[bytes]:
    """The content in four parts, each of whole records."""
    parts = [
        "".join(spell(form, i) for i in range(start, start + DOCUMENTS // 4)).encode(encoding)
        for start in range(0, DOCUMENTS, DOCUMENTS // 4)
    ]
    return [_MARK.get(encoding, b"") + parts[0], *parts[1:]]


@st.composite
def mutations(draw, data: bytes, *, first: int) -> tuple[bytes, int]:
    """Some bytes changed, put in, taken out, or all cut off, from ``first`` on; and the first place."""
    place = draw(st.integers(first, len(data) - 1))
    how = draw(st.sampled_from(["cut", "flip", "random", "insert", "delete"]))
    if how == "cut":
        return data[:place], place
    if how == "flip":
        bit = 1 << draw(st.integers(0, 7))
        return data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :], place
    junk = draw(st.binary(min_size=1, max_size=9))
    if how == "insert":
        return data[:place] + junk + data[place:], place
    taken = len(junk) if how == "random" else draw(st.integers(1, 50))
    return data[:place] + (junk if how == "random" else b"") + data[place + taken :], place


def count_records(form: str, content: bytes, encoding: str) -> int:
    """Of a content with anything in it: lines with something in them, or groups of such lines."""
    text = content.decode(encoding, "replace").removeprefix("\ufeff")
    filled = [bool(line.strip()) for line in text.split("\n")]
    if form == "jsonl":
        return sum(filled)
    return sum(now and not before for before, now in zip([False, *filled], filled, strict=False))


def read_everyway(path: Path, form: str, encoding: str):
    """The rows, which are the same however the file is shared out."""
    options: dict[str, Any] = {"format": form, "encoding": encoding}
    whole = read_rows(path, **options)
    for stripes, range_bytes in ((1, 700), (2, 700), (3, 1500)):
        parts = read_rows(path, **options, stripes=stripes, range_bytes=range_bytes)
        for rows, again in zip(whole, parts, strict=True):
            assert sorted(rows, key=str) == sorted(again, key=str)
    for row in whole[1]:
        assert row["reason"] in set(RejectReason)
        assert row["source"].startswith(f"{path}@")
        assert row["detail"]
    return whole


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["jsonl", "text"]), st.sampled_from(ENCODINGS), st.data())
def test_a_plain_file(tmp_path_factory, form, encoding, data):
    whole = b"".join(members(form, encoding))
    content, place = data.draw(mutations(whole, first=len(_MARK.get(encoding, b"")) + 2))
    path = tmp_path_factory.mktemp("fuzz") / "a"
    path.write_bytes(content)
    documents, rejects = read_everyway(path, form, encoding)
    # Every record is a document or a reject.
    assert len(documents) + len(rejects) == count_records(form, content, encoding)
    # All that end before the damage are there; of text, but for the one that the damage may go on with.
    before = whole[:place].decode(encoding, "ignore").removeprefix("\ufeff")
    intact = before.count("\n" if form == "jsonl" else "\n\n")
    expected = [f"Größe {i}: 人人生而自由" for i in range(intact)]
    found = [row["text"] for row in documents]
    assert found[: len(expected)] == expected
    # And those after it, but for what it touches and, where units shift, all that follows.
    if encoding == "utf-8":
        tail = f"Größe {DOCUMENTS - 1}: 人人生而自由"
        near = place > len(whole) - 3 * len(spell(form, DOCUMENTS).encode()) - 70
        assert near or content == whole[:place] or found[-1] == tail


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([codec for codec in COMPRESS if codec != "none"]),
    st.sampled_from(["jsonl", "text"]),
    st.sampled_from(ENCODINGS),
    st.data(),
)
def test_a_compressed_file(tmp_path_factory, codec, form, encoding, data):
    packed = [COMPRESS[codec](part) for part in members(form, encoding)]
    whole = b"".join(packed)
    # Behind the first member's header, by which the file is known.
    content, place = data.draw(mutations(whole, first=16))
    path = tmp_path_factory.mktemp("fuzz") / f"a.{codec}"
    path.write_bytes(content)
    documents, rejects = read_everyway(path, form, encoding)
    found = [row["text"] for row in documents]
    expected = [f"Größe {i}: 人人生而自由" for i in range(DOCUMENTS)]
    ends = [sum(map(len, packed[: k + 1])) for k in range(4)]
    intact = sum(place >= end for end in ends) * (DOCUMENTS // 4)
    # Junk may stand right behind the last document of text, which then is another one.
    assert found[: max(0, intact - 1)] == expected[: max(0, intact - 1)]
    if form == "jsonl":
        assert found[:intact] == expected[:intact]
    reasons = [row["reason"] for row in rejects]
    assert reasons.count("damaged_stream") <= 1
    if codec in ("gz", "bz2", "xz") and "damaged_stream" not in reasons:
        # Their checksums find everything but a cut between members and what nothing depends on.
        assert reasons == []
        assert found in [expected[: k * DOCUMENTS // 4] for k in range(1, 5)]


def read_all(tasks) -> None:
    for task in tasks:
        assert {output for output, _ in read_task(task)} <= {"documents"}


class _Failing(io.RawIOBase):
    """A file whose disk fails, or that ends, after so many bytes."""

    def __init__(self, path: str, *, after: int, error: OSError | None):
        super().__init__()
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below
        self._after = after
        self._error = error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._after - self._file.tell())
        if not left and self._error:
            raise self._error
        return self._file.read(min(size, left))

    def close(self) -> None:
        self._file.close()
        super().close()


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), PermissionError(13, "no"), None], ids=repr
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_what_the_storage_does_is_no_reject(tmp_path, monkeypatch, codec, error, encoding):
    """Neither an error nor a stream that ends before the size that was listed: it fails the run."""
    packed = COMPRESS[codec](b"".join(members("jsonl", encoding)))
    path = tmp_path / "a.jsonl"
    path.write_bytes(packed)
    files = list_inputs([str(path)], format="auto")
    tasks = plan_reads(files, num_stripes=1, range_bytes=len(packed) // 3)
    half = len(packed) // 2
    monkeypatch.setattr(
        streams, "open_raw", lambda name, **unused: _Failing(name, after=half, error=error)
    )
    said = f"ended at byte {half:,}" if error is None else re.escape(str(error))
    with pytest.raises(OSError, match=said):
        read_all(tasks)


@pytest.mark.parametrize("how", ["gone", "cut"])
def test_a_file_that_changes_after_it_was_listed_fails_the_run(tmp_path, how):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(members("jsonl", "utf-8")))
    files = list_inputs([str(path)], format="auto")
    tasks = plan_reads(files, num_stripes=1, range_bytes=1000)
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OSError, match=r"a\.jsonl"):
        read_all(tasks)
