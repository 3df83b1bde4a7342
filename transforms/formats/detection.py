"""What a file is, by its name and its first bytes."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from schemas.errors import ConfigError
from transforms.streams import ByteStream, DamagedStreamError, local_path, open_raw

__all__ = ["Kind", "detect"]

_BY_NAME = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst", ".zstd": "zst"}
#: None of these can begin a UTF-8 text, but for bz2's, which is long enough.
_BY_MAGIC = {
    "gz": re.compile(rb"\x1f\x8b\x08"),
    "bz2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zst": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
}
_JSONL_NAMES = (".jsonl", ".json", ".ndjson")
_NOT_TEXT = (".parquet", ".avro", ".arrow", ".zip", ".tar", ".tgz", ".7z", ".lz4", ".warc")

_HEAD_BYTES = 4096


class Kind(NamedTuple):
    """What was decided; see ``transforms.inputs.InputFile``."""

    compression: str
    format: str
    decided_by: str


def detect(path: str, size: int, *, format: str) -> Kind:
    """Decide how a file is to be read.

    Args:
      path: a local path or a URL.
      size: bytes on disk; of an empty file only the name counts.
      format: auto, or what the user says it is.

    Raises:
      ConfigError: it is known to be something else than text.
    """
    stem, compression = _compression(path, size)
    if stem.endswith(_NOT_TEXT):
        kind = os.path.splitext(stem)[1]
        raise ConfigError("input", path, f"{kind} files cannot be read; give text or JSON lines")
    if format != "auto":
        return Kind(compression, format, f"--format {format}")
    if stem.endswith(_JSONL_NAMES):
        if stem.endswith(".json") and size and _first_byte(path, compression) == b"[":
            raise ConfigError(
                "input", path, "is one JSON array; make it an object a line (jq -c '.[]' does)"
            )
        return Kind(compression, "jsonl", f"its name ends in {os.path.splitext(stem)[1]}")
    if size and _first_byte(path, compression) == b"{":
        return Kind(compression, "jsonl", "it begins with {")
    return Kind(compression, "text", "neither its name nor its first byte is that of JSON lines")


def _compression(path: str, size: int) -> tuple[str, str]:
    """The name in lower case without the compression's ending, and the compression.

    The bytes have the last word, where looking at them is cheap: a remote file costs a request.
    """
    name = path.lower()
    stem, extension = os.path.splitext(name)
    compression = _BY_NAME.get(extension, "none")
    if size and local_path(path) is not None:
        with open_raw(path) as file:
            head = file.read(16)
        for found, begins in _BY_MAGIC.items():
            if begins.match(head):
                compression = found
    return stem if extension in _BY_NAME else name, compression


def _first_byte(path: str, compression: str) -> bytes:
    """The first byte that is not white space, among the first kilobytes."""
    stream = ByteStream(path, compression=compression, end=_HEAD_BYTES)
    try:
        head = next(iter(stream), b"")
    except DamagedStreamError:  # told when it is read
        return b""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
