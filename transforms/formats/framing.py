"""Cuts a stream of bytes into records, so that any cut of a file into ranges gives the same ones.

A record belongs to the range in which its first byte lies. Nothing here knows what a record says.
Memory: one record, at most ``max_bytes`` of it, and a piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

__all__ = [
    "EXCERPT_BYTES",
    "LONGEST_SEPARATOR",
    "SECTION_LOOKBACK",
    "WHITE_SPACE",
    "OpenRecord",
    "Piece",
    "Record",
    "begin_reading",
    "cut",
    "frame_lines",
    "frame_sections",
    "frame_whole",
]

#: Bytes kept of a record that is too long: enough for 200 characters.
EXCERPT_BYTES = 800

#: A longer line is never a separator, be it blank or not: so what a reader has to look back at, to
#: know whether a record starts at the beginning of its range, is bounded.
LONGEST_SEPARATOR = 64 << 10
#: The longest separator line, its newline, and the newline before it.
SECTION_LOOKBACK = LONGEST_SEPARATOR + 2

#: What ``str.strip`` takes for white space, but for the newline, as UTF-8: a regular expression.
WHITE_SPACE = (
    rb"(?:[\t\x0b\x0c\r\x1c-\x1f ]++|\xc2[\x85\xa0]|\xe1\x9a\x80"
    rb"|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)*+"
)

_BOM = b"\xef\xbb\xbf"


def begin_reading(start: int, *, lookback: int) -> int:
    """Where to begin reading for a range that starts at ``start``.

    Near the file's beginning that is it: a byte order mark moves the beginning of the first record.
    """
    begin = start - lookback
    return begin if begin > len(_BOM) else 0


class Piece(NamedTuple):
    """Some bytes of a file, all of them of one owner.

    Attributes:
      offset: of the first byte, in the decompressed file.
      data: at least one byte, but of an empty file, which is one piece without any.
      owned: whether records that start in here are ours.
      last: nothing from here on is ours; only the rest of an open record is wanted.
      begins_file: the first byte is the file's first (after a byte order mark), or is taken for such.
    """

    offset: int
    data: bytes
    owned: bool
    last: bool
    begins_file: bool


class Record(NamedTuple):
    """One record.

    Attributes:
      offset: of its first byte, in the decompressed file.
      data: all of it, without what separates it from the next; if too long, its beginning. A view
        where that saves a copy.
      too_long: it has more than ``max_bytes``.
      edge: it begins the file or ends it, and is not all of the file.
      damage: why it is refused, where the framing knows; ``data`` is its beginning then.
    """

    offset: int
    data: bytes | memoryview
    too_long: bool = False
    edge: bool = False
    damage: str = ""


def cut(
    chunks: Iterable[bytes],
    *,
    offset: int,
    owned_run: Callable[[int], tuple[int | None, bool]],
    begins_record: bool | None = None,
) -> Iterator[Piece]:
    """Cut a file's content where its owner changes, and drop a byte order mark at its beginning.

    Args:
      chunks: the content from ``offset`` on.
      offset: of the first byte of the first chunk.
      owned_run: for an offset, whether it is ours, and where that changes next (None: never).
      begins_record: of content after a gap, whether a record may be taken to begin there, as one does
        at the beginning of a file; None if this is no gap.
    """
    first = offset
    begins_file = offset == 0 if begins_record is None else begins_record
    if begins_record is None and begins_file:
        chunks, offset = _without_mark(iter(chunks))
    for chunk in chunks:
        data = chunk
        while data:
            end, owned = owned_run(offset)
            if end is None or offset + len(data) <= end:
                part, data = data, b""
            else:
                part, data = data[: end - offset], data[end - offset :]
            yield Piece(offset, part, owned, end is None and not owned, begins_file)
            offset += len(part)
            begins_file = False
    if begins_file:
        yield Piece(first, b"", owned_run(first)[1], last=False, begins_file=True)


def _without_mark(chunks: Iterator[bytes]) -> tuple[Iterator[bytes], int]:
    """The chunks without a byte order mark, and how many bytes were dropped."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(_BOM):
            break
    dropped = len(_BOM) if head.startswith(_BOM) else 0

    def rest() -> Iterator[bytes]:
        yield head[dropped:]
        yield from chunks

    return rest(), dropped


