"""The main text of a web page, a paragraph a line, by resiliparse.

Menus, lists of links, forms and the like are left out by its rules, which look at the names and the
places of elements; the text of a page depends on its version.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import re
from collections import Counter

from schemas.errors import RecordError, RejectReason
from transforms.formats.encodings import mark_of
from transforms.language_codes import one_language

__all__ = ["decode_page", "main_text"]

_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';,>]+)""", re.IGNORECASE)
_META = re.compile(
    rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([^\s"'/;>]+)"""
    + rb"""|<\?xml[^>]*?encoding=["']([^"']+)""",
    re.IGNORECASE,
)
#: Browsers look at the first 1,024 bytes; some pages say it later.
_META_BYTES = 8192
_DETECT_BYTES = 64 << 10
#: An encoding that a page names is believed while at most so many of its bytes beyond ASCII do not fit.
_MAX_WRONG = 0.1
#: Python's codecs that know more characters than those that the WHATWG's names are mapped to.
_WIDER = {
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "gbk": "gb18030",
    "iso8859-11": "cp874",
    "utf-16": "utf-8",  # what names its encoding in ASCII is not UTF-16
    "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}
#: Japanese in seven bits (ISO-2022-JP) would pass for UTF-8.
_ESCAPE = b"\x1b$"
_BEYOND_ASCII = bytes(range(128, 256))

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
#: Elements that have no end, or end by themselves where the next one begins.
_NO_END = "area base br col embed hr img input link meta param source track wbr"
_IMPLIED_END = "html head body p li dt dd option optgroup tr td th thead tbody tfoot colgroup rp rt"
_NOT_NESTED = frozenset(f"{_NO_END} {_IMPLIED_END}".split())
#: The sum over all tags of how deep they are. The extraction takes some 0.07 us for each of them.
_MAX_DEPTHS = 20_000_000
#: Reading a tag takes quadratic time in its attributes.
_MANY_ATTRIBUTES = re.compile(
    r"""<[a-zA-Z][^\s/>]*+(?:[\s/]++[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"']*+))?+){1001}"""
)


def decode_page(body: bytes, *, content_type: str = "") -> str:
    """The page as text.

    By its byte order mark; else by the encoding that the HTTP header names, or the page itself; else by
    what its bytes look like. A name under which more than a tenth of the bytes beyond ASCII make no
    sense is not believed.

    Args:
      body: the page.
      content_type: the HTTP header's field.
    """
    if marked := mark_of(body):
        return body[len(marked[0]) :].decode(marked[1], "replace")
    header = _CHARSET.search(content_type)
    meta = _META.search(body, 0, _META_BYTES)
    names = [header[1]] if header else []
    names += [(meta[1] or meta[2]).decode("latin-1")] if meta else []
    beyond_ascii = len(body) - len(body.translate(None, _BEYOND_ASCII))
    for name in names:
        codec = _codec(name)
        if codec is not None:
            text = body.decode(codec, "replace")
            if text.count("�") <= _MAX_WRONG * beyond_ascii:
                return text
    return body.decode(_detected(body), "replace")


def _detected(body: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding

    if _ESCAPE not in body:
        with contextlib.suppress(UnicodeDecodeError):
            body.decode()
            return "utf-8"
    name = detect_encoding(body, max_len=_DETECT_BYTES, html5_compatible=False)
    try:  # the detector knows some that Python does not
        return codecs.lookup(_codec(name) or name).name if name else "utf-8"
    except LookupError:
        return "utf-8"


@functools.lru_cache(256)
def _codec(name: str) -> str | None:
    """Python's codec for a name that pages use; None for one that nobody knows."""
    from resiliparse.parse.encoding import map_encoding_to_html5

    known = map_encoding_to_html5(name, fallback_utf8=False)
    return _WIDER.get(known.lower(), known) if known else None


def main_text(page: str) -> tuple[str, str | None]:
    """The main text, a paragraph a line, and the language that the page says it has.

    Returns:
      The text, empty if there is none, and an ISO 639-1 code or None.

    Raises:
      RecordError: ``TOO_COMPLEX``.
    """
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    _refuse_bombs(page)
    tree = HTMLTree.parse(page)
    text = extract_plain_text(
        tree, preserve_formatting=True, main_content=True, list_bullets=False, alt_texts=False
    )
    lines = (" ".join(line.split()) for line in text.split("\n"))
    root = tree.document.query_selector("html") if tree.document else None
    language = one_language(root.getattr("lang") or "") if root else None
    return "\n".join(line for line in lines if line), language


def _refuse_bombs(page: str) -> None:
    """Refuse what would take quadratic time.

    Raises:
      RecordError: ``TOO_COMPLEX``.
    """
    if _MANY_ATTRIBUTES.search(page):
        raise RecordError(RejectReason.TOO_COMPLEX, "a tag with more than 1,000 attributes")
    if page.count("<") ** 2 <= 2 * _MAX_DEPTHS:
        return
    depth = depths = 0
    open_tags: Counter[str] = Counter()
    for match in _TAG.finditer(page):
        name = match[2].lower()
        if name in _NOT_NESTED:
            depths += depth
        elif not match[1]:
            open_tags[name] += 1
            depth += 1
            depths += depth
        elif open_tags[name]:
            open_tags[name] -= 1
            depth -= 1
        if depths > _MAX_DEPTHS:
            detail = f"{depth:,} elements are open at character {match.start():,}"
            raise RecordError(RejectReason.TOO_COMPLEX, detail)
