"""The compressed formats: every member of a file, one after the other, in bounded steps.

Each generator here takes ``read``, which gives more of the file (``b""`` at its end), and
``limit``, the most bytes to decompress in the next step. It raises :data:`DAMAGE`, in the words of
the library, where the data is corrupt or ends too early; what that step decompressed is lost then.
It calls ``began`` where a member, or frame, begins, with how many bytes of what was read lie behind that
place.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from transforms.formats.zstandard_frames import FrameSource

__all__ = ["COMPRESSIONS", "DAMAGE", "decompress"]

#: What a file may be compressed with; ``"none"`` stands for a plain one.
COMPRESSIONS = ("none", "gz", "bz2", "xz", "zst")

DAMAGE = (zlib.error, lzma.LZMAError, EOFError)


def decompress(
    compression: str,
    read: Callable[[], bytes],
    limit: Callable[[], int],
    *,
    began: Callable[[int], None],
) -> Iterator[bytes]:
    """The content of a gz, bz2, xz or zst file."""
    if compression == "zst":
        return _frames(read, limit, began)
    return _members(compression, read, limit, began)


class _Decoder(Protocol):
    """Decompresses one member; those of bz2 and lzma are of this kind."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Inflater:
    """``zlib``'s decompressor of one gzip member, with the interface of the others."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)  # 31: a gzip header and checksum
        self._waiting = b""
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        content = self._inflate.decompress(self._waiting + data, max_length)
        self._waiting = self._inflate.unconsumed_tail
        self.needs_input = not self._waiting and len(content) < max_length
        return content


class _Bunzipper:
    """``bz2``'s decompressor; its OSError is about the data, and must not pass for the disk's."""

    def __init__(self) -> None:
        self._inner = bz2.BZ2Decompressor()

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return self._inner.needs_input

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        try:
            return self._inner.decompress(data, max_length)
        except OSError as error:
            raise EOFError(f"bz2: {error}") from error


_DECODERS: dict[str, tuple[Callable[[], _Decoder], bytes]] = {
    # The second value is what may stand between and after members: tapes and xz pad with zeros.
    "gz": (_Inflater, b"\0"),
    "bz2": (_Bunzipper, b""),
    "xz": (lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), b"\0"),
}


def _members(
    compression: str,
    read: Callable[[], bytes],
    limit: Callable[[], int],
    began: Callable[[int], None],
) -> Iterator[bytes]:
    """Every member of a gz, bz2 or xz file.

    Not by the standard library's file objects: those of bz2 and xz take a later member that is
    damaged near its beginning for garbage after the end, and ignore the rest of the file.
    """
    new_decoder, padding = _DECODERS[compression]
    data = read()
    while data:
        began(len(data))
        decoder = new_decoder()
        while not decoder.eof:
            if decoder.needs_input and not data:
                data = read()
                if not data:
                    raise EOFError(f"{compression}: the file is cut short")
            content = decoder.decompress(data, limit())
            data = b""
            if content:
                yield content
        data = decoder.unused_data.lstrip(padding) or read()
        while data and not (data := data.lstrip(padding)):
            data = read()


def _frames(
    read: Callable[[], bytes], limit: Callable[[], int], began: Callable[[int], None]
) -> Iterator[bytes]:
    """Every frame of a zst file.

    By pyarrow: zstandard's reader ends quietly where the data ends, in the middle of a frame too,
    and its other interfaces have no limit to what they give at once. Windows over 128 MiB
    (``zstd --long=28`` and up) are refused.
    """
    source = FrameSource(read)
    try:
        while waiting := source.next_frame():
            began(waiting)
            with pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd") as stream:
                # Not read(), of which pyarrow forgets the bytes that it was to fill when there is an error.
                while content := stream.read_buffer(limit()):
                    yield content.to_pybytes()
    except OSError as error:
        if source.failed:
            raise
        raise EOFError(f"zst: {error}") from error
