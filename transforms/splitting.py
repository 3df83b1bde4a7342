"""Cuts one text into sentences: sentencex, and the repairs that it needs. Plain strings, no Beam.

sentencex (>= 1.0.32) is the authority on where a sentence ends. Measured on gold treebanks, it is
worth repairing in what it is shown, never in its rules (``docs/design.md``, section 5):

* newlines end a sentence, and a long paragraph is shown in windows: its search for the word before
  a full stop runs back to the last white space, which is quadratic without any;
* full stops of Chinese and Japanese end a sentence, for the same reason;
* quote marks are blanked: it keeps a quoted passage whole, however many sentences it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import sentencex

from transforms.language_codes import base_language

__all__ = [
    "BLANKED_MARKS",
    "CLOSING_MARKS",
    "OPENING_MARKS",
    "WINDOW",
    "shown_pieces",
    "slice_original",
    "split_lines",
    "split_sentences",
]

#: Characters of a paragraph that sentencex is shown at once; longer paragraphs go in windows.
WINDOW = 8_000

#: Without any boundary a window grows up to this; then the text is cut whatever it is.
_LONGEST_SENTENCE = 4 * WINDOW

#: Quote marks, shown as a space each: nothing is left that could be taken for a quotation.
BLANKED_MARKS = '"“”‘„‟‚‛«»‹›`「」『』《》'

#: Shown as a hyphen, because blanking it makes words of one letter, which pass for abbreviations
#: ("lady s."), and because one in a text makes sentencex twice as slow.
_APOSTROPHE, _NO_QUOTE = "'", "-"

#: The marks that close a quotation and do not become white space.
CLOSING_MARKS = frozenset(_APOSTROPHE + "’")
_MARKS = CLOSING_MARKS | frozenset(BLANKED_MARKS)

#: Marks that open even where spaces stand on both sides (French).
OPENING_MARKS = frozenset("«‹“„‘「『《")

#: White space of several bytes before a full stop, shown as a space: behind an initial sentencex (1.0.32)
#: looks into the middle of it, and panics.
_WIDE_SPACES = "".join(c for c in map(chr, range(0x80, 0x3001)) if c.isspace())
_WIDE_SPACE_BEFORE_STOP = re.compile(rf"[{_WIDE_SPACES}](?=\.)")

#: What sentencex takes as the end of a paragraph.
_PARAGRAPH_END = "\n\n"

_WIDE_STOPS = "。！？｡"
_WIDE_SENTENCE_END = re.compile(f"[{_WIDE_STOPS}]+[”’\"'」』》）)】〉]*")


def split_lines(text: str) -> list[str]:
    """The lines of a text that has one sentence a line: stripped, without the blank ones."""
    return _stripped(text.split("\n"))


def split_sentences(text: str, *, language: str) -> list[str]:
    """Cuts a text into sentences, in time linear in its length.

    Args:
      text: any text; a newline always ends a sentence.
      language: an ISO 639-1 code, with or without a region ("de", "de-DE", "zh_CN"). One that
        sentencex does not know is split by its general rules.

    Returns:
      The sentences, stripped and not empty, in order: together they hold every character of the
      text that is not white space, once.
    """
    return slice_original(text, shown_pieces(text, language=language))


def shown_pieces(text: str, *, language: str) -> list[str]:
    """What sentencex cuts the text into where it sees no newlines and no quote marks.

    Returns:
      Pieces, as many characters as the text without its newlines, in order. The characters that
      were hidden are in the text; where its quotations end is for the caller to mind.
    """
    shown, code = _as_shown(text), base_language(language)
    if _has_long_paragraph(shown):
        return list(_windowed_pieces(shown, code))
    # It drops some separators of a long text, so that none of them says anything.
    return [piece for piece in sentencex.segment(code, shown) if piece != _PARAGRAPH_END]


def _as_shown(text: str) -> str:
    """The text as sentencex sees it: paragraphs separated, quote marks hidden, one for one."""
    shown = _PARAGRAPH_END.join(text.split("\n")).replace("\r", " ")
    if any(stop in shown for stop in _WIDE_STOPS):
        shown = _WIDE_SENTENCE_END.sub(rf"\g<0>{_PARAGRAPH_END}", shown)
    if not shown.isascii():
        shown = _WIDE_SPACE_BEFORE_STOP.sub(" ", shown)
    for mark in BLANKED_MARKS:
        shown = shown.replace(mark, " ")
    return shown.replace(_APOSTROPHE, _NO_QUOTE)


def _has_long_paragraph(shown: str) -> bool:
    """Whether a paragraph has more than WINDOW characters, looking at a few of them."""
    start = 0
    while len(shown) - start > WINDOW:
        start = shown.rfind("\n", start, start + WINDOW + 1) + 1
        if not start:
            return True
    return False


def _windowed_pieces(shown: str, language: str) -> Iterator[str]:
    for paragraph in shown.split("\n"):
        if len(paragraph) <= WINDOW:
            yield from sentencex.segment(language, paragraph)
        else:
            yield from _paragraph_pieces(paragraph, language)


def _paragraph_pieces(paragraph: str, language: str) -> Iterator[str]:
    """Cuts a long paragraph a window at a time.

    A window's last sentence may go on behind it: it is dropped, and the next window starts there.
    """
    start, size = 0, WINDOW
    while start + size < len(paragraph):
        window = paragraph[start : start + size]
        kept = sentencex.segment(language, window)[:-1]
        if not kept and size < _LONGEST_SENTENCE:
            size *= 2
            continue
        if not kept:
            kept = [window[: window.rfind(" ") + 1] or window]
        yield from kept
        start += sum(map(len, kept))
        size = WINDOW
    yield from sentencex.segment(language, paragraph[start:])


def slice_original(text: str, pieces: Iterable[str]) -> list[str]:
    """Slices the text where the pieces of its shown form end, marks with the sentence they quote.

    ``transforms.slicing`` does the same to a batch, compiled: a change here is one there.

    Raises:
      RuntimeError: the pieces are not as long as the text: sentencex lost or added characters.
    """
    sentences = []
    start = end = 0
    for piece in pieces:
        if text[end : end + 1] == "\n":
            sentences.append(text[start:end])
            while text[end : end + 1] == "\n":
                end += 1
            start = end
        end += len(piece)
        cut = _cut(text, start, end)
        if cut > start:
            sentences.append(text[start:cut])
            start = cut
    if end > len(text) or text[end:].strip("\n"):
        raise RuntimeError(f"the splitter returned {end} of {len(text)} characters")
    return _stripped([*sentences, text[start:]])


def _stripped(sentences: Iterable[str]) -> list[str]:
    return [sentence for sentence in map(str.strip, sentences) if sentence]


def _cut(text: str, start: int, end: int) -> int:
    """Where to cut for a boundary at ``end``; marks beside it move it, since sentencex saw none.

    Returns:
      ``start`` or less where not to cut: the sentence goes on after the quotation.
    """
    if end <= start or text[end : end + 1] in ("", "\n"):
        return end
    if _MARKS.isdisjoint(text[max(end - 2, start) : end]) and text[end] not in CLOSING_MARKS:
        return end
    cut = end
    while text[cut : cut + 1] in CLOSING_MARKS and (
        not text[cut - 1].isspace() or text[cut + 1 : cut + 2].isspace()
    ):
        cut += 1  # `keep.|' And`
    if cut == end:
        while cut > start and text[cut - 1] in _MARKS:
            cut -= 1  # `said. "|Go.` opens the next sentence
        if cut == start or not text[cut - 1].isspace():
            cut = end  # `said."|Go` is glued to the full stop and closes
        elif cut == end >= start + 3 and text[end - 3].isspace() and text[end - 2] in OPENING_MARKS:
            cut = end - 2  # `dit. « |Bonjour`
    return start if _goes_on(text, start, cut) else cut


def _goes_on(text: str, start: int, cut: int) -> bool:
    """Whether a quotation ends before the cut and a small letter follows: `"Hello!" |he said.`"""
    quoted = cut
    while quoted > start and text[quoted - 1].isspace():
        quoted -= 1
    follower = cut
    while text[follower : follower + 1] == " ":
        follower += 1
    small = text[follower : follower + 1].islower() and text[follower] <= "\uffff"
    return small and quoted > start and text[quoted - 1] in _MARKS
