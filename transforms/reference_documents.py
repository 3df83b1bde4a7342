r"""Reads a group of files as the reference's script does in one invocation.

google-research/bert, ``create_pretraining_data.py``, ``create_training_instances``: the files one after
the other, lines that end at ``\n`` alone, each stripped; a blank one begins a new document and **the end
of a file does not**, so that the last document of one file may go on in the next. A line without a
token is no sentence, and unless it is blank no end of a document either. Documents without a sentence
are left out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from schemas.arrow import KEY_BYTES
from schemas.errors import BuildError
from transforms.reference_tokenizer import ReferenceEncoder
from transforms.streams import ByteStream, DamagedStreamError

__all__ = ["ReferenceDocuments", "read_group"]

#: Bytes of text that are tokenized at a time.
_CHUNK_BYTES = 4 << 20


@dataclasses.dataclass(frozen=True)
class ReferenceDocuments:
    """The documents of a file group as flat arrays, in the order in which they were read.

    Attributes:
      ids: uint16 or uint32[tokens].
      sentence_offsets: int64[sentences + 1], into ``ids``; no sentence is empty.
      document_offsets: int64[documents + 1], into the sentences; no document is empty.
      keys: 16 bytes for each document: BLAKE2b of its lines.
      num_empty: documents with lines but without a token, which were left out.
      text_bytes: of what was read.
      file_ends_inside: files other than the last whose end is not the end of a document.
    """

    ids: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray
    keys: tuple[bytes, ...]
    num_empty: int
    text_bytes: int
    file_ends_inside: int


def read_group(
    files: Sequence[tuple[str, str]],
    encoder: ReferenceEncoder,
    *,
    report: Callable[[int], None] = lambda size: None,
    chunk_bytes: int = _CHUNK_BYTES,
) -> ReferenceDocuments:
    """Reads and tokenizes the files of one invocation.

    Args:
      files: paths and compressions (see ``transforms.streams``), in the script's order.
      encoder: gives the ids.
      report: told of every chunk's bytes.
      chunk_bytes: of text to be tokenized at a time.

    Raises:
      BuildError: a file is not UTF-8, at which the script would end too, or is damaged.
      OSError: a file cannot be read.
    """
    group = _Group(encoder)
    ends_inside = 0
    for n, (path, compression) in enumerate(files):
        for text, size in _texts(path, compression, chunk_bytes):
            group.add(text)
            report(size)
            group.text_bytes += size
        ends_inside += group.inside and n < len(files) - 1
    return group.finish(ends_inside)


def _texts(path: str, compression: str, chunk_bytes: int) -> Iterator[tuple[str, int]]:
    r"""The text of a file in pieces of whole lines, without the last ``\n`` of each."""
    stream = iter(ByteStream(path, compression=compression))
    offset = 0
    waiting: list[bytes] = []
    size = 0
    while True:
        try:
            piece = next(stream, None)
        except DamagedStreamError as damage:
            raise BuildError(
                f"{damage}; --exact_reference needs every file whole: mend it or leave it out"
            ) from damage
        cut = -1
        if piece is not None:
            size += len(piece)
            if size >= chunk_bytes:
                cut = piece.rfind(b"\n")
            if cut < 0:
                waiting.append(piece)
                continue
            waiting.append(piece[: cut + 1])
        data = b"".join(waiting)
        if data:
            yield _decode(data, path, offset).removesuffix("\n"), len(data)
        if piece is None:
            return
        offset += len(data)
        waiting = [piece[cut + 1 :]]
        size = len(waiting[0])


def _decode(data: bytes, path: str, offset: int) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise BuildError(
            f"{path}: not UTF-8: 0x{data[error.start]:02x} at byte {offset + error.start:,} of the "
            f"content ({error.reason}), where the reference's script ends too; convert the file, with "
            "iconv for example"
        ) from error


class _Group:
    """What was read so far. A document may begin in one chunk, or file, and end in another."""

    def __init__(self, encoder: ReferenceEncoder):
        self._encoder = encoder
        self._ids: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._sentences: list[int] = []
        self._keys: list[bytes] = []
        self._hash = hashlib.blake2b(digest_size=KEY_BYTES)
        self._open = 0
        self._empty = 0
        #: Whether the last line was one of a document.
        self.inside = False
        self.text_bytes = 0

    def add(self, text: str) -> None:
        """The next lines."""
        ids, offsets = self._encoder.encode(text)
        lines = [line.strip() for line in text.split("\n")]
        lengths = np.diff(offsets)
        filled = lengths > 0
        self._ids.append(ids)
        self._lengths.append(lengths[filled])
        before = np.append(0, np.cumsum(filled))
        start = 0
        with contextlib.suppress(ValueError):
            while True:
                blank = lines.index("", start)
                self._go_on(lines[start:blank], int(before[blank] - before[start]))
                self._close()
                start = blank + 1
        self._go_on(lines[start:], int(before[-1] - before[start]))

    def _go_on(self, lines: Sequence[str], sentences: int) -> None:
        """More lines of the document at hand, none of them blank."""
        if lines:
            self._hash.update(("\n" * self.inside + "\n".join(lines)).encode())
            self._open += sentences
            self.inside = True

    def _close(self) -> None:
        if not self.inside:
            return
        if self._open:
            self._sentences.append(self._open)
            self._keys.append(self._hash.digest())
        else:
            self._empty += 1
        self._hash = hashlib.blake2b(digest_size=KEY_BYTES)
        self._open = 0
        self.inside = False

    def finish(self, ends_inside: int) -> ReferenceDocuments:
        """All of it."""
        self._close()
        ids, _ = self._encoder.encode("")  # of the right type
        lengths = [np.zeros(1, np.int64), *self._lengths]
        return ReferenceDocuments(
            ids=np.concatenate([ids, *self._ids]),
            sentence_offsets=np.cumsum(np.concatenate(lengths)),
            document_offsets=np.cumsum([0, *self._sentences], dtype=np.int64),
            keys=tuple(self._keys),
            num_empty=self._empty,
            text_bytes=self.text_bytes,
            file_ends_inside=ends_inside,
        )
