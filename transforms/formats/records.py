"""What a format gives for one record, and what it has to know about a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from schemas.errors import RecordError
from transforms.formats.framing import Piece, Record

if TYPE_CHECKING:
    from transforms.read_tasks import FileShare

__all__ = ["Document", "Format", "HeadedFormat", "Row", "Table"]


class Document(NamedTuple):
    """One document as its record has it: not yet canonical, and not checked for lone surrogates.

    Attributes:
      sentences: where the record has them already; nobody looks for others then.
    """

    text: str
    id: str | None = None
    language: str | None = None
    sentences: tuple[str, ...] | None = None


class Format(Protocol):
    """A stream of bytes: how it is cut into records, and what a record says."""

    @property
    def lookback(self) -> int:
        """Bytes before a range that tell whether a record starts at its first byte."""

    @property
    def too_long_hint(self) -> str:
        """What to tell the owner of a record that is too long."""

    def frame(self, pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
        """Cut into records, without holding more than one and a piece."""

    def parse(self, record: Record) -> Document | None:
        """Read one record; None if it holds nothing that anyone would call a document.

        Raises:
          RecordError: it is refused.
        """


@runtime_checkable
class HeadedFormat(Format, Protocol):
    """A stream whose records are read by what stands at the beginning of the file.

    Whoever reads a share of the file, wherever it is, is given the beginning first.
    """

    @property
    def head_bytes(self) -> int:
        """How much of the file's content is wanted; less where the file has less."""

    def with_head(self, head: bytes) -> Format:
        """What reads this file."""


class Row(NamedTuple):
    """One record of a table.

    Attributes:
      position: where it is, for ``source``; the same however the file is shared out.
      found: the document, or why it is refused.
      data: for the excerpt of one that is refused.
      raw_bytes: what the rows of the share up to this one occupy on disk; for progress.
    """

    position: str
    found: Document | RecordError
    data: bytes
    raw_bytes: int


@runtime_checkable
class Table(Protocol):
    """A container that knows itself where its records are."""

    def rows(self, share: FileShare, *, max_bytes: int) -> Iterator[Row]:
        """The records of the groups that begin in the share, a group at a time in memory.

        Args:
          share: ``start`` to ``end`` are of the file as it lies on disk.
          max_bytes: a longer text is refused as ``TOO_LONG``.

        Raises:
          DamagedStreamError: the rest cannot be read, after everything that could.
          OSError: the file cannot be opened.
        """
