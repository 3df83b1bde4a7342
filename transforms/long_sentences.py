"""Sentences that no row has room for, in parts: at a clause's end, else between words, else anywhere.

The reference cuts a segment that is too long down to the row, pass after pass, so that what is far from
its middle is in no example. Here it becomes several sentences before pairs are planned, of each length for
itself. A part is no longer than :func:`longest_part`, and all parts together are the sentence.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import njit

from transforms.vocabulary import Vocabulary

__all__ = [
    "CLAUSE",
    "CLOSING",
    "CONTINUES",
    "DIGIT_FIRST",
    "DIGIT_LAST",
    "WIDE_CLAUSE",
    "longest_part",
    "split_long",
    "table_of_marks",
]

#: Bits of a token: it ends a clause where a space may follow, or in a script without spaces; it closes
#: a quotation or a bracket; its first or last character is a digit; it continues a word.
CLAUSE, WIDE_CLAUSE, CLOSING, DIGIT_FIRST, DIGIT_LAST, CONTINUES = 1, 2, 4, 8, 16, 32

#: Ends of sentences are among them: where no splitter has looked, a paragraph may be one "sentence".
_CLAUSE_MARKS = frozenset(",;:.!?…—–،؛؟۔।॥։፣።၊။།។")
_WIDE_CLAUSE_MARKS = frozenset("，、；：。！？｡､")
#: Straight quotes are not among them: they open as often.
_CLOSING_MARKS = "”’»›)]}」』】）〉》"


def longest_part(max_seq_length: int) -> int:
    """Tokens of a part at most, for rows of that length.

    A third of what a row has room for: measured, the share of a text that is in no example falls as
    parts get shorter, and hardly any more from here on (``docs/design.md``, section 3).
    """
    return max(1, (max_seq_length - 3) // 3)


@functools.lru_cache(maxsize=2)
def table_of_marks(vocabulary: Vocabulary) -> np.ndarray:
    """uint8[vocabulary]: the bits of each token. Special tokens have none."""
    table = np.where(vocabulary.is_subword, CONTINUES, 0).astype(np.uint8)
    special = set(vocabulary.special_ids)
    for i, token in enumerate(vocabulary.tokens):
        if i not in special:
            table[i] |= _bits(vocabulary.word_marks.text(token).strip())
    return table


def _bits(text: str) -> int:
    if "\\x" in text:  # bytes of a character that other tokens complete
        return 0
    inner = text.rstrip(_CLOSING_MARKS)
    if not inner:
        return CLOSING if text else 0
    return (
        CLAUSE * (inner[-1] in _CLAUSE_MARKS)
        | WIDE_CLAUSE * (inner[-1] in _WIDE_CLAUSE_MARKS)
        | DIGIT_FIRST * text[0].isdigit()
        | DIGIT_LAST * text[-1].isdigit()
    )


@njit(cache=True, nogil=True)
def split_long(ids, sentence_offsets, continues_word, table, max_tokens, max_part):  # type: ignore[no-untyped-def]
    """Splits sentences of more than ``max_tokens`` tokens into parts of at most ``max_part``.

    Args:
      ids: uint16 or uint32[tokens].
      sentence_offsets: int64[sentences + 1], into ``ids``.
      continues_word: uint8[tokens]; empty where the table tells it.
      table: uint8[vocabulary], :func:`table_of_marks`.
      max_tokens, max_part: at least 1.

    Returns:
      int64[parts + 1], offsets into ``ids``, whole sentences being a part each; int64[sentences + 1],
      how many parts come before each sentence.
    """
    sentences = len(sentence_offsets) - 1
    before = np.zeros(sentences + 1, np.int64)
    # A part is never empty.
    offsets = np.empty(len(ids) + 1, np.int64)
    offsets[0] = 0
    n = 0
    for s in range(sentences):
        start, end = sentence_offsets[s], sentence_offsets[s + 1]
        if end - start > max_tokens:
            n = _cut(ids, start, end, continues_word, table, max_part, offsets, n)
        n += 1
        offsets[n] = end
        before[s + 1] = n
    return offsets[: n + 1].copy(), before


@njit(cache=True, nogil=True)
def _cut(ids, start, end, continues_word, table, max_part, offsets, n):  # type: ignore[no-untyped-def]
    """Notes where a sentence is cut, each time as late as may be. Returns the number of parts so far."""
    clause, word = start, start
    ended = wide = False
    for t in range(start, end):
        # Here ``start`` to ``t`` fit; whether a part may end after ``t`` is decided by the next token.
        mark = table[ids[t]]
        if not mark & CLOSING:
            ended, wide = mark & CLAUSE != 0, mark & WIDE_CLAUSE != 0
        if t + 1 == end:
            break
        following = table[ids[t + 1]]
        joined = continues_word[t + 1] != 0 if len(continues_word) else following & CONTINUES != 0
        if not joined:
            word = t + 1
        number = (
            t > start and table[ids[t - 1]] & DIGIT_LAST and following & DIGIT_FIRST and not wide
        )
        if following & (CLAUSE | WIDE_CLAUSE | CLOSING):
            pass  # `?!`, `.)`: the clause ends later
        elif wide or (ended and not joined and not number):
            clause = t + 1
        if t + 1 - start == max_part:
            cut = clause if clause > start else word if word > start else t + 1
            n += 1
            offsets[n] = start = cut
            # What was seen behind the cut was no clause, or it would be the cut.
            clause = cut
            word = max(word, cut)
    return n
