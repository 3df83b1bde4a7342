"""JSON lines: an object a line, the text in one of its fields.

Parsed by the standard library: orjson was measured 1.1 to 1.2 times as fast for the step on long
records, refuses the NaN that Python's own ``json.dumps`` writes, and does not tell a lone surrogate
from broken JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any

from schemas.errors import RecordError, RejectReason
from transforms.formats.decoding import decode, printable
from transforms.formats.framing import Piece, Record, frame_lines
from transforms.formats.records import Document
from transforms.formats.sentence_lists import (
    LANGUAGE,
    SENTENCES,
    SOURCE,
    document_of_sentences,
)

__all__ = ["JsonLines"]

_MISSING = object()
_SPACE = " \t\r\n"  # JSON's; ``str.strip`` would take more

_decode_at = json.JSONDecoder().raw_decode


@dataclasses.dataclass(frozen=True)
class JsonLines:
    """A record is a line.

    Args:
      text_field: the name of the field with the text, or names with dots between them for one in a
        nested object. A field whose own name has the dots is preferred.
      id_field: likewise for the record's name; a missing one is no error.
      language_field: likewise for its language; missing or null is none.
    """

    text_field: str = "text"
    id_field: str | None = None
    language_field: str | None = "lang"
    lookback: int = 1
    too_long_hint: str = "is it one JSON object a line?"

    def frame(self, pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
        """Cut at newlines; strings hold none, JSON escapes them."""
        return frame_lines(pieces, max_bytes=max_bytes)

    def parse(self, record: Record) -> Document | None:
        """The record's fields; None for a blank line.

        Raises:
          RecordError: ``UNDECODABLE``, ``BROKEN_JSON``, ``MISSING_FIELD``, ``FIELD_NOT_A_STRING``
            or ``EMPTY_DOCUMENT``.
        """
        line = decode(record.data, offset=record.offset).strip(_SPACE)
        if not line or line.isspace():
            return None
        return self.document_of(_load(line))

    def document_of(self, value: dict[str, Any]) -> Document:
        """The document of a record as names and values.

        Raises:
          RecordError: as :meth:`parse`.
        """
        text = self._string(value, self.text_field)
        if text is None:
            if SENTENCES in value:
                return document_of_sentences(
                    value[SENTENCES], source=value.get(SOURCE), language=value.get(LANGUAGE)
                )
            raise RecordError(RejectReason.MISSING_FIELD, _no_field(self.text_field, value))
        if not text or text.isspace():
            raise RecordError(RejectReason.EMPTY_DOCUMENT, f"{self.text_field!r} is blank")
        language = self._string(value, self.language_field) if self.language_field else None
        name = None
        if self.id_field:
            found = _get(value, self.id_field)
            name = printable(str(found)) if isinstance(found, str | int) else None
        return Document(text, name, language)

    def _string(self, value: dict[str, Any], field: str) -> str | None:
        """The string in a field; None if there is none, or null in that of the language."""
        found = _get(value, field)
        if found is _MISSING or (found is None and field == self.language_field):
            return None
        if not isinstance(found, str):
            kind = "null" if found is None else type(found).__name__
            raise RecordError(RejectReason.FIELD_NOT_A_STRING, f"{field!r} is {kind}")
        return found


def _load(line: str) -> dict[str, Any]:
    try:
        value, end = _decode_at(line)
    # A ValueError without position: a number of too many digits. RecursionError: nested too deeply.
    except (ValueError, RecursionError) as error:
        raise RecordError(RejectReason.BROKEN_JSON, str(error) + _hint(line)) from error
    if end != len(line):
        detail = f"more after the end of the JSON value, at character {end + 1:,}{_hint(line)}"
        raise RecordError(RejectReason.BROKEN_JSON, detail)
    if not isinstance(value, dict):
        detail = f"a JSON {type(value).__name__} where an object must be"
        raise RecordError(RejectReason.BROKEN_JSON, detail)
    return value


def _hint(line: str) -> str:
    r"""What a ``\r`` inside a line may mean: an old Mac's ends of lines, of which the file is made."""
    return (
        r"; lines end in \n, and this one has \r in it: tr '\r' '\n' mends that"
        if "\r" in line
        else ""
    )


def _get(value: dict[str, Any], field: str) -> object:
    if field in value:
        return value[field]
    if "." not in field:
        return _MISSING
    found: object = value
    for name in field.split("."):
        if not isinstance(found, dict) or name not in found:
            return _MISSING
        found = found[name]
    return found


def _no_field(field: str, value: dict[str, Any]) -> str:
    names = ", ".join(repr(name[:40]) for name in list(value)[:10])
    told = f"{names}; --text_field names the text's" if names else "none at all"
    return f"no field {field!r}; there is {told}"
