"""The libraries that find sentences, behind one function: a text and its language in, pieces out.

``--sentence_splitter`` names one, or ``best``: for each language the one that found most on gold treebanks
(``docs/design.md``, section 5). Which one it is depends on the name and the language alone, never on what
is installed: a package that is missing is an error. None of them is loaded before there is text to split:
the configuration knows splitters by what is here.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from types import MappingProxyType

from schemas.errors import ConfigError
from transforms.language_codes import base_language
from transforms.splitting_repairs import mend

__all__ = [
    "BEST",
    "SPLITTERS",
    "pieces_of",
    "require_splitter",
    "split_text",
    "version_of_splitter",
]

#: The values of ``--sentence_splitter``; none takes every line as a sentence.
SPLITTERS = ("sentencex", "best", "srx", "crfcut", "none")

#: What ``best`` takes for a language, sentencex for all others; a number is joined to what it counts.
BEST: Mapping[str, str] = MappingProxyType(
    {"ar": "srx", "de": "srx", "fr": "srx", "ru": "srx", "th": "crfcut"}
)

#: Of a splitter: the modules that have to be there, the package it is of, and our extra.
_NEEDED = {
    "srx": (("choppa",), "choppa-srx", "sentences"),
    "crfcut": (("pycrfsuite", "pythainlp"), "pythainlp", "thai"),
}

#: How much of a paragraph a library is shown: its time may grow with a power of that.
_CHARACTERS, _STOPS = 8_000, 32
#: And how much more where it finds no boundary: then the text is cut there.
_GROWN_CHARACTERS, _GROWN_STOPS = 32_000, 64

#: A full stop or colon with a space after it. LanguageTool's rules about brackets take time that grows
#: with the fourth power of how many there are.
_STOP = re.compile(r"[.:]\s")
#: Dots that lead to a page number.
_LEADERS = re.compile(r"(?:[.:][ \t\xa0]){4,}")


def split_text(text: str, *, language: str, sentence_splitter: str) -> list[str]:
    """The sentences of a text, see ``transforms.splitting.split_sentences``."""
    from transforms.splitting import slice_original, split_lines

    if sentence_splitter == "none":
        return split_lines(text)
    pieces = pieces_of(text, language=language, sentence_splitter=sentence_splitter)
    return slice_original(text, pieces)


def pieces_of(text: str, *, language: str, sentence_splitter: str) -> list[str]:
    """What a splitter cuts a text into.

    Args:
      text: any text; a newline always ends a sentence.
      language: an ISO 639-1 code, with or without a region.
      sentence_splitter: one of :data:`SPLITTERS` but ``none``.

    Returns:
      As ``transforms.splitting.shown_pieces``: as many characters as the text without its newlines.

    Raises:
      ConfigError: its package is not installed.
    """
    code = base_language(language)
    asked = sentence_splitter
    name = BEST.get(code, "sentencex") if asked == "best" else asked
    if name == "srx":
        pieces = _by_lines(text, _load_srx(code, asked))
    elif name == "crfcut":
        pieces = _by_lines(text, _load_crfcut(asked))
    else:
        from transforms.splitting import shown_pieces

        pieces = shown_pieces(text, language=code)
    return mend(text, pieces, language=code) if asked == "best" else pieces


def require_splitter(name: str, *, language: str) -> None:
    """See that what ``--sentence_splitter`` names can be loaded; sentencex and none always can.

    Args:
      name: one of :data:`SPLITTERS`.
      language: of the records that do not name their own; another one's package is asked for when
        there is such a record.

    Raises:
      ConfigError: a package is not installed.
    """
    for each in _used(name, base_language(language)):
        modules, _, extra = _NEEDED[each]
        if not _installed(modules):
            raise ConfigError(
                "sentence_splitter",
                name,
                f'needs a package that is not installed: pip install "bert-data[{extra}]"',
            )


def version_of_splitter(name: str) -> str | None:
    """Names and versions of what a splitter uses beside sentencex; None where that is nothing.

    Of ``best``, all that is installed: which of it was used is for the languages to say.
    """
    named = _NEEDED if name == "best" else [each for each in _NEEDED if each == name]
    found = [
        f"{package} {metadata.version(package)}"
        for modules, package, _ in map(_NEEDED.__getitem__, named)
        if _installed(modules)
    ]
    return ", ".join(found) or None


def _installed(modules: Iterable[str]) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


def _used(name: str, code: str) -> Iterator[str]:
    if name in _NEEDED:
        yield name
    if name == "best":
        yield "srx"
        if BEST.get(code) == "crfcut":
            yield "crfcut"


@functools.lru_cache(maxsize=64)
def _load_srx(code: str, asked: str) -> Callable[[str], list[str]]:
    """LanguageTool's rules for a language; ``asked`` is what the user calls them, srx or best."""
    require_splitter(asked, language=code)
    from choppa import SrxTextIterator

    def segment(text: str) -> list[str]:
        shown = _LEADERS.sub(_without_stops, text)
        return [str(piece) for piece in SrxTextIterator(_srx_rules(), f"{code}_one", shown)]

    return segment


@functools.cache
def _srx_rules() -> object:
    from choppa import DEFAULT_SRX_RULESET, SrxDocument

    return SrxDocument(ruleset=DEFAULT_SRX_RULESET)


def _without_stops(leaders: re.Match[str]) -> str:
    return leaders[0].replace(".", "-").replace(":", "-")


@functools.cache
def _load_crfcut(asked: str) -> Callable[[str], list[str]]:
    """pythainlp's; its model is in the package, and nothing is looked for elsewhere."""
    require_splitter(asked, language="th")
    os.environ.setdefault("PYTHAINLP_OFFLINE", "1")
    os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")  # else it makes a folder in the user's home
    from pythainlp.tokenize.crfcut import segment

    def segmented(text: str) -> list[str]:
        return segment(text) if text else []

    return segmented


def _by_lines(text: str, segment: Callable[[str], list[str]]) -> list[str]:
    """The pieces of each line, from windows of it."""
    found: list[str] = []
    for line in text.replace("\r", " ").split("\n"):
        found += _windowed(line, segment)
    return found


def _windowed(line: str, segment: Callable[[str], list[str]]) -> Iterator[str]:
    """Cuts a line a window at a time; the last sentence of a window may go on behind it."""
    stops = [match.end() for match in _STOP.finditer(line)]
    start = passed = 0
    while start < len(line):
        end = _window(line, stops, start, passed, _CHARACTERS, _STOPS)
        kept = _lossless(line[start:end], segment)
        if end < len(line):
            kept = kept[:-1]
            # A little of it is as bad as nothing: it would be shown again and again.
            if 4 * sum(map(len, kept)) < end - start:
                end = _window(line, stops, start, passed, _GROWN_CHARACTERS, _GROWN_STOPS)
                if end < len(line):
                    end = line.rfind(" ", start, end) + 1 or end
                kept = _lossless(line[start:end], segment)
        yield from kept
        start += sum(map(len, kept))
        while passed < len(stops) and stops[passed] <= start:
            passed += 1


def _lossless(window: str, segment: Callable[[str], list[str]]) -> list[str]:
    """The pieces of a window, or all of it as one where a library leaves out or adds characters."""
    pieces = segment(window)
    return pieces if sum(map(len, pieces)) == len(window) else [window]


def _window(
    line: str, stops: list[int], start: int, passed: int, characters: int, count: int
) -> int:
    """Where a window from ``start`` on ends, ``passed`` being the first stop behind it."""
    end = min(len(line), start + characters)
    if passed + count < len(stops):
        end = min(end, stops[passed + count])
    return end
