"""However a file is cut into ranges, stripes and chunks, its records are those of the whole."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transforms.formats import framing
from transforms.formats.bert_text import BertText
from transforms.formats.framing import (
    Record,
    begin_reading,
    cut,
    frame_lines,
    frame_sections,
    frame_whole,
)
from transforms.formats.jsonl import JsonLines
from transforms.formats.prose import Prose
from transforms.read_tasks import FileShare

BOM = b"\xef\xbb\xbf"
TOKENS = [b"a", b"bc", b"\n", b"\n\n", b"\r\n", b"\r", b" ", b"\t", b"---", b"--", "　".encode()]
TOKENS += [b"\x1f\n", b"\xc2\x85", b"\xff", b"\xc2", b" --- \n", b"\n---\n", BOM]

contents = st.lists(st.sampled_from(TOKENS), max_size=40).map(b"".join)
cuts = st.lists(st.integers(0, 90), max_size=6)


def share(**fields) -> FileShare:
    return FileShare("f", "none", "text", 0, **fields)


def chunks(data: bytes, begin: int, size: int) -> Iterator[bytes]:
    for start in range(begin, len(data), size):
        yield data[start : start + size]


def framed(frame, data: bytes, part: FileShare, *, lookback: int, chunk: int) -> list[Record]:
    begin = begin_reading(part.start, lookback=lookback)
    return list(frame(cut(chunks(data, begin, chunk), offset=begin, owned_run=part.owned_run)))


def ranges_of(data: bytes, points: list[int]) -> list[FileShare]:
    bounds = sorted({0, len(data), *(p for p in points if p < len(data))})
    return [share(start=a, end=b) for a, b in itertools.pairwise(bounds)] or [share()]


# The models: the obvious way, with all of the file at hand.


def without_mark(data: bytes) -> tuple[bytes, int]:
    return (data[3:], 3) if data.startswith(BOM) and data != BOM else (data.removeprefix(BOM), 0)


def line_records(data: bytes) -> list[tuple[int, bytes]]:
    data, offset = without_mark(data)
    found = []
    for line in data.split(b"\n"):
        found.append((offset, line))
        offset += len(line) + 1
    if len(found) > 1 and found[-1][1] == b"":
        found.pop()
    return found


def stripped(line: bytes) -> str:
    return line.decode(errors="surrogateescape").strip()


def section_records(data: bytes, separator: str, longest: int = 1 << 16) -> list[tuple[int, bytes]]:
    data, offset = without_mark(data)
    found: list[tuple[int, list[bytes]]] = [(offset, [])]
    for line in data.split(b"\n"):
        offset += len(line) + 1
        if stripped(line) == separator and len(line) <= longest:
            found.append((offset, []))
        else:
            found[-1][1].append(line)
    # The split makes an empty last line of a final newline; it is no line.
    ends_at = offset - 1
    joined = [(start, b"\n".join(lines)) for start, lines in found]
    return joined[:1] + [(start, text) for start, text in joined[1:] if start < ends_at]


def check_everywhere(frame, data, points, stripes, chunk, *, lookback, expected) -> None:
    parts = ranges_of(data, points)
    by_range = [
        r for part in parts for r in framed(frame, data, part, lookback=lookback, chunk=chunk)
    ]
    assert by_range == expected
    width, n = stripes
    for k in range(n):
        part = share(stripe=k, num_stripes=n, stripe_bytes=width)
        mine = framed(frame, data, part, lookback=lookback, chunk=chunk)
        if n == 1:
            assert mine == expected
        else:
            assert mine == [r for r in expected if r.offset // width % n == k]
    for part in parts:
        for record in framed(frame, data, part, lookback=lookback, chunk=chunk):
            assert part.start <= record.offset or record.offset in (0, 3)


places = st.tuples(st.integers(1, 20), st.integers(1, 5))


@settings(max_examples=150, deadline=None)
@given(contents, cuts, places, st.integers(1, 30))
@example(BOM + b"a", [2], (1, 1), 1)
@example(BOM + b"a\nb", [3], (3, 2), 2)
def test_lines_are_the_same_for_every_cut(data, points, stripes, chunk):
    def frame(pieces):
        return frame_lines(pieces, max_bytes=1 << 20)

    expected = framed(frame, data, share(), lookback=0, chunk=1 << 20)
    assert [(r.offset, r.data) for r in expected] == line_records(data)
    check_everywhere(
        frame, data, points, stripes, chunk, lookback=JsonLines().lookback, expected=expected
    )


@settings(max_examples=200, deadline=None)
@given(contents, cuts, places, st.integers(1, 30))
def test_text_documents_are_the_same_for_every_cut(data, points, stripes, chunk):
    def frame(pieces):
        return BertText().frame(pieces, max_bytes=1 << 20)

    expected = framed(frame, data, share(), lookback=0, chunk=1 << 20)
    model = [(offset, text) for offset, text in section_records(data, "") if text]
    assert [(r.offset, r.data) for r in expected] == model
    check_everywhere(
        frame, data, points, stripes, chunk, lookback=BertText().lookback, expected=expected
    )


@settings(max_examples=200, deadline=None)
@given(contents, cuts, places, st.integers(1, 30))
def test_prose_sections_are_the_same_for_every_cut(data, points, stripes, chunk):
    form = Prose("---")

    def frame(pieces):
        return form.frame(pieces, max_bytes=1 << 20)

    expected = framed(frame, data, share(), lookback=0, chunk=1 << 20)
    assert [(r.offset, r.data) for r in expected] == section_records(data, "---")
    check_everywhere(frame, data, points, stripes, chunk, lookback=form.lookback, expected=expected)


@settings(max_examples=150, deadline=None)
@given(contents, cuts, places, st.integers(1, 30), st.sampled_from(["", "---"]))
def test_a_line_that_is_too_long_for_a_separator_is_none_for_every_cut(
    data, points, stripes, chunk, separator
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "LONGEST_SEPARATOR", 4)
        patch.setattr(framing, "SECTION_LOOKBACK", 6)

        def frame(pieces):
            return frame_sections(pieces, separator=separator.encode(), max_bytes=1 << 20)

        expected = framed(frame, data, share(), lookback=0, chunk=1 << 20)
        assert [(r.offset, r.data) for r in expected if r.data] == [
            record for record in section_records(data, separator, longest=4) if record[1]
        ]
        check_everywhere(frame, data, points, stripes, chunk, lookback=6, expected=expected)


@settings(max_examples=150, deadline=None)
@given(
    contents, cuts, st.integers(1, 30), st.integers(0, 12), st.sampled_from(["lines", "", "---"])
)
def test_too_long_records_are_the_same_for_every_cut(data, points, chunk, limit, kind):
    def frame(pieces):
        if kind == "lines":
            return frame_lines(pieces, max_bytes=limit)
        return frame_sections(pieces, separator=kind.encode(), max_bytes=limit)

    everything = line_records(data) if kind == "lines" else section_records(data, kind)
    parts = ranges_of(data, points)
    found = [r for p in parts for r in framed(frame, data, p, lookback=70000, chunk=chunk)]
    assert [(r.offset, r.too_long) for r in found] == [(o, len(d) > limit) for o, d in everything]
    for record, (_, whole) in zip(found, everything, strict=True):
        assert record.data == whole if not record.too_long else whole.startswith(bytes(record.data))
        assert record.data or not record.too_long


@given(contents, cuts, st.integers(1, 30))
def test_a_whole_file_belongs_to_the_range_of_its_first_byte(data, points, chunk):
    def frame(pieces):
        return frame_whole(pieces, max_bytes=1 << 20)

    first, *others = ranges_of(data, points)
    content, offset = without_mark(data)
    found = framed(frame, data, first, lookback=0, chunk=chunk)
    if len(data) > 3 and first.end is not None and first.end <= offset:
        return  # a cut in the byte order mark; plan_reads makes none
    assert [(r.offset, r.data) for r in found] == [(offset, content)]
    for other in others:
        if other.start > offset:
            assert framed(frame, data, other, lookback=0, chunk=chunk) == []


def test_white_space_is_what_strip_takes_for_it():
    letters = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    blank_line = re.compile(rb"\n" + framing.WHITE_SPACE + rb"(?=\n)")
    white = [c for c in letters if c.isspace() and c != "\n"]
    assert len(white) > 20
    for letter in white:
        assert blank_line.match(f"\n{letter}{letter} {letter}\n".encode()), ascii(letter)
    others = "\n" + "\n".join(c for c in letters if not c.isspace()) + "\n"
    assert not blank_line.search(others.encode())


class Counting:
    """Chunks of a file that counts how many bytes were taken from it."""

    def __init__(self, data: bytes, size: int):
        self.data, self.size, self.taken = data, size, 0

    def chunks(self, begin: int) -> Iterator[bytes]:
        for piece in chunks(self.data, begin, self.size):
            self.taken += len(piece)
            yield piece


@pytest.mark.parametrize(
    "frame",
    [
        lambda pieces: frame_lines(pieces, max_bytes=10**9),
        lambda pieces: frame_sections(pieces, separator=b"", max_bytes=10**9),
    ],
)
def test_without_any_boundary_only_the_first_range_reads_on(frame: Callable):
    file = Counting(b"x" * 1_000_000, 1000)
    for start in range(100_000, 1_000_000, 100_000):
        file.taken = 0
        part = share(start=start, end=start + 100_000)
        begin = max(0, start - framing.SECTION_LOOKBACK)
        assert not list(frame(cut(file.chunks(begin), offset=begin, owned_run=part.owned_run)))
        assert file.taken <= 100_000 + framing.SECTION_LOOKBACK + 1000


def test_the_owner_of_a_record_that_is_too_long_stops_reading():
    file = Counting(b"x" * 1_000_000, 1000)
    part = share(start=0, end=10_000)
    pieces = cut(file.chunks(0), offset=0, owned_run=part.owned_run)
    (record,) = frame_sections(pieces, separator=b"", max_bytes=50_000)
    assert record == Record(0, b"x" * framing.EXCERPT_BYTES, too_long=True)
    assert file.taken <= 50_000 + framing.LONGEST_SEPARATOR + 2000


def test_a_huge_line_of_white_space_takes_linear_time():
    data = b"a\n" + b" " * 2_000_000 + b"b\n" + b"\t" * 60_000 + b"\nc"
    part = share()
    found = framed(
        lambda pieces: frame_sections(pieces, separator=b"", max_bytes=10**9),
        data,
        part,
        lookback=0,
        chunk=100_000,
    )
    assert [(r.offset, len(r.data)) for r in found] == [(0, 2_000_003), (len(data) - 1, 1)]
