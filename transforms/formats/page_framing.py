"""Cuts MediaWiki's XML into its pages, wherever one begins to read.

In well-formed XML every ``<`` of the text is escaped, so that ``<page>`` is always the beginning of
a page: nothing before it has to be known, no declaration is believed, no entity defined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from transforms.formats.framing import OpenRecord, Piece, Record

__all__ = ["frame_pages"]

_TAGS = re.compile(rb"<(?:(?P<begins>page)[\s>]|/page>)")
_LONGEST_TAG = len(b"</page>")


def frame_pages(pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
    """Give every page whose ``<page>`` starts in an owned piece, with ``</page>``.

    A page without its end goes to the next ``<page>`` or the end of the file, and lacks
    ``</page>`` then. What stands between pages is passed over.
    """
    page = OpenRecord(max_bytes)
    tail, tail_owned = b"", False  # the beginning of a tag, perhaps, and whose it is
    for piece in pieces:
        if not page.ours and not piece.owned and not (tail and tail_owned):
            if piece.last:
                return
            tail = b""
            continue
        data = tail + piece.data
        border = len(tail)  # the piece's own bytes begin here
        base = piece.offset - border
        pos = seen = 0  # up to here the data is used, and searched
        for tag in _TAGS.finditer(data):
            record, seen = None, tag.end()
            if tag["begins"]:
                record = page.close(data[pos : tag.start()])
                owned = piece.owned if tag.start() >= border else tail_owned
                page.begin(base + tag.start(), owned=owned)
                pos = tag.start()
            elif page.ours:
                record = page.close(data[pos : tag.end()])
                pos = seen
            if record:
                yield record
            if not page.ours and not piece.owned and seen > border:
                break
        end = data.rfind(b"<", max(seen, len(data) - _LONGEST_TAG + 1))
        end = len(data) if end < 0 else end
        record = page.add(data[pos:end])
        if record:
            yield record
        tail = data[end:]
        tail_owned = piece.owned if end >= border else tail_owned
    record = page.close(tail)
    if record:
        yield record
