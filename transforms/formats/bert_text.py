r"""BERT's text format: a sentence a line, a blank line between documents.

Source: google-research/bert, ``create_pretraining_data.py``, ``create_training_instances``: lines
end at ``\n`` alone, one that ``str.strip`` leaves empty ends the document. Unlike there, so does
the end of the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from transforms.formats.decoding import decode
from transforms.formats.framing import SECTION_LOOKBACK, Piece, Record, frame_sections
from transforms.formats.records import Document

__all__ = ["BertText"]


@dataclasses.dataclass(frozen=True)
class BertText:
    """A record is a document: the lines from one that is not blank to the next blank one."""

    lookback: int = SECTION_LOOKBACK
    too_long_hint: str = "no blank line between documents?"

    def frame(self, pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
        """Cut at blank lines; several in a row are one."""
        for record in frame_sections(pieces, separator=b"", max_bytes=max_bytes):
            if record.data:
                yield record

    def parse(self, record: Record) -> Document | None:
        """The document's lines; None if they hold no more than white space."""
        text = decode(record.data, offset=record.offset)
        return Document(text) if text and not text.isspace() else None
