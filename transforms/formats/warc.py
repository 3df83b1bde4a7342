"""Web archives: the pages that a crawl brought (WARC), or the text that was made of them (WET).

A page's main text is looked for (``html_text``), a ``conversion`` is text already. Requests, pictures,
pages that were not found and whatever else an archive holds are passed over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from schemas.errors import RecordError, RejectReason
from transforms.formats.decoding import decode
from transforms.formats.framing import Piece, Record
from transforms.formats.html_text import decode_page, main_text
from transforms.formats.http_bodies import http_body
from transforms.formats.records import Document
from transforms.formats.warc_framing import frame_warc, header_fields, split_header
from transforms.language_codes import one_language

__all__ = ["Warc"]

_PAGES = ("text/html", "application/xhtml+xml")


@dataclasses.dataclass(frozen=True)
class Warc:
    """A record is one of WARC's, with its header.

    Args:
      max_bytes: the most that a page may have once its compression is undone.
    """

    max_bytes: int
    lookback: int = 0
    too_long_hint: str = "a page of that size is mostly none; raise it for the text of a WET file"

    def frame(self, pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
        """Follow the lengths; of what is too long only pages and text are refused."""
        for record in frame_warc(pieces, max_bytes=max_bytes):
            if record.too_long and _found(record.data) is None:
                record = record._replace(too_long=False)
            yield record

    def parse(self, record: Record) -> Document | None:
        """The text of a page or a conversion; None for other records and pages without any.

        Raises:
          RecordError: ``DAMAGED_RECORD``, ``UNDECODABLE``, ``TOO_LONG`` or ``TOO_COMPLEX``.
        """
        if record.damage:
            raise RecordError(RejectReason.DAMAGED_RECORD, record.damage)
        found = _found(record.data)
        if found is None:
            return None
        fields = found.fields
        name = fields.get("warc-target-uri", "").strip("<>") or fields.get("warc-record-id")
        language = one_language(fields.get("warc-identified-content-language", ""))
        if found.http is None:
            offset = record.offset + len(record.data) - len(found.block)
            text = decode(found.block, offset=offset)
        else:
            cut_off = "warc-truncated" in fields
            body = http_body(found.block, found.http, cut_off=cut_off, max_bytes=self.max_bytes)
            page = decode_page(body, content_type=found.http.get("content-type", ""))
            text, own_language = main_text(page)
            language = (
                language or one_language(found.http.get("content-language", "")) or own_language
            )
        if not text or text.isspace():
            return None
        return Document(text, name, language)


@dataclasses.dataclass(frozen=True)
class _Found:
    """A record that holds a document.

    Attributes:
      fields: of WARC's header.
      http: fields of the HTTP header; None where the block is the text.
      block: what comes after the headers.
    """

    fields: dict[str, str]
    http: dict[str, str] | None
    block: bytes


def _found(data: bytes | memoryview) -> _Found | None:
    """What a record holds, if that is a page or text; of one that is too long the beginning will do."""
    header, block = split_header(data)
    fields = header_fields(header)
    kind, media = fields.get("warc-type", "").lower(), _media_type(fields)
    if kind == "conversion" and media == "text/plain":
        return _Found(fields, None, block)
    if kind != "response" or media != "application/http":
        return None
    http_header, body = split_header(block)
    status = http_header.split(b"\n", 1)[0].split(None, 2)
    http = header_fields(http_header)
    if not status or not status[0].startswith(b"HTTP/") or status[1:2] != [b"200"]:
        return None
    return _Found(fields, http, body) if _media_type(http) in _PAGES else None


def _media_type(fields: dict[str, str]) -> str:
    return fields.get("content-type", "").partition(";")[0].strip().lower()
