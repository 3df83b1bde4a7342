"""Wikitext to prose: paragraphs and sentences of lists, a line each, without any markup.

Not by mwparserfromhell: on Wikipedia's articles it was measured at 0.4 MB/s, where this makes 8; some
markup without end (``[http://a`` 10,000 times, 100 kB) costs it 18 s; and where it gives up, on what is
nested deeply or wrongly, the markup stays. It is what the tests compare with.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from schemas.errors import RecordError, RejectReason
from transforms.formats.wikitext_blocks import drop_blocks
from transforms.formats.wikitext_links import (
    EXTERNAL,
    MARKS,
    Prefixes,
    keep_labels,
    outside_links,
)

__all__ = ["to_prose"]

#: Four times what MediaWiki takes. Places of markup occupy many times what they are places of.
_MOST_CHARACTERS = 8 << 20

#: Elements that begin or end a line, or break one.
_BREAKS = re.compile(
    r"</?(?:br|p|div|blockquote|center|poem|li|ul|ol|dl|dd|dt|hr|tr|td|th|h[1-6])\b[^<>]*+>",
    re.IGNORECASE,
)
#: Any other element; "a < b" is none.
_TAG = re.compile(r"</?[a-zA-Z][^<>]*+>")

_HEADING = re.compile(r"=.*=")
_TABLE_ROW = re.compile(r"\||\{\||!(?=.*(?:!!|\|))|!\s*(?:scope|style|colspan|rowspan)\b")
_RULE = re.compile(r"-{4,}")
_LIST = "*#:;"

_QUOTES = re.compile(r"''+")
#: Never left in a document, be it spelled by entities: a model is to learn no markup.
_REMAINS = re.compile(
    r"\{\{+|\}\}+|\[\[+|\]\]+|\{\||\|\}|\|-+|</?ref(?:[^<>]*+>)?|\[(?:https?:)?//\S*+",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"\s+")

#: What templates and references leave behind: "( ; )", "(; born 1950)", "a , b".
_EMPTY = re.compile(r" ?(?:\([\s,;:/·–—-]*+\)|（[\s,;:/·–—、；，：-]*+）|\[[\s,;:]*+\])")
_AFTER_BRACKET = re.compile(r"([(（])[\s,;、；，]++")
_BEFORE_BRACKET = re.compile(r"[\s,;、；，]++([)）])")
_BEFORE_MARK = re.compile(r" +([,.])(?=\s|$)")

_WORD = re.compile(r"[^\W_]")
_SENTENCE_END = re.compile(r"[.!?…。！？｡।॥።؟۔։။።][\"'”’»›)\]）」』]*$")
#: An item of a list that ends in no mark is prose from so many characters on.
_LONG_ITEM = 80


def to_prose(text: str, *, prefixes: Prefixes) -> str:
    """The prose of a page; "" if it has none.

    Raises:
      RecordError: ``TOO_LONG``, a text that no wiki would take.
    """
    if len(text) > _MOST_CHARACTERS:
        detail = f"{len(text):,} characters of wikitext, more than {_MOST_CHARACTERS:,}"
        raise RecordError(RejectReason.TOO_LONG, detail)
    text = MARKS.sub("", text.replace("\r\n", "\n"))
    text = keep_labels(drop_blocks(text), prefixes=prefixes)
    text = _BREAKS.sub("\n\n", text)
    return "\n".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    paragraph: list[str] = []
    for raw in [*text.split("\n"), ""]:
        line = raw.strip()
        is_item = line[:1] in _LIST if line else False
        no_text = not line or _HEADING.fullmatch(line) or _TABLE_ROW.match(line)
        if not (is_item or no_text or _RULE.match(line)):
            paragraph.append(line)
            continue
        if paragraph:
            shown = _inline(" ".join(paragraph))
            paragraph = []
            if _WORD.search(shown):
                yield shown
        if is_item:
            shown = _item(line.lstrip(_LIST + " "))
            if shown:
                yield shown


def _item(line: str) -> str:
    """The item of a list, if it is prose; not of a list of links."""
    if line.startswith(EXTERNAL) or not _WORD.search(outside_links(line)):
        return ""
    shown = _inline(line)
    return shown if len(shown) >= _LONG_ITEM or _SENTENCE_END.search(shown) else ""


def _inline(text: str) -> str:
    """A paragraph without the markup of its words."""
    text = MARKS.sub("", text)
    if "<" in text:
        text = _TAG.sub("", text)
    if "''" in text:
        text = _QUOTES.sub(_apostrophes, text)
    if "&" in text:
        text = html.unescape(text)
    text = _BLANKS.sub(" ", _REMAINS.sub(" ", text))
    if "(" in text or "（" in text or "[" in text:
        text = _EMPTY.sub("", _EMPTY.sub("", text))
        text = _BEFORE_BRACKET.sub(r"\1", _AFTER_BRACKET.sub(r"\1", text))
    return _BEFORE_MARK.sub(r"\1", text).strip()


def _apostrophes(quotes: re.Match[str]) -> str:
    """Of two (italic), three (bold) or five (both) nothing is shown; any more are apostrophes."""
    count = len(quotes[0])
    return "'" if count == 4 else "'" * max(0, count - 5)
