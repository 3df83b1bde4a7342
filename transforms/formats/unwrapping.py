"""Hard-wrapped text to paragraphs: which line breaks are the typesetter's, and which the author's.

In a paragraph that was wrapped a line ends because the next word does not fit. So a block, the lines
between two blank ones, is joined if

* it is about as wide as the file, or has few lines that could tell otherwise,
* no line but the first is indented further than the others, nor all of these by far,
* of a block that is indented as a whole, some line but the first begins with a small letter,
* the first word of every line, but for one in eight, would not have fit on the line before.

All other blocks, verses, tables of contents, addresses, keep their lines.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

__all__ = ["is_hard_wrapped", "unwrap"]

_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
#: The width of a file: all but so many of its lines are no longer.
_WIDER = 0.05
#: A block that is narrower than this share of it is no paragraph: verse, an address.
_NARROW = 0.6
#: How much further the first line of a note or an entry may reach to the left.
_HANGING = 6
#: People who wrap by hand break a line some characters too early.
_SLACK = 5
#: One line in so many may break earlier still.
_MAY_BREAK_EARLY = 8
#: Blocks of fewer lines do not tell of a file, nor lines of fewer words: some writing has no spaces.
_TELLING_LINES, _TELLING_WORDS = 4, 4
#: How a sentence ends.
_SENTENCE_END = re.compile(r"[.!?…।॥۔؟።։。！？\u037e][\"'”’»›)\]」』]*$")
#: Letters that are written without spaces between words: kana, Chinese characters, full-width marks.
_NO_SPACES = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
#: Behind these the next line follows without a space: half of "well-known", a dash, which has none.
_OPEN_END = re.compile(r"[\w-]-$|.?—$", re.DOTALL)


def unwrap(text: str) -> Iterator[str]:
    """The lines of a text whose paragraphs were wrapped and have blank lines between them.

    A hyphen at the end of a line stays, and the next line is put right behind it: proofreaders take
    out the hyphens of the print, so that one which is left belongs to the word.
    """
    blocks = _blocks(text)
    width = _width(blocks)
    for block in blocks:
        if _is_wrapped(block, width):
            yield _joined(block)
        else:
            yield from map(str.strip, block)


def is_hard_wrapped(text: str) -> bool:
    """Whether most lines of a text are of wrapped paragraphs, and so no sentences.

    No where that cannot be told: blocks of few lines, lines of few words. And no where most lines end as
    sentences do: these may be all of one length.
    """
    blocks = _blocks(text)
    width = _width(blocks)
    lines = wrapped = ends = 0
    for block in blocks:
        words = sum(len(line.split()) for line in block)
        if len(block) >= _TELLING_LINES and words >= _TELLING_WORDS * len(block):
            lines += len(block)
            wrapped += len(block) * _is_wrapped(block, width)
            ends += sum(_SENTENCE_END.search(line) is not None for line in block)
    return 2 * wrapped > lines > 2 * ends


def _blocks(text: str) -> list[list[str]]:
    """The lines between two blank ones, for each such block."""
    blocks = [block.split("\n") for block in _BLANK.split(text.strip("\n")) if block.strip()]
    return [[line.rstrip() for line in block if line.strip()] for block in blocks]


def _width(blocks: list[list[str]]) -> int:
    lengths = sorted(len(line) for block in blocks for line in block)
    return lengths[int((1 - _WIDER) * (len(lengths) - 1))] if lengths else 0


def _is_wrapped(block: list[str], width: int) -> bool:
    """Whether the lines of a block are one paragraph."""
    if len(block) < 2:
        return False
    indents = [len(line) - len(line.lstrip()) for line in block]
    common = min(indents[1:])
    longest = max(map(len, block))
    if max(indents[1:]) > common or common > indents[0] + _HANGING or longest < _NARROW * width:
        return False
    if common and all(line.lstrip()[0].isupper() for line in block[1:]):
        return False
    early = 0
    for line, following in itertools.pairwise(block):
        word = following.split(maxsplit=1)[0]
        early += len(line) + 1 + len(word) <= longest - _SLACK
    return early <= (len(block) - 1) // _MAY_BREAK_EARLY


def _joined(block: list[str]) -> str:
    parts = [block[0]]
    for line in block[1:]:
        line, end = line.lstrip(), parts[-1][-2:]
        unspaced = _NO_SPACES.match(line) and _NO_SPACES.match(end[-1])
        parts += [line] if unspaced or _OPEN_END.match(end) else [" ", line]
    return " ".join("".join(parts).split())
