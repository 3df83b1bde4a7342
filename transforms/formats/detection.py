"""What a file is, by its name and its first bytes."""

from __future__ import annotations

import codecs
import contextlib
import functools
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from schemas.errors import ConfigError
from schemas.stores import local_path
from transforms.beginnings import read_beginning
from transforms.formats.encodings import (
    AUTO,
    SAMPLE_BYTES,
    UTF_8,
    Encoding,
    decide_encoding,
    transcode,
)
from transforms.formats.registry import FORMATS
from transforms.streams import ByteStream, DamagedStreamError, open_raw

__all__ = ["Kind", "detect"]

_BY_NAME = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst", ".zstd": "zst"}
#: None of these can begin a UTF-8 text, but for bz2's, which is long enough.
_BY_MAGIC = {
    "gz": re.compile(rb"\x1f\x8b\x08"),
    "bz2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zst": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
}
_NOT_TEXT = (".zip", ".tar", ".tgz", ".7z", ".lz4")

_HEAD_BYTES = 4096
#: Where nothing but ASCII comes first, more is read until an encoding shows, by a byte beyond it or by one
#: that UTF-16 and ISO 2022 have.
_SEARCH_BYTES = 16 << 20
_TELLING, _BEFORE = re.compile(rb"[\x80-\xff\0\x1b]"), 1024


class Kind(NamedTuple):
    """What was decided; see ``transforms.inputs.InputFile``."""

    compression: str
    format: str
    decided_by: str
    encoding: str = UTF_8
    encoding_by: str = ""


def detect(path: str, size: int, *, format: str, encoding: str | None = UTF_8) -> Kind:
    """Decide how a file is to be read.

    Args:
      path: a local path or a URL.
      size: bytes on disk; of an empty file only the name counts.
      format: auto, or what the user says it is.
      encoding: auto, or what the user says it has; None for UTF-8 without a look.

    Raises:
      ConfigError: it is known to be something that cannot be read, or not like this, or there is no
        such encoding.
    """
    stem, compression = _compression(path, size)
    if stem.endswith(_NOT_TEXT):
        kind = os.path.splitext(stem)[1]
        raise ConfigError("input", path, f"{kind} files cannot be read; give text or JSON lines")
    content = _Content(path, compression, encoding) if size else None
    name, decided_by = _format(path, stem, content, format)
    if FORMATS[name].packs_itself and compression != "none":
        raise ConfigError(
            "input", path, f"is {name} in {compression}: unpack it; inside it is packed"
        )
    if content is None or not FORMATS[name].one_encoding:
        return Kind(compression, name, decided_by)
    return Kind(compression, name, decided_by, content.encoding.name, content.encoding.decided_by)


def _format(path: str, stem: str, content: _Content | None, asked: str) -> tuple[str, str]:
    """The format, and where it comes from."""
    if asked != "auto":
        for name, info in FORMATS.items():
            if info.packs_itself and stem.endswith(info.endings) and name != asked:
                raise ConfigError(
                    "input",
                    path,
                    f"is {name}, going by its name, and not {asked}; say --format auto",
                )
        return asked, f"--format {asked}"
    for name, info in FORMATS.items():
        if stem.endswith(info.endings):
            if stem.endswith(".json") and content and content.text[:1] == b"[":
                raise ConfigError(
                    "input", path, "is one JSON array; make it an object a line (jq -c '.[]' does)"
                )
            return name, f"its name ends in {os.path.splitext(stem)[1]}"
    head = content.text if content else b""
    for name, info in FORMATS.items():
        if info.head is not None and info.head.match(head):
            return name, info.head_words
    return "text", "neither its name nor its first bytes are of another format"


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


class _Content:
    """The beginning of a file's content, read when it is asked for.

    Args:
      path, compression: of the file.
      asked: what ``--encoding`` says; None for UTF-8 without a look.
    """

    def __init__(self, path: str, compression: str, asked: str | None):
        self._path = path
        self._compression = compression
        self._asked = asked

    @functools.cached_property
    def encoding(self) -> Encoding:
        """Of the file; what is damaged is told when it is read."""
        if self._asked is None:
            return Encoding(UTF_8, "")
        found = decide_encoding(self._head, self._asked if self._asked != AUTO else UTF_8)
        if self._asked == AUTO and found.name == UTF_8:
            return decide_encoding(self._sample(), AUTO)
        return found

    @functools.cached_property
    def text(self) -> bytes:
        """The first kilobytes as UTF-8, without byte order mark and leading white space."""
        head = self._head
        if self.encoding.name != UTF_8:
            head = next(transcode([head], self.encoding.name), b"")
        return head.removeprefix(codecs.BOM_UTF8).lstrip()

    @functools.cached_property
    def _head(self) -> bytes:
        return read_beginning(self._path, _HEAD_BYTES, compression=self._compression)

    def _sample(self) -> bytes:
        """What tells of the encoding: content from shortly before the first byte that does, or b"".

        A function of the content alone: how it is packed decides the chunks, and must not decide this.
        """
        sample, begin, found = bytearray(), 0, False  # begin: of the sample, in the content
        for chunk in self._chunks():
            searched = len(sample)
            sample += chunk
            if not found:
                telling = _TELLING.search(sample, searched)
                place = begin + (telling.start() if telling else len(sample))
                found = telling is not None and place < _SEARCH_BYTES
                passed = max(0, place - _BEFORE) // 4 * 4 - begin  # units of UTF-32 stay whole
                del sample[:passed]
                begin += passed
                if not found and place >= _SEARCH_BYTES:
                    break
            if found and len(sample) >= SAMPLE_BYTES:
                break
        return bytes(sample[:SAMPLE_BYTES]) if found else b""

    def _chunks(self) -> Iterator[bytes]:
        stream = ByteStream(self._path, compression=self._compression, end=SAMPLE_BYTES)
        with contextlib.suppress(DamagedStreamError):
            yield from stream
