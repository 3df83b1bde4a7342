"""The beginning of a file's content, by which it is known, or known how to be read."""

from __future__ import annotations

import contextlib

from transforms.formats.encodings import UTF_8
from transforms.streams import ByteStream, DamagedStreamError

__all__ = ["read_beginning"]


def read_beginning(path: str, size: int, *, compression: str, encoding: str = UTF_8) -> bytes:
    """The first ``size`` bytes of the content, however it is packed; of a damaged file what can be read.

    Args:
      path: a local path or a URL.
      size: less is given only where there is less.
      compression, encoding: as for ``ByteStream``.

    Raises:
      OSError: the file cannot be read.
    """
    head = bytearray()
    with contextlib.suppress(DamagedStreamError):
        for chunk in ByteStream(path, compression=compression, end=size, encoding=encoding):
            head += chunk
            if len(head) >= size:
                break
    return bytes(head[:size])
