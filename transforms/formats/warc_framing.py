"""Cuts a WARC stream into records: by their Content-Length, and where that is wrong by the next header.

The stream is followed from its beginning. A record whose end is not where it says is refused, and the
search for the next header goes back to its own first bytes, so that a length that is too large does
not swallow the records after it. Source: ISO 28500, section 4.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from transforms.formats.framing import EXCERPT_BYTES, Piece, Record

__all__ = ["HEAD_BYTES", "frame_warc", "header_fields", "split_header"]

_MARK = b"WARC/1."
#: A header after damage: on a line of its own, which a page that mentions it rarely has.
_NEXT = re.compile(rb"\nWARC/1\.\d\r?\n")
_NEXT_BYTES = len(b"\nWARC/1.1\r\n")
_NEWLINES = re.compile(rb"[\r\n]*")
_TWO_NEWLINES = re.compile(rb"\r?\n\r?\n")
_NUMBER = re.compile(r"[0-9]{1,18}")
_HEADER_ENDS = re.compile(rb"\n\r?\n")
#: A longer header is damage.
_HEADER_BYTES = 64 << 10
#: How far behind a record, with other newlines than two between, the next one is looked for.
_GAP_BYTES = 32
#: What is kept of a record that is too long: its header, and that of HTTP.
HEAD_BYTES = _HEADER_BYTES + (16 << 10)


def split_header(data: bytes | memoryview) -> tuple[bytes, bytes]:
    """The lines before the first empty one, and what comes after it: WARC's header, or HTTP's."""
    content = bytes(data)
    end = _HEADER_ENDS.search(content)
    return (content[: end.start()], content[end.end() :]) if end else (content, b"")


def header_fields(header: bytes) -> dict[str, str]:
    """The fields after the first line, by their names in lower case; of two the first counts."""
    fields: dict[str, str] = {}
    unfolded = re.sub(rb"\r?\n[ \t]+", b" ", header)
    for line in unfolded.split(b"\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            key = name.strip().lower().decode("latin-1")
            fields.setdefault(key, value.strip().decode("utf-8", "replace"))
    return fields


def frame_warc(pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
    """Give every record that starts in an owned piece, header and block; the damaged ones marked so.

    The pieces start at the file's beginning. Memory: ``max_bytes`` and a piece.
    """
    scan = _Scan(max_bytes)
    for piece in pieces:
        scan.add(piece)
        yield from scan.records()
        if piece.last and not scan.holds_ours:
            return
    scan.ended = True
    yield from scan.records()


class _Scan:
    """The bytes from the first one that may begin a record on.

    Attributes:
      ended: there will be no more of them.
    """

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._offset = 0  # of its first byte
        self._owners: deque[tuple[int, bool]] = deque()  # from which offset on
        self._lost = False  # a record begins at the next header, wherever that is
        self.ended = False

    @property
    def holds_ours(self) -> bool:
        """Whether a record of ours may begin in what is held."""
        return any(owned for _, owned in self._owners)

    def add(self, piece: Piece) -> None:
        if not self._data:
            self._offset = piece.offset
            self._owners.clear()
        if not self._owners or self._owners[-1][1] is not piece.owned:
            self._owners.append((piece.offset, piece.owned))
        self._data += piece.data

    def records(self) -> Iterator[Record]:
        """What can be told by now."""
        advanced = True
        while advanced:
            if self._lost:
                advanced = self._find_header()
            else:
                record, advanced = self._read_record()
                if record:
                    yield record

    def _drop(self, size: int) -> None:
        del self._data[:size]
        self._offset += size
        while len(self._owners) > 1 and self._owners[1][0] <= self._offset:
            self._owners.popleft()

    def _find_header(self) -> bool:
        """Goes on to the next header; whether there is one."""
        match = _NEXT.search(self._data)
        self._drop(match.start() + 1 if match else max(0, len(self._data) - _NEXT_BYTES + 1))
        self._lost = match is None
        return not self._lost

    def _read_record(self) -> tuple[Record | None, bool]:
        """The record at the beginning if it is ours, and whether anything was settled."""
        self._drop(_NEWLINES.match(self._data).end())  # type: ignore[union-attr]
        header = _HEADER_ENDS.search(self._data, 0, _HEADER_BYTES)
        if header is None or not self._data.startswith(_MARK):
            if not self._data or (len(self._data) < _HEADER_BYTES and not self.ended):
                return None, False
            return self._damaged("no WARC header where a record must begin", EXCERPT_BYTES, 1)
        begin = header.end()
        said = header_fields(bytes(self._data[:begin])).get("content-length", "")
        if not _NUMBER.fullmatch(said):
            return self._damaged(f"Content-Length is {said[:40]!r}", begin, begin - 1)
        end = begin + int(said)
        too_long = end > self._max_bytes
        wanted = min(end, HEAD_BYTES) if too_long else end + _GAP_BYTES
        # Two newlines settle it, so that damage right behind a record costs nothing of it.
        settled = not too_long and bool(_TWO_NEWLINES.match(self._data, end))
        if len(self._data) < wanted and not self.ended and not settled:
            return None, False
        if too_long:
            record = self._ours(min(end, HEAD_BYTES), too_long=True)
            self._lose(begin - 1)
            return record, True
        if self._ends_at(end):
            record = self._ours(end)
            self._drop(end)
            return record, True
        there = len(self._data) - begin
        detail = f"Content-Length says {int(said):,} bytes, "
        detail += f"there are {there:,}" if there < int(said) else "and no record ends there"
        return self._damaged(detail, end, begin - 1)

    def _ends_at(self, end: int) -> bool:
        """Whether two newlines follow, as they must; or none and a header, or the end of the file."""
        if len(self._data) < end:
            return False
        at_end = self.ended and len(self._data) <= end + _GAP_BYTES
        behind = bytes(self._data[end : end + _GAP_BYTES])
        rest = behind.lstrip(b"\r\n")
        return bool(_TWO_NEWLINES.match(behind)) or rest.startswith(_MARK) or (at_end and not rest)

    def _damaged(self, detail: str, size: int, after: int) -> tuple[Record | None, bool]:
        """Refuses the record of ``size`` bytes; the next header is looked for ``after`` so many."""
        record = self._ours(min(size, EXCERPT_BYTES), damage=detail)
        self._lose(after)
        return record, True

    def _lose(self, size: int) -> None:
        self._drop(size)
        self._lost = True

    def _ours(self, size: int, *, too_long: bool = False, damage: str = "") -> Record | None:
        if not self._owners[0][1]:
            return None
        data = bytes(self._data[:size])
        return Record(self._offset, data, too_long=too_long, damage=damage)
