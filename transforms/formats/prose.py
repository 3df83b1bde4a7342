"""Running text: a document a file, or several with a separator line between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from schemas.errors import ConfigError, RecordError, RejectReason
from transforms.formats.decoding import decode
from transforms.formats.framing import (
    LONGEST_SEPARATOR,
    SECTION_LOOKBACK,
    Piece,
    Record,
    frame_sections,
    frame_whole,
)
from transforms.formats.records import Document

__all__ = ["Prose"]


@dataclasses.dataclass(frozen=True)
class Prose:
    """Documents between lines that are ``separator`` after strip; None: the file is one document.

    Raises:
      ConfigError: a separator that no stripped line can equal.
    """

    separator: str | None = None
    lookback: int = SECTION_LOOKBACK

    def __post_init__(self) -> None:
        text = self.separator
        if text is None:
            return
        if not text or text != text.strip() or "\n" in text or len(text) > LONGEST_SEPARATOR // 4:
            raise ConfigError(
                "document_separator",
                text,
                "must be what one line holds, without white space around it; e.g. --- or <doc>",
            )

    @property
    def too_long_hint(self) -> str:
        """What to tell the owner of a document that is too long."""
        if self.separator is None:
            return "without --document_separator a whole file is one document"
        return f"no line {self.separator!r} between documents?"

    def frame(self, pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
        """Cut at the separator lines, if there is one."""
        if self.separator is None:
            return frame_whole(pieces, max_bytes=max_bytes)
        return frame_sections(pieces, separator=self.separator.encode(), max_bytes=max_bytes)

    def parse(self, record: Record) -> Document | None:
        """The section's text; None for a blank one before the first separator or after the last.

        Raises:
          RecordError: ``UNDECODABLE``, or ``EMPTY_DOCUMENT`` for a blank section or file.
        """
        text = decode(record.data, offset=record.offset)
        if text and not text.isspace():
            return Document(text)
        if record.edge:
            return None
        raise RecordError(RejectReason.EMPTY_DOCUMENT, "nothing but white space")
