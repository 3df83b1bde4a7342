"""One input file as a stream of bytes: opened wherever it is, decompressed, damage told apart.

Memory is bounded by the step sizes here (and by the window that a compressed file asks for).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

from schemas.stores import local_path, open_stored
from transforms.formats.compression import COMPRESSIONS, DAMAGE, decompress
from transforms.formats.decoding import first_line
from transforms.formats.encodings import UTF_8, transcode
from transforms.formats.members import next_member

__all__ = ["ByteStream", "DamagedStreamError", "WatchedFile", "open_raw"]

#: At most so many decompressed bytes at a time: large enough to run at the library's speed.
_STEP_BYTES = 1 << 20
_READ_BYTES = 128 << 10
#: Beyond the end of a range only the rest of one record is wanted.
_BEYOND_BYTES = 64 << 10
#: Fetched at a time of a remote file that is read through, and of one that is read here and there.
_THROUGH_BYTES, _WATCHED_BYTES = 8 << 20, 1 << 20

#: Steps in which the last content before damage is looked for, each time from the beginning. A
#: block of bz2 is one whole, with its own checksum: its beginning alone is worth nothing. pyarrow,
#: for zst, fills what it was asked for across blocks: in the end ask for what must be there.
_SALVAGE_STEPS = {"gz": (256,), "bz2": (_STEP_BYTES,), "xz": (256,), "zst": (4096, 1)}


class DamagedStreamError(RuntimeError):
    """A compressed file that is corrupt or cut short.

    Attributes:
      path: the file.
      compressed_offset: near which byte of the file.
      offset: how many bytes of content came before, as they were given.
      detail: what the library said.
      member_offset: where in the file its member begins, of formats that have such.
    """

    def __init__(
        self,
        path: str,
        *,
        compressed_offset: int,
        offset: int,
        detail: str,
        member_offset: int = 0,
    ):
        super().__init__(path, compressed_offset, offset, detail)
        self.path = path
        self.compressed_offset = compressed_offset
        self.offset = offset
        self.detail = detail
        self.member_offset = member_offset

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.detail}, near byte {self.compressed_offset:,} of the file, "
            f"after {self.offset:,} bytes of content"
        )


def open_raw(path: str, *, read_ahead: int = _BEYOND_BYTES) -> BinaryIO:
    """Open a file as it lies on disk, whatever its name says about compression.

    ``read_ahead``: what a remote one is asked for at least, at a time.
    """
    local = local_path(path)
    if local is not None:
        return open(local, "rb", buffering=0)
    return open_stored(path, read_ahead=read_ahead)


class WatchedFile(io.RawIOBase):
    """A file as it lies on disk, to be read anywhere; remembers whether it was the disk that failed.

    A library that is given it wraps such errors in its own, which are also those of damaged data.

    Args:
      path: a local path or a URL of any Beam file system.

    Raises:
      OSError: it cannot be opened.
    """

    def __init__(self, path: str):
        super().__init__()
        self.path = path
        self._file = open_raw(path, read_ahead=_WATCHED_BYTES)
        self._error: OSError | None = None
        self.size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)

    def raise_if_failed(self) -> None:
        """Raise what reading raised, if it did."""
        if self._error is not None:
            raise self._error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """At most the bytes that are there, however many are asked for; fewer only at the end."""
        left = max(0, self.size - self._file.tell())
        wanted = left if size < 0 else min(size, left)
        parts = []
        try:
            while wanted and (part := self._file.read(wanted)):
                parts.append(part)
                wanted -= len(part)
        except OSError as error:
            error.add_note(f"while reading {self.path}")
            self._error = error
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_at(self, offset: int, size: int) -> bytes:
        """The bytes from ``offset`` on; fewer only at the end."""
        self._file.seek(offset)
        return self.read(size)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class ByteStream:
    """The content of a file from ``start``, decompressed and as UTF-8, in pieces of about 1 MiB.

    Args:
      path: a local path or a URL of any Beam file system.
      compression: none, gz, bz2, xz or zst.
      start: where to begin; only 0 for a compressed file, or one that is not in UTF-8.
      end: no piece of a plain file crosses it, and those after it are small; of a compressed one no
        step is larger. Not a limit.
      encoding: what the content is transcoded from.
      size: of the file when it was listed, if that is known.

    Raises:
      DamagedStreamError: while iterating, after everything that could be decompressed.
      OSError: the file cannot be read, or ends before ``size``: that is no damage of its content, and
        may be gone the next time. The text says which.
    """

    def __init__(
        self,
        path: str,
        *,
        compression: str,
        start: int = 0,
        end: int | None = None,
        encoding: str = UTF_8,
        size: int | None = None,
    ):
        if compression not in COMPRESSIONS:
            raise ValueError(f"compression must be one of {COMPRESSIONS}, not {compression!r}")
        if start and (compression != "none" or encoding != UTF_8):
            raise ValueError("a compressed or transcoded file can be read from its beginning only")
        self.path = path
        self.compression = compression
        #: Bytes of the file that were read so far, counted from its beginning.
        self.raw_offset = start
        self._start = start
        self._end = end
        self._encoding = encoding
        self._size = size
        self._member_offset = 0
        # Of a compressed file: where decompressing begins, and how much content came before.
        self._first_member = self._before = 0

    def after(self, damage: DamagedStreamError) -> ByteStream | None:
        """The content from the next member on that can be read again; None if there is none.

        Its offsets go on where those of what came before the damage ended. In UTF-8 only: of units of
        several bytes nothing tells where one begins.

        Raises:
          OSError: the file cannot be read.
        """
        if self.compression == "none" or self._encoding != UTF_8:
            return None
        with WatchedFile(self.path) as file:
            found = next_member(self.compression, file.read_at, damage.member_offset + 1)
        if found is None:
            return None
        rest = ByteStream(self.path, compression=self.compression, end=self._end, size=self._size)
        rest.raw_offset = rest._first_member = found
        rest._before = damage.offset
        return rest

    def __iter__(self) -> Iterator[bytes]:
        if self._encoding == UTF_8:
            yield from self._content()
            return
        offset = 0
        try:
            for piece in transcode(self._content(), self._encoding):
                yield piece
                offset += len(piece)
        except DamagedStreamError as damage:
            damage.offset = offset
            raise

    def _content(self) -> Iterator[bytes]:
        """The decompressed bytes."""
        if self.compression == "none":
            yield from self._plain()
            return
        offset = self._before
        try:
            ahead = _THROUGH_BYTES if self._end is None else _BEYOND_BYTES
            with open_raw(self.path, read_ahead=ahead) as file:
                step = _STEP_BYTES if self._end is None else min(_STEP_BYTES, self._end)
                for piece in self._decompress(file, lambda: (_READ_BYTES, step)):
                    yield piece
                    offset += len(piece)
        except _DamageFound as found:
            for step in _SALVAGE_STEPS[self.compression]:
                rest = self._decompress_to_damage(offset, found.raw_offset, step)
                offset += len(rest)
                if rest:
                    yield rest
            raise DamagedStreamError(
                self.path,
                compressed_offset=found.raw_offset,
                offset=offset,
                detail=found.detail,
                member_offset=self._member_offset,
            ) from found

    def _plain(self) -> Iterator[bytes]:
        with open_raw(self.path) as file:
            if self._start:
                file.seek(self._start)
            while data := self._read(file, self._plain_step()):
                yield data

    def _plain_step(self) -> int:
        if self._end is None:
            return _STEP_BYTES
        left = self._end - self.raw_offset
        return min(_STEP_BYTES, left) if left > 0 else _BEYOND_BYTES

    def _read(self, file: BinaryIO, size: int) -> bytes:
        try:
            data = file.read(size)
        except OSError as error:
            error.add_note(f"while reading {self.path} at byte {self.raw_offset:,}")
            raise
        if not data and self._size is not None and self.raw_offset < self._size:
            raise OSError(
                errno.EIO,
                f"ended at byte {self.raw_offset:,} of the {self._size:,} that it had when it was listed",
                self.path,
            )
        self.raw_offset += len(data)
        return data

    def _decompress(self, file: BinaryIO, sizes: Callable[[], tuple[int, int]]) -> Iterator[bytes]:
        """Pieces of content. ``sizes``: bytes to read, and to decompress, in the next step.

        Raises:
          _DamageFound: what the last step decompressed, if anything, is lost.
        """
        self.raw_offset = self._member_offset = self._first_member
        if self._first_member:
            file.seek(self._first_member)
        try:
            yield from decompress(
                self.compression,
                lambda: self._read(file, sizes()[0]),
                lambda: sizes()[1],
                began=self._began,
            )
        except DAMAGE as error:
            raise _DamageFound(self.raw_offset, first_line(error)) from error

    def _began(self, waiting: int) -> None:
        self._member_offset = self.raw_offset - waiting

    def _decompress_to_damage(self, known: int, damaged_at: int, step: int) -> bytes:
        """The content between ``known`` and the damage, by small steps: at most a large step's.

        A library that finds damage keeps to itself what it decompressed in the same call.
        """
        done = bytearray()
        position = self._before

        def sizes() -> tuple[int, int]:
            near = self.raw_offset + 2 * _READ_BYTES > damaged_at
            wanted = max(known - position, step)
            return 64 if near else _READ_BYTES, min(wanted, _STEP_BYTES)

        with (
            contextlib.suppress(_DamageFound),
            open_raw(self.path, read_ahead=_THROUGH_BYTES) as file,
        ):
            for piece in self._decompress(file, sizes):
                done += piece[max(0, known - position) :]
                position += len(piece)
        return bytes(done)


class _DamageFound(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, raw_offset: int, detail: str):
        super().__init__(raw_offset, detail)
        self.raw_offset = raw_offset
        self.detail = detail
