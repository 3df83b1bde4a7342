"""MediaWiki's XML exports: a page of the encyclopedia is a document."""

from __future__ import annotations

import dataclasses
import html
import itertools
import re
from collections.abc import Iterable, Iterator
from xml.parsers import expat

from schemas.errors import RecordError, RejectReason
from transforms.formats.decoding import decode
from transforms.formats.framing import EXCERPT_BYTES, Piece, Record
from transforms.formats.page_framing import frame_pages
from transforms.formats.records import Document
from transforms.formats.wikitext import to_prose
from transforms.formats.wikitext_links import Prefixes

__all__ = ["MediaWiki", "Page", "read_page"]

#: A page has few levels. The parser would keep a name for each of a million.
_DEEPEST = 32

_LANGUAGE = re.compile(r"<mediawiki\b[^<>]*\bxml:lang=[\"']([A-Za-z][-\w]*)[\"']")
_NAMESPACE = re.compile(r"<namespace\b[^<>]*\bkey=[\"'](-?\d+)[\"'][^<>]*>([^<>]+)</namespace>")
_ARTICLES, _MEDIA, _FILES, _CATEGORIES = 0, -2, 6, 14

#: MediaWiki's own names, known to every wiki beside those in its language; case-folded.
_OTHER_NAMESPACES = frozenset(
    f"{name}{talk}"
    for name in ("user", "project", "file", "mediawiki", "template", "help", "category", "portal")
    for talk in ("", " talk")
) | {"media", "special", "talk", "module"}
_PREFIXES = Prefixes()

#: One of them is in the beginning of an export, or of a part of one.
_OF_EXPORTS = re.compile(r"<(?:mediawiki|page|/page)[\s>]")
_LONGEST_MARK = 3  # of the order of bytes, before the first of the content
_NO_EXPORT = (
    "neither <mediawiki> nor <page> is in the file's beginning: is it an export of MediaWiki?"
)

_REDIRECT = re.compile(r"\s*#\w+\s*:?\s*\[\[")


@dataclasses.dataclass
class Page:
    """What matters of a page, of its last revision where there are several.

    Attributes:
      namespace: None where the export does not say (before 2012).
    """

    title: str = ""
    namespace: str | None = None
    redirects: bool = False
    model: str = "wikitext"
    text: str = ""


@dataclasses.dataclass(frozen=True)
class MediaWiki:
    """A record is a page; those that are no articles are passed over.

    Attributes:
      language: of the wiki, from ``xml:lang``; None leaves it to ``--language``.
      prefixes: of links that are no text.
      other_namespaces: titles that begin so, before a colon, are not of articles; case-folded.
      takes_language: whether the head is asked for the language.
      is_export: whether the head is one of an export. Of another file the beginning is refused, lest
        one that is none be read as one without pages.
    """

    language: str | None = None
    prefixes: Prefixes = _PREFIXES
    other_namespaces: frozenset[str] = _OTHER_NAMESPACES
    takes_language: bool = True
    is_export: bool = True
    lookback: int = 0
    too_long_hint: str = "is there no </page>, or all of its history?"
    head_bytes: int = 64 << 10

    def with_head(self, head: bytes) -> MediaWiki:
        """Knows the wiki's language and the names of its namespaces, as the file's head has them."""
        whole = str(head, "utf-8", "replace")
        text = whole.partition("<page>")[0]
        names = [(int(key), html.unescape(name)) for key, name in _NAMESPACE.findall(text)]
        language = _LANGUAGE.search(text) if self.takes_language else None
        own = {key: {name.casefold() for k, name in names if k == key} for key, _ in names}
        dropped = own.get(_FILES, set()) | own.get(_MEDIA, set()) | own.get(_CATEGORIES, set())
        others = {name for key, found in own.items() if key != _ARTICLES for name in found}
        return dataclasses.replace(
            self,
            language=language[1] if language else None,
            prefixes=self.prefixes.and_of_wiki(frozenset(dropped)),
            other_namespaces=self.other_namespaces | others,
            is_export=bool(_OF_EXPORTS.search(whole)) or not whole.strip(),
        )

    def frame(self, pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[Record]:
        """Cut at ``<page>`` and ``</page>``; what is no export gives its beginning first."""
        rest = iter(pieces)
        first = next(rest, None)
        if first is None:
            return
        begins_here = first.owned and first.offset <= _LONGEST_MARK
        if begins_here and not self.is_export:
            yield Record(first.offset, first.data[:EXCERPT_BYTES], damage=_NO_EXPORT)
        yield from frame_pages(itertools.chain([first], rest), max_bytes=max_bytes)

    def parse(self, record: Record) -> Document | None:
        """The prose of an article; None for a page of another kind, or without prose.

        Raises:
          RecordError: ``UNDECODABLE``, ``BROKEN_XML`` or ``TOO_LONG``.
        """
        if record.damage:
            raise RecordError(RejectReason.BROKEN_XML, record.damage)
        decode(record.data, offset=record.offset)
        page = read_page(bytes(record.data))
        if not self._is_article(page):
            return None
        text = to_prose(page.text, prefixes=self.prefixes)
        return Document(text, page.title, self.language) if text else None

    def _is_article(self, page: Page) -> bool:
        if page.redirects or page.model != "wikitext" or _REDIRECT.match(page.text):
            return False
        if page.namespace is not None:
            return page.namespace == str(_ARTICLES)
        prefix, colon, _ = page.title.partition(":")
        return not (colon and prefix.strip().casefold() in self.other_namespaces)


def read_page(data: bytes) -> Page:
    """Reads the XML of one page, from ``<page>`` to ``</page>``, in UTF-8.

    There is no document type in here, so that no entity can be defined: one that is not XML's own
    is an error.

    Raises:
      RecordError: ``BROKEN_XML``.
    """
    reader = _PageReader()
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise RecordError(RejectReason.BROKEN_XML, f"the page is broken: {error}") from error
    if not reader.page.title:
        raise RecordError(RejectReason.BROKEN_XML, "the page has no <title>")
    return reader.page


class _PageReader:
    """Collects a page from the parser's calls."""

    def __init__(self) -> None:
        self.page = Page()
        self._path: list[str] = []
        self._text: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        if len(self._path) > _DEEPEST:
            raise RecordError(RejectReason.BROKEN_XML, f"more than {_DEEPEST} levels of elements")
        self._text.clear()
        if self._path == ["page", "redirect"]:
            self.page.redirects = True
        elif self._path == ["page", "revision"]:
            self.page.model, self.page.text = "wikitext", ""

    def characters(self, data: str) -> None:
        self._text.append(data)

    def end(self, unused_name: str) -> None:
        match self._path:
            case ["page", "title"]:
                self.page.title = "".join(self._text).strip()
            case ["page", "ns"]:
                self.page.namespace = "".join(self._text).strip()
            case ["page", "revision", "model"]:
                self.page.model = "".join(self._text).strip()
            case ["page", "revision", "text"]:
                self.page.text = "".join(self._text)
        self._path.pop()
        self._text.clear()
