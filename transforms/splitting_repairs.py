"""What ``--sentence_splitter best`` mends in the pieces of a library; no other splitter is touched.

Rules that hold for a language in general, each of which was measured by itself (``docs/design.md``,
section 5). A boundary is undone, moved or added; none is put across a newline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

__all__ = ["mend"]

#: A number or letter that counts what comes after it: ``1.``, ``(a)``, ``IV.``
_NUMBER = re.compile(r"\s*[(\[]?(\d{1,3}|[A-Za-z]|[IVXivx]{1,5})[.)]\s*")
_LONGEST_HELD = 12

_EYES, _MOUTH = ":;=", r"['^]?-?(?:[()\[\]|/\\*]+|[DPpOo])"
#: What comes behind the end of a sentence and is still its own: an emoticon, or a full stop, with or
#: without quote marks. A comma or semicolon says that there is no end.
_TRAILS = re.compile(
    rf"[^\S\n]*(?:[{_EYES}]{_MOUTH}|[\"'”’»`]{{0,3}}(?:[.!?](?![.\w])|(?P<goes_on>[,;])))(?:[^\S\n]+|$)",
    re.MULTILINE,
)
_MAY_TRAIL = frozenset(":;=.,!?\"'”’»`")

#: Where a small letter goes on in Russian: behind a word of three letters at most, which is an
#: abbreviation (`25 фр. и`).
_AFTER_SHORT_WORD = re.compile(r"(?<!\w)[а-яё]{1,3}\.\s*\Z")
_OPENING = re.compile(r"[^\S\n]*[(\[]?")

#: Where letters are written with spaces no sentence begins without one: `news.asp?id=3`, `Example.Com`.
_GLUED = re.compile(r"[.!?][A-Za-z0-9/]")

_CAPITAL = "A-ZÀ-ÖØ-ÞĀ-ŽА-ЯЁ"
_OPENS = "\"“«„‘'(`"
# Each begins with one character that is rare, and is searched for fast.
_RUNS_OF_MARKS = [
    re.compile(rf"{mark}(?<![!?].)[!?]+[^\S\n]+(?=[{_OPENS}]*[^\W_])") for mark in ("!", r"\?")
]
_CLOSED_SENTENCE = re.compile(
    rf"\)(?:(?<=[.!?]\))|(?<=[.!?][\"”»]\)))[^\S\n]+(?=[{_OPENS}]*[{_CAPITAL}])"
)
_LONGEST_BRACKET = 1000
_EMOTICONS_BETWEEN = [
    re.compile(rf"{eyes}(?<=\s.){_MOUTH}[^\S\n]+(?=[{_OPENS}]*[{_CAPITAL}])") for eyes in _EYES
]

#: Words that have a capital at a sentence's beginning only: behind a semicolon one is begun.
_FIRST_WORDS = {
    "fr": "Le La Les Un Une Des De Du En Au Aux À Il Elle Ils Elles On Je Tu Nous Vous Ce Cet Cette Ces "
    "Son Sa Ses Leur Leurs Dans Par Pour Sur Avec Sans Sous Mais Et Ou Si Que Qui",
    "de": "Der Die Das Ein Eine Er Sie Es Wir Ihr Ich Im In Am An Auf Aus Bei Mit Nach Von Vor Zu Zum Zur "
    "Für Und Oder Aber Wenn Dass Dies Diese Dieser Dieses",
}
_SHORTENED = {"fr": "|(?:[LDJCSNM]|Qu)['’]"}
_BEGINS_BEHIND_SEMICOLON = {
    code: re.compile(
        rf";[^\S\n]+(?=(?:(?:{'|'.join(words.split())})(?!\w){_SHORTENED.get(code, '')}))"
    )
    for code, words in _FIRST_WORDS.items()
}
#: Ends an enumeration, and with a capital behind it a sentence: "and so on".
_AND_SO_ON = re.compile(rf"и (?:т\. ?[дп]|др|пр)\.[^\S\n]+(?=[{_OPENS}]*[{_CAPITAL}])")


def mend(text: str, pieces: Iterable[str], *, language: str) -> list[str]:
    """Undoes, moves and adds boundaries.

    Args:
      text: what was split.
      pieces: of the text without its newlines; one ends at each newline.
      language: a code without region.

    Returns:
      The same characters in pieces of the same kind.
    """
    cuts = list(_kept(text, pieces, language))
    added = set(_added(text, language))
    if added:
        cuts = sorted(added.union(cuts))
    found = []
    start = 0
    for cut in cuts:
        while text[start] == "\n":
            start += 1
        found.append(text[start:cut])
        start = cut
    return found


def _kept(text: str, pieces: Iterable[str], language: str) -> Iterator[int]:
    """Where the pieces end, without what is undone, and moved."""
    end = last = 0
    held = False
    size = len(text)
    for piece in pieces:
        while end < size and text[end] == "\n":
            end += 1
        end += len(piece)
        cut = end
        if end < size and (first := text[end]) != "\n":
            if len(piece) <= _LONGEST_HELD and not held and _NUMBER.fullmatch(piece):
                held = True
                continue
            # Nearly all are between a space and a capital.
            if not ("A" <= first <= "Z" and text[end - 1] == " "):
                cut = _cut(text, end, language)
        held = False
        if cut > last:
            yield cut
            last = cut


def _cut(text: str, end: int, language: str) -> int:
    """Where a boundary at ``end``, inside of a line, comes to be; 0 if nowhere."""
    head = _OPENING.match(text, end)
    assert head is not None
    first = text[head.end() : head.end() + 1]
    if first in _MAY_TRAIL and (trail := _TRAILS.match(text, end)):
        return 0 if trail["goes_on"] else trail.end()
    if _GLUED.match(text, end - 1):
        return 0
    goes_on = language == "ru" and first.islower()
    return 0 if goes_on and _AFTER_SHORT_WORD.search(text, max(0, end - 12), end) else end


def _added(text: str, language: str) -> Iterator[int]:
    """Where sentences begin that a library does not see."""
    for pattern in (*_RUNS_OF_MARKS, *_EMOTICONS_BETWEEN):
        yield from (match.end() for match in pattern.finditer(text))
    yield from _behind_brackets(text)
    if language in _BEGINS_BEHIND_SEMICOLON:
        begins = _BEGINS_BEHIND_SEMICOLON[language]
        yield from (match.end() for match in begins.finditer(text))
    if language == "ru":
        yield from (match.end() for match in _AND_SO_ON.finditer(text))


def _behind_brackets(text: str) -> Iterator[int]:
    """Behind a sentence in brackets, which begin where a sentence does: `He left. (Applause.) Then`"""
    for match in _CLOSED_SENTENCE.finditer(text):
        opened = text.rfind("(", max(0, match.start() - _LONGEST_BRACKET), match.start())
        if opened < 0 or "\n" in text[opened : match.start()]:
            continue
        before = text[max(0, opened - 4) : opened].rstrip(" \"”'’)")
        if not before or before[-1] in ".!?…\n":
            yield match.end()
