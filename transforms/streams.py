"""One input file as a stream of bytes: opened wherever it is, decompressed, damage told apart.

Memory is bounded by the step sizes here (and by the window that a compressed file asks for).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from transforms.formats.compression import COMPRESSIONS, DAMAGE, decompress

__all__ = ["ByteStream", "DamagedStreamError", "local_path", "open_raw"]

#: At most so many decompressed bytes at a time: large enough to run at the library's speed.
_STEP_BYTES = 1 << 20
_READ_BYTES = 128 << 10
#: Beyond the end of a range only the rest of one record is wanted.
_BEYOND_BYTES = 64 << 10

#: Steps in which the last content before damage is looked for, each time from the beginning. A
#: block of bz2 is one whole, with its own checksum: its beginning alone is worth nothing. pyarrow,
#: for zst, fills what it was asked for across frames: in the end ask for what must be there.
_SALVAGE_STEPS = {"gz": (256,), "bz2": (_STEP_BYTES,), "xz": (256,), "zst": (4096, 1)}

_SCHEME = re.compile(r"(?P<scheme>[a-zA-Z][-a-zA-Z0-9+.]*)://")


class DamagedStreamError(RuntimeError):
    """A compressed file that is corrupt or cut short.

    Attributes:
      path: the file.
      compressed_offset: near which byte of the file.
      offset: how many decompressed bytes came before.
      detail: what the library said.
    """

    def __init__(self, path: str, *, compressed_offset: int, offset: int, detail: str):
        super().__init__(path, compressed_offset, offset, detail)
        self.path = path
        self.compressed_offset = compressed_offset
        self.offset = offset
        self.detail = detail

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.detail}, near byte {self.compressed_offset:,} of the file, "
            f"after {self.offset:,} bytes of content"
        )


def local_path(path: str) -> str | None:
    """The path on this machine, or None for a URL of another file system."""
    match = _SCHEME.match(path)
    if match is None:
        return path
    return path[match.end() :] if match["scheme"].lower() == "file" else None


def open_raw(path: str) -> BinaryIO:
    """Open a file as it lies on disk, whatever its name says about compression."""
    local = local_path(path)
    if local is not None:
        return open(local, "rb", buffering=0)
    return FileSystems.open(path, "application/octet-stream", CompressionTypes.UNCOMPRESSED)


class ByteStream:
    """The content of a file from ``start``, decompressed, in pieces of at most 1 MiB.

    Args:
      path: a local path or a URL of any Beam file system.
      compression: none, gz, bz2, xz or zst.
      start: where to begin; only 0 for a compressed file.
      end: no piece of a plain file crosses it, and those after it are small. Not a limit.

    Raises:
      DamagedStreamError: while iterating, after everything that could be decompressed.
      OSError: the file cannot be read; the text says which.
    """

    def __init__(self, path: str, *, compression: str, start: int = 0, end: int | None = None):
        if compression not in COMPRESSIONS:
            raise ValueError(f"compression must be one of {COMPRESSIONS}, not {compression!r}")
        if start and compression != "none":
            raise ValueError("a compressed file can be read from its beginning only")
        self.path = path
        self.compression = compression
        #: Bytes of the file that were read so far, counted from its beginning.
        self.raw_offset = start
        self._start = start
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        if self.compression == "none":
            yield from self._plain()
            return
        offset = 0
        try:
            with open_raw(self.path) as file:
                for piece in self._decompress(file, lambda: (_READ_BYTES, _STEP_BYTES)):
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
        self.raw_offset += len(data)
        return data

    def _decompress(self, file: BinaryIO, sizes: Callable[[], tuple[int, int]]) -> Iterator[bytes]:
        """Pieces of content. ``sizes``: bytes to read, and to decompress, in the next step.

        Raises:
          _DamageFound: what the last step decompressed, if anything, is lost.
        """
        self.raw_offset = 0
        try:
            yield from decompress(
                self.compression, lambda: self._read(file, sizes()[0]), lambda: sizes()[1]
            )
        except DAMAGE as error:
            raise _DamageFound(self.raw_offset, _first_line(error)) from error

    def _decompress_to_damage(self, known: int, damaged_at: int, step: int) -> bytes:
        """The content between ``known`` and the damage, by small steps: at most a large step's.

        A library that finds damage keeps to itself what it decompressed in the same call.
        """
        done = bytearray()
        position = 0

        def sizes() -> tuple[int, int]:
            near = self.raw_offset + 2 * _READ_BYTES > damaged_at
            wanted = max(known - position, step)
            return 64 if near else _READ_BYTES, min(wanted, _STEP_BYTES)

        with contextlib.suppress(_DamageFound), open_raw(self.path) as file:
            for piece in self._decompress(file, sizes):
                done += piece[max(0, known - position) :]
                position += len(piece)
        return bytes(done)


class _DamageFound(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, raw_offset: int, detail: str):
        super().__init__(raw_offset, detail)
        self.raw_offset = raw_offset
        self.detail = detail


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
