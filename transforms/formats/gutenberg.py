"""Project Gutenberg's plain text: the book without the licence around it, a paragraph a line.

Dropped: the licence before and after the book, and the line or two that say who made the file;
``[Illustration]`` marks with their captions, which stand in the middle of the text; lines without a
letter or digit. ``_italics_`` lose their underscores. What stands in other brackets stays.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from schemas.errors import RecordError, RejectReason
from transforms.formats.decoding import decode
from transforms.formats.framing import Piece, Record, frame_whole
from transforms.formats.records import Document
from transforms.formats.unwrapping import unwrap

__all__ = ["Gutenberg", "book_text"]

#: "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***", over several lines if the title is long; before
#: 2001 the "small print" ended so: "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*".
_BEGIN = re.compile(
    r"^[ \t]*\*{2,3}[ \t]*START OF (?:THE |THIS )?PROJECT GUTENBERG"
    r"(?:(?!\n[^\S\n]*\n)[^*]){0,400}(?:\*{2,3}.*)?"
    r"|^[ \t]*\*+[ \t]*END[ \t]*\*?[ \t]*THE SMALL PRINT.*",
    re.IGNORECASE | re.MULTILINE,
)
#: The beginning of the text is looked for here; the longest licence in front has 20,000 characters.
_HEAD_CHARACTERS = 64 << 10
_END = re.compile(
    r"^[ \t*]*(?:(?:this is )?(?:the )?end of (?:the |this )?project gutenberg\b"
    r"|ende (?:des|dieses|von)? ?proje[ck]t gutenberg\b|fin d[eu] (?:ce )?project gutenberg\b"
    r"|\*{3}[ \t]*start: full license)",
    re.IGNORECASE | re.MULTILINE,
)
#: Who made the file: a paragraph, or several, right after the start line.
_CREDITS = re.compile(
    r"(?:(?:this )?e-?(?:book|text) (?:was )?(?:produced|prepared|transcribed|scanned)"
    r"|(?:produced|prepared|transcribed|scanned) by)\b.*(?:\n.*\S.*)*",
    re.IGNORECASE,
)
_ILLUSTRATION = re.compile(r"\[Illustration\b(?:[^][]|\[[^][]{0,2000}\]){0,2000}\]", re.IGNORECASE)
#: Of one paragraph; names with underscores in them, and rules made of these, are not meant.
_ITALICS = re.compile(r"(?<![\w_])_(?=[^\s_])([^_\n]+)(?<!\s)_(?![\w_])")


@dataclasses.dataclass(frozen=True)
class Gutenberg:
    """A record is a file, which is a book."""

    lookback: int = 0
    too_long_hint: str = "one file is one document"

    def frame(self, pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
        """All of the file."""
        return frame_whole(pieces, max_bytes=max_bytes)

    def parse(self, record: Record) -> Document:
        """The book.

        Raises:
          RecordError: ``UNDECODABLE``, or ``EMPTY_DOCUMENT``.
        """
        text = book_text(decode(record.data, offset=record.offset))
        if not text:
            raise RecordError(RejectReason.EMPTY_DOCUMENT, "no text between the licence's parts")
        return Document(text)


def book_text(content: str) -> str:
    """The text of a file of Project Gutenberg, or of one that looks like it: a paragraph a line."""
    content = content.replace("\r\n", "\n").replace("\r", "\n")
    body = _without_licence(content)
    body = _ILLUSTRATION.sub("", body)
    lines = (_ITALICS.sub(r"\1", line) if "_" in line else line for line in unwrap(body))
    return "\n".join(line for line in lines if any(map(str.isalnum, line)))


def _without_licence(content: str) -> str:
    """What is between the licence's parts; of a file that lacks one, from or up to its own end."""
    start = 0
    for match in _BEGIN.finditer(content, 0, _HEAD_CHARACTERS):
        start = match.end()
    end = _END.search(content, start)
    body = content[start : end.start() if end else len(content)]
    if start:
        body = body.lstrip()
        while credits_ := _CREDITS.match(body):
            body = body[credits_.end() :].lstrip()
    return body