class OpenRecord:
    """The record that is being collected; ``parts`` is None while it is not ours."""

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self.offset = 0
        self.begins_file = False
        self.parts: list[bytes] | None = None
        self._size = 0

    @property
    def ours(self) -> bool:
        return self.parts is not None

    def begin(self, offset: int, *, owned: bool, begins_file: bool = False) -> None:
        self.offset, self.begins_file, self._size = offset, begins_file, 0
        self.parts = [] if owned else None

    def add(self, data: bytes) -> Record | None:
        """Keep more of the record; gives it, and drops it, once it is too long."""
        if self.parts is None:
            return None
        self._size += len(data)
        self.parts.append(data)
        return self._too_long() if self._size > self._max_bytes else None

    def close(self, data: bytes, *, ends_file: bool = False) -> Record | None:
        """Add the last of the record and give it, if it is ours."""
        if self.parts is None:
            return None
        record = self.add(data)
        if record is None:
            whole = data if len(self.parts) == 1 else b"".join(self.parts)
            record = Record(self.offset, whole, edge=self.begins_file is not ends_file)
        self.parts = None
        return record

    def _too_long(self) -> Record:
        assert self.parts is not None
        head = b"".join(part[:EXCERPT_BYTES] for part in self.parts[:EXCERPT_BYTES])
        self.parts = None
        return Record(self.offset, head[:EXCERPT_BYTES], too_long=True)


def frame_lines(pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
    r"""Give every line that starts in an owned piece, without its ``\n``; empty ones too.

    The pieces start at the file's beginning, or at least one byte before the first owned one.
    """
    line = OpenRecord(max_bytes)
    fresh = False  # the next byte begins a line
    for piece in pieces:
        offset, data = piece.offset, piece.data
        if fresh or piece.begins_file:
            line.begin(offset, owned=piece.owned)
        if not line.ours and not piece.owned:
            if piece.last:
                return
            fresh = data.endswith(b"\n")  # all there is to know here
            continue
        fresh = data.endswith(b"\n")
        end = data.find(b"\n")
        record = line.add(data) if end < 0 else line.close(data[:end])
        if record:
            yield record
        if end < 0 or not piece.owned:  # of someone else's only the end of the open line mattered
            continue
        view, start = memoryview(data), end + 1
        while (end := data.find(b"\n", start)) >= 0:
            whole = view[start:end]
            if len(whole) <= max_bytes:
                yield Record(offset + start, whole)
            else:
                yield Record(offset + start, whole[:EXCERPT_BYTES], too_long=True)
            start = end + 1
        if not fresh:
            line.begin(offset + start, owned=True)
            record = line.add(data[start:])
            if record:
                yield record
    record = None if fresh else line.close(b"")
    if record:
        yield record


def frame_sections(
    pieces: Iterable[Piece], *, separator: bytes, max_bytes: int
) -> Iterator[Record]:
    r"""Give every section that starts in an owned piece: what stands between two separator lines.

    A separator line is ``separator`` with nothing but white space around it. A section starts at
    the beginning of the file or of the line after a separator line; it has no final ``\n`` if
    one of these follows. Sections without a byte are given too, but not after the last separator.

    The pieces start at the file's beginning, or at least :data:`SECTION_LOOKBACK` bytes before the
    first owned one.
    """
    # Every match begins at the newline before a separator line: the search for it is fast.
    around = b"\n" + WHITE_SPACE + (re.escape(separator) + WHITE_SPACE if separator else b"")
    separators = re.compile(around + rb"(?=\n)").finditer
    is_separator = re.compile(around).fullmatch
    section = OpenRecord(max_bytes)
    fresh = False  # the next byte begins a section
    # The last newline and the incomplete line after it: may become a separator. At the beginning of
    # a file the newline is imagined, in the middle of one there is none until the first is met.
    tail, pos = b"", 0  # pos: where in the tail the content begins that the section has not got yet
    for piece in pieces:
        if piece.begins_file:
            tail, pos, fresh = b"\n", 1, True
        if fresh:
            section.begin(piece.offset, owned=piece.owned, begins_file=piece.begins_file)
            fresh = False
        data = tail + piece.data
        if not section.ours and not piece.owned:
            if piece.last:
                return
            data = data[-SECTION_LOOKBACK:]  # all that the next owner may want to know
            pos = 0
        end = piece.offset + len(piece.data)
        base = end - len(data)
        for match in separators(data):
            if match.end() - match.start() - 1 > LONGEST_SEPARATOR:
                continue
            record = section.close(data[pos : max(pos, match.start())])
            if record:
                yield record
            pos = match.end() + 1
            fresh = base + pos == end
            if not fresh:
                section.begin(base + pos, owned=piece.owned)
        newline = data.rfind(b"\n")
        if newline < 0 or len(data) - newline - 1 > LONGEST_SEPARATOR:
            newline = len(data)  # the incomplete line is none
        record = section.add(data[pos:newline]) if newline > pos else None
        if record:
            yield record
        tail, pos = data[newline:], max(0, pos - newline)
    if not fresh:
        ends = is_separator(tail) and len(tail) - 1 <= LONGEST_SEPARATOR
        record = section.close(b"" if ends else tail[pos:], ends_file=True)
        if record:
            yield record


def frame_whole(pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
    """Give all of the file as one record, if its beginning is ours."""
    whole = OpenRecord(max_bytes)
    for piece in pieces:
        if piece.begins_file:
            whole.begin(piece.offset, owned=piece.owned)
        if not whole.ours:
            return
        record = whole.add(piece.data)
        if record:
            yield record
    record = whole.close(b"")
    if record:
        yield record
