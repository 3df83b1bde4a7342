"""Takes out of wikitext what is no text: comments, references, templates, tables and the like.

Every step here is linear in the page, whatever its markup is: an end that is not there is never
looked for twice. What has a beginning without an end is dropped up to the end of its paragraph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from transforms.formats.wikitext_templates import show_words

__all__ = ["drop_blocks"]

_Span = tuple[int, int]

#: Comments, and what is between ``<nowiki>`` tags; an unclosed comment goes to the end of the page.
_LITERAL = re.compile(
    r"<!--.*?(?:-->|\Z)|<nowiki>((?:(?!<nowiki>|</nowiki>).)*+)</nowiki>|</?nowiki\s*/?>",
    re.DOTALL | re.IGNORECASE,
)
_MARKUP = str.maketrans({char: f"&#{ord(char)};" for char in "[]{}|'<>=*#:;_-!"})

#: Elements whose contents are no prose, or no text at all.
_ELEMENTS = re.compile(
    r"<(?P<end>/?)(?P<name>ref|references|gallery|math|chem|ce|timeline|score|syntaxhighlight"
    r"|source|pre|hiero|imagemap|graph|mapframe|maplink|inputbox|categorytree|templatedata"
    r"|templatestyles|includeonly|indicator|section|style|script)\b(?P<rest>[^<>]*+)>",
    re.IGNORECASE,
)

#: What nests: templates (three braces: a parameter), tables at the beginning of a line, HTML's tables.
_NESTING = re.compile(
    r"(?P<template>\{\{++)|(?P<template_end>\}\}++)"
    r"|^[ \t:*#]*+(?:(?P<table>\{\|)|(?P<table_end>\|\})(?!\}))"
    r"|(?P<html><table\b[^<>]*+>)|(?P<html_end></table\s*+>)",
    re.MULTILINE | re.IGNORECASE,
)

_PARAGRAPH_END = re.compile(r"\n(?=[\n=*#:;|{])")

#: Language variants: ``-{zh-hans:one; zh-hant:other}-``, ``-{kept as it is}-``, ``-{H|a rule}-``.
_VARIANTS = re.compile(r"-\{([^{}]*+)\}-")
_HIDES = re.compile(r"\s*[-+HT]\s*\|")
_FLAGS = re.compile(r"\s*[\w;-]{1,40}\|")
_FIRST_VARIANT = re.compile(r"\s*[a-z]{2,3}(?:-[a-z]+)*+\s*:([^;]*+)")

#: ``__NOTOC__`` and others, in any language; what has a small letter is none.
_SWITCHES = re.compile(r"__([^\W\d_]{2,30})__")


def drop_blocks(text: str) -> str:
    """Drops comments, elements, templates, tables and switches; keeps one of the variants.

    Args:
      text: of a page, with newlines for line ends.
    """
    if "<" in text:
        text = _LITERAL.sub(_literal, text)
        text = _without(text, _elements(text))
    text = show_words(text)
    text = _without(text, _nested(text))
    for _ in range(2):  # one in another
        if "-{" in text:
            text = _VARIANTS.sub(_variant, text)
    if "__" in text:
        text = _SWITCHES.sub(lambda match: "" if match[1] == match[1].upper() else match[0], text)
    return text


def _literal(match: re.Match[str]) -> str:
    return (match[1] or "").translate(_MARKUP)


def _without(text: str, spans: Iterable[_Span]) -> str:
    """The text without the spans, which may overlap."""
    parts, kept = [], 0
    for start, end in sorted(spans):
        if start > kept:
            parts.append(text[kept:start])
        kept = max(kept, end)
    parts.append(text[kept:])
    return "".join(parts)


def _paragraph_end(text: str, start: int, stop: int) -> int:
    found = _PARAGRAPH_END.search(text, start, stop)
    return found.start() if found else stop


def _elements(text: str) -> Iterator[_Span]:
    """The elements that are dropped, with their contents."""
    tags = _ELEMENTS.finditer
    last_end = {tag["name"].lower(): tag.start() for tag in tags(text) if tag["end"]}
    opened: re.Match[str] | None = None
    done = 0  # up to here everything is dropped already
    for tag in tags(text):
        name = tag["name"].lower()
        if tag["end"]:
            if opened is None:
                yield tag.span()
            elif name == opened["name"].lower():
                yield opened.start(), tag.end()
                opened = None
            continue
        if opened is not None:
            if name != opened["name"].lower() or tag["rest"].endswith("/"):
                continue  # inside of the other
            yield opened.start(), _paragraph_end(text, opened.end(), tag.start())
            opened = None
        if tag["rest"].endswith("/"):
            yield tag.span()
        elif last_end.get(name, -1) > tag.start():
            opened = tag
        elif tag.start() >= done:
            done = _paragraph_end(text, tag.end(), len(text))
            yield tag.start(), done


def _nested(text: str) -> Iterator[_Span]:
    """Templates and tables, however they are nested."""
    open_ones: list[tuple[str, int, int]] = []  # kind, start, braces
    how_many: Counter[str] = Counter()

    def close(kind: str) -> tuple[int, int]:
        """Start and braces of the innermost of the kind; others in it have no end."""
        while True:
            innermost, start, braces = open_ones.pop()
            how_many[innermost] -= 1
            if innermost == kind:
                return start, braces

    for match in _NESTING.finditer(text):
        token = match.lastgroup or ""
        kind = token.removesuffix("_end")
        start, end = match.span(token)
        if token == "template":
            for width in _widths(end - start):
                open_ones.append((kind, start, width))
                how_many[kind] += 1
                start += width
        elif token == "template_end":
            while end - start >= 2 and how_many[kind]:
                opened, braces = close(kind)
                start += min(braces, end - start)
                yield opened, start
        elif kind == token:
            open_ones.append((kind, start, 0))
            how_many[kind] += 1
        elif how_many[kind]:
            yield close(kind)[0], end
    done = 0
    for _, start, _ in open_ones:
        if start >= done:
            done = _paragraph_end(text, start, len(text))
            yield start, done


def _widths(braces: int) -> Iterator[int]:
    """A run of braces as twos, with a three at the end of an odd one, which is a parameter."""
    while braces > 3:
        yield 2
        braces -= 2
    yield braces


def _variant(match: re.Match[str]) -> str:
    inner = match[1]
    if _HIDES.match(inner):
        return ""
    flags = _FLAGS.match(inner)
    inner = inner[flags.end() :] if flags else inner
    first = _FIRST_VARIANT.match(inner)
    return first[1].strip() if first else inner
