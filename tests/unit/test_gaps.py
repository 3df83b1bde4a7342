"""Damage inside a compressed file costs its members; what follows is read, the same for every stripe."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.unit.compressing import COMPRESS
from tests.unit.reading import read_rows
from tests.web_archives import conversion
from transforms import reader as reading

CODECS = ["gz", "bz2", "xz", "zst"]
#: With checksums, as the zstd command writes them: without, damage may be any text.
PACK = {**COMPRESS, "zst": zstandard.ZstdCompressor(write_checksum=True).compress}
_RANDOM = random.Random(23)


def noise(size: int) -> str:
    return _RANDOM.randbytes(size).hex()


def lines(member: int) -> list[str]:
    """The documents of a member, of text that hardly packs: there are bytes to damage."""
    return [f"Member {member}, document {i}: {noise(60)}" for i in range(40)]


def spell(form: str, texts: list[str]) -> bytes:
    if form == "jsonl":
        return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    if form == "mediawiki":
        pages = (
            f"<page><title>{t}</title><revision><text>{t}</text></revision></page>\n" for t in texts
        )
        return "".join(pages).encode()
    end = "\n---\n" if form == "prose" else "\n\n"
    return "".join(text + end for text in texts).encode()


def damage(member: bytes, how: str) -> bytes:
    half = len(member) // 2
    if how == "zeros":
        return member[:half] + bytes(30) + member[half + 30 :]
    if how == "shorter":
        return member[:half] + member[half + 7 :]
    if how == "no header":
        return b"?" * 20 + member[20:]
    assert how == "checksum"
    return member[:-6] + bytes(byte ^ 0x55 for byte in member[-6:])


def read_everyway(path: Path, **options: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """Texts and rejects, which are the same however the file is shared out."""
    documents, rejects = read_rows(path, **options)
    for stripes, range_bytes in ((2, 900), (3, 5000), (7, 300)):
        again = read_rows(path, **options, stripes=stripes, range_bytes=range_bytes)
        for rows, others in zip((documents, rejects), again, strict=True):
            assert sorted(rows, key=str) == sorted(others, key=str)
    return [row["text"] for row in documents], rejects


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("form", ["jsonl", "text", "mediawiki", "prose"])
@pytest.mark.parametrize("how", ["zeros", "shorter", "no header", "checksum"])
def test_the_members_after_a_damaged_one_are_read(tmp_path, codec, form, how):
    texts = [lines(member) for member in range(5)]
    packed = [PACK[codec](spell(form, part)) for part in texts]
    for damaged in (1, 3):
        packed[damaged] = damage(packed[damaged], how)
    path = tmp_path / f"a.{codec}"
    path.write_bytes(b"".join(packed))
    separator = {"document_separator": "---"} if form == "prose" else {}
    found, rejects = read_everyway(path, format=form, **separator)
    # Where the end of a document's rest cannot be told the first one behind the gap goes with it.
    first = int(form in ("text", "prose"))
    assert set(found) >= {*texts[0], *texts[2][first:], *texts[4][first:]}
    assert not set(found) & {*texts[2][:first], *texts[4][:first]}
    # And nothing of both sides of a gap was joined. (Damaged deflate may become any text before it shows.)
    if how in ("no header", "checksum"):
        assert set(found) <= set(itertools.chain.from_iterable(texts))
    gaps = [row["detail"] for row in rejects if row["reason"] == "damaged_stream"]
    begins = [sum(map(len, packed[:k])) for k in (2, 4)]
    assert len(gaps) == 2
    for detail, begin in zip(gaps, begins, strict=True):
        assert detail.endswith(f"the file is read on from byte {begin:,}")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("form", ["jsonl", "text"])
def test_a_record_that_goes_on_behind_a_gap_is_not_made_of_its_rest(tmp_path, codec, form):
    """Members that end anywhere: half of a record before the gap, half of one behind it."""
    texts = lines(0)
    content = spell(form, texts)
    cuts = [0, *sorted(random.Random(7).sample(range(len(content)), 5)), len(content)]
    parts = [content[a:b] for a, b in itertools.pairwise(cuts)]
    packed = [PACK[codec](part) for part in parts]
    packed[2] = damage(packed[2], "no header")
    path = tmp_path / f"a.{codec}"
    path.write_bytes(b"".join(packed))
    found, rejects = read_everyway(path, format=form)
    assert set(found) <= set(texts)
    for part in (*parts[:2], *parts[4:]):
        whole = part.decode().split("\n")[1:-1]
        wanted = [line for line in whole if line]
        wanted = [json.loads(line)["text"] for line in wanted] if form == "jsonl" else wanted[1:-1]
        assert set(wanted) <= set(found)
    assert [row["reason"] for row in rejects].count("damaged_stream") == 1


@pytest.mark.parametrize("how", ["zeros", "no header", "checksum"])
def test_of_a_web_archive_the_damaged_record_is_lost(tmp_path, how):
    pytest.importorskip("resiliparse")
    texts = [f"Number {i}: {noise(200)}" for i in range(9)]
    packed = [PACK["gz"](conversion(text)) for text in texts]
    for damaged in (2, 3, 6):
        packed[damaged] = damage(packed[damaged], how)
    path = tmp_path / "a.warc.wet.gz"
    path.write_bytes(b"".join(packed))
    found, rejects = read_everyway(path)
    assert found == [texts[i] for i in (0, 1, 4, 5, 7, 8)]
    assert [row["reason"] for row in rejects] == ["damaged_stream"] * 2


def test_frames_that_are_skipped_and_frames_without_checksum_or_size(tmp_path):
    """Of the zst format: all kinds of headers, and what other tools put between frames."""
    plain = zstandard.ZstdCompressor(write_checksum=False, write_content_size=False)
    skipped = b"\x53\x2a\x4d\x18" + (300_000).to_bytes(4, "little") + noise(150_000).encode()
    texts = [f"Document {i}: {noise(40)}" for i in range(5)]
    packed = [COMPRESS["zst"](spell("jsonl", [texts[0]])), skipped, skipped[:4] + bytes(4)]
    packed += [plain.compress(spell("jsonl", [texts[1] * 3000])), plain.compress(b"")]
    packed += [PACK["zst"](spell("jsonl", [text])) for text in texts[2:]]
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"".join(packed))
    found, rejects = read_everyway(path)
    assert found == [texts[0], texts[1] * 3000, *texts[2:]]
    assert rejects == []
    path.write_bytes(b"".join(packed[:1]) + skipped[:-1])
    found, rejects = read_everyway(path)
    assert found == texts[:1]
    assert [row["reason"] for row in rejects] == ["damaged_stream"]


@pytest.mark.parametrize("codec", CODECS)
def test_what_only_looks_like_a_member_is_passed_over(tmp_path, codec):
    begins = PACK[codec](b"x")[:12]
    first, second = (PACK[codec](spell("jsonl", [text])) for text in ("first", "second"))
    path = tmp_path / f"a.jsonl.{codec}"
    path.write_bytes(
        first + begins * 3 + _RANDOM.randbytes(50) + begins + _RANDOM.randbytes(50) + second
    )
    found, rejects = read_everyway(path)
    assert found == ["first", "second"]
    assert [row["reason"] for row in rejects] == ["damaged_stream"]


def test_a_file_that_is_one_document_is_not_read_on(tmp_path):
    packed = [PACK["gz"](noise(500).encode()) for _ in range(3)]
    path = tmp_path / "a.txt.gz"
    path.write_bytes(packed[0] + damage(packed[1], "zeros") + packed[2])
    found, rejects = read_everyway(path, format="prose")
    assert found == []
    assert [row["reason"] for row in rejects] == ["damaged_stream"]


def test_a_file_of_very_many_gaps_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_MOST_GAPS", 3)
    texts = [f"Document {i}: {noise(30)}" for i in range(14)]
    packed = [PACK["gz"](spell("jsonl", [text])) for text in texts]
    packed[1::2] = [damage(member, "no header") for member in packed[1::2]]
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b"".join(packed))
    found, rejects = read_everyway(path)
    assert found == texts[:8:2]
    assert [row["reason"] for row in rejects] == ["damaged_stream"] * 4
    assert ["read on" in row["detail"] for row in rejects] == [True] * 3 + [False]
