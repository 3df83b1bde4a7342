"""Where the frames of a zst file begin and end (RFC 8878), without decompressing them.

pyarrow, which decompresses them, reads across frames and does not say where one begins.
"""

from __future__ import annotations

import io
from collections.abc import Callable

__all__ = ["FRAME_MAGIC", "FrameSource"]

FRAME_MAGIC = b"\x28\xb5\x2f\xfd"

#: Bytes of the content's size by the header's two bits; of one segment there is always one.
_SIZE_BYTES, _DICTIONARY_BYTES = (0, 2, 4, 8), (0, 1, 2, 4)
_BLOCK_HEADER, _CHECKSUM = 3, 4
_RUN, _RESERVED = 1, 3


class FrameSource(io.RawIOBase):
    """A readable file for pyarrow that ends where a frame does, and can go on with the next.

    What is no frame is given as it is, up to the end of the file: it is pyarrow that says what is wrong.

    Args:
      read: gives more of the file, ``b""`` at its end.
    """

    def __init__(self, read: Callable[[], bytes]):
        super().__init__()
        self._read = read
        self._data = b""
        self._at = 0
        self._owed = 0  # bytes up to where the next header is
        self._header: Callable[[], None] | None = None
        self._checksum = 0
        #: Whether it was the disk that failed.
        self.failed = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing: pyarrow closes it with each frame, and the file is its owner's."""

    def next_frame(self) -> int:
        """Goes on with the next frame; gives how many bytes from its beginning on were read before, or 0.

        What can be skipped before it is; 0 is the end of the file.
        """
        while (head := self._peek(4)) and head[0] & 0xF0 == 0x50 and head[1:] == b"\x2a\x4d\x18":
            size = int.from_bytes(self._peek(8)[4:8], "little") + 8
            while size and self._peek(1):
                step = min(size, len(self._data) - self._at)
                self._at, size = self._at + step, size - step
            if size:
                raise EOFError("zst: the file is cut short")
        self._owed, self._header = 0, self._frame_header
        return len(self._data) - self._at

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, of this frame."""
        while not self._owed and self._header is not None:
            self._header()
        if not self._owed or not self._peek(1):
            return b""
        end = min(len(self._data), self._at + self._owed)
        end = end if size < 0 else min(end, self._at + size)
        found = self._data[self._at : end]
        self._at, self._owed = end, self._owed - len(found)
        return found

    def _peek(self, size: int) -> bytes:
        """The next bytes; fewer at the end of the file."""
        while len(self._data) - self._at < size:
            self.failed = True
            more = self._read()
            self.failed = False
            if not more:
                break
            self._data, self._at = self._data[self._at :] + more, 0
        return self._data[self._at : self._at + size]

    def _give_the_rest(self) -> None:
        self._owed, self._header = 1 << 62, None

    def _frame_header(self) -> None:
        head = self._peek(5)
        if not head:
            self._header = None
            return
        if len(head) < 5 or head[:4] != FRAME_MAGIC:
            self._give_the_rest()
            return
        flags = head[4]
        one_segment = flags >> 5 & 1
        size = _SIZE_BYTES[flags >> 6] or one_segment
        self._checksum = _CHECKSUM * (flags >> 2 & 1)
        self._owed = 5 + (1 - one_segment) + _DICTIONARY_BYTES[flags & 3] + size
        self._header = self._block_header

    def _block_header(self) -> None:
        head = self._peek(_BLOCK_HEADER)
        value = int.from_bytes(head, "little")
        kind = value >> 1 & 3
        if len(head) < _BLOCK_HEADER or kind == _RESERVED:
            self._give_the_rest()
            return
        self._owed = _BLOCK_HEADER + (1 if kind == _RUN else value >> 3)
        if value & 1:
            self._owed += self._checksum
            self._header = None
