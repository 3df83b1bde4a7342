"""What a format gives for one record, and the two questions it answers about a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from transforms.formats.framing import Piece, Record

__all__ = ["Document", "Format"]


class Document(NamedTuple):
    """One document as its record has it: not yet canonical, and not checked for lone surrogates."""

    text: str
    id: str | None = None
    language: str | None = None


class Format(Protocol):
    """How a file is cut into records, and what a record says."""

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
