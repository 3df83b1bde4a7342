"""Web pages as files: one document each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from schemas.errors import RecordError, RejectReason
from transforms.formats.framing import Piece, Record, frame_whole
from transforms.formats.html_text import decode_page, main_text
from transforms.formats.records import Document

__all__ = ["Html"]


@dataclasses.dataclass(frozen=True)
class Html:
    """A record is a file."""

    lookback: int = 0
    too_long_hint: str = "a page of that size is mostly none"

    def frame(self, pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
        """All of the file."""
        return frame_whole(pieces, max_bytes=max_bytes)

    def parse(self, record: Record) -> Document:
        """The page's main text.

        Raises:
          RecordError: ``EMPTY_DOCUMENT`` or ``TOO_COMPLEX``.
        """
        text, language = main_text(decode_page(bytes(record.data)))
        if not text:
            raise RecordError(RejectReason.EMPTY_DOCUMENT, "no main text in the page")
        return Document(text, language=language)
