"""Compresses what a test wants to read."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable

import pyarrow as pa

__all__ = ["COMPRESS", "make_text"]


def _zstd(data: bytes) -> bytes:
    target = pa.BufferOutputStream()
    with pa.CompressedOutputStream(target, "zstd") as stream:
        stream.write(data)
    return target.getvalue().to_pybytes()


#: By the name of the compression; each makes one member, or frame.
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gz": lambda data: gzip.compress(data, mtime=0),
    "bz2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": _zstd,
}


def make_text(size: int) -> bytes:
    """Text that compresses like text: short lines, each with its number."""
    words = ("the", "of", "and", "a", "bee", "river", "stone", "went", "slowly", "over", "dark")
    lines, total, n = [], 0, 0
    while total < size:
        n += 1
        line = f"{n} " + " ".join(words[(n * n * k + k) % len(words)] for k in range(1, 9 + n % 5))
        lines.append(line)
        total += len(line) + 1
    return "\n".join(lines).encode()[:size]
