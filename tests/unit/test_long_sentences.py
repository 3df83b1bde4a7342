"""Long sentences in parts: nothing is lost, no part is too long, and the cuts are where they should be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builds import VOCAB
from tests.small_tokenizers import save_tokenizer
from transforms.long_sentences import (
    CLAUSE,
    CLOSING,
    CONTINUES,
    DIGIT_FIRST,
    DIGIT_LAST,
    WIDE_CLAUSE,
    longest_part,
    split_long,
    table_of_marks,
)
from transforms.vocabulary import load_tokenizer

#: One token for each kind: its id, and how it is spelled below.
TOKENS = {
    "a": 0,
    "#": CONTINUES,
    ",": CLAUSE,
    "，": WIDE_CLAUSE,
    ")": CLOSING,
    "1": DIGIT_FIRST | DIGIT_LAST,
}
TABLE = np.array(list(TOKENS.values()), np.uint8)
NO_MARKS = np.zeros(0, np.uint8)


def split(sentences: list[str], *, max_tokens: int, max_part: int) -> list[list[str]]:
    """The parts of each sentence, a character a token."""
    ids = np.array([list(TOKENS).index(c) for s in sentences for c in s], np.uint16)
    bounds = np.cumsum([0, *map(len, sentences)])
    offsets, before = split_long(ids, bounds, NO_MARKS, TABLE, max_tokens, max_part)
    text = "".join(sentences)
    parts = [text[a:b] for a, b in itertools.pairwise(offsets)]
    return [parts[a:b] for a, b in itertools.pairwise(before)]


@settings(deadline=None)
@given(
    st.lists(st.text("".join(TOKENS), min_size=1, max_size=40), max_size=5),
    st.integers(1, 12),
    st.integers(1, 12),
)
@example(["a" * 40], 12, 12)
def test_the_parts_are_the_sentence_and_short_enough(sentences, max_tokens, max_part):
    found = split(sentences, max_tokens=max_tokens, max_part=max_part)
    assert ["".join(parts) for parts in found] == sentences
    for sentence, parts in zip(sentences, found, strict=True):
        if len(sentence) <= max_tokens:
            assert parts == [sentence]
        else:
            assert all(1 <= len(part) <= max_part for part in parts)


@settings(deadline=None)
@given(st.text("".join(TOKENS), min_size=1, max_size=60), st.integers(1, 9))
def test_every_cut_is_the_best_there_is(sentence, max_part):
    """At the last end of a clause that fits, else between words, else at the brim."""
    (parts,) = split([sentence], max_tokens=max_part, max_part=max_part)
    start = 0
    for part in parts[:-1]:
        fitting = range(start + 1, start + max_part + 1)
        clauses = [i for i in fitting if ends_clause(sentence, start, i)]
        words = [i for i in fitting if sentence[i] != "#"]
        assert start + len(part) == (clauses or words or [start + max_part])[-1]
        start += len(part)
    assert len(sentence) - start <= max_part


def ends_clause(text: str, start: int, i: int) -> bool:
    """Whether a part from ``start`` on may end before ``i`` as a clause."""
    if text[i] in ",，)":
        return False
    bare = text[start:i].rstrip(")")
    last = bare[-1:]
    if not bare:
        last = text[:i].rstrip(")")[-1:]
    if last == "，":
        return True
    number = text[i - 2 : i - 1] == "1" and i - 2 >= start and text[i] == "1"
    return last == "," and text[i] != "#" and not number


def test_numbers_and_words_stay_whole():
    assert split(["a1,1aaaa"], max_tokens=4, max_part=4) == [["a1,1", "aaaa"]]
    assert split(["aa,1aaaa"], max_tokens=4, max_part=4) == [["aa,", "1aaa", "a"]]
    assert split(["aa###aaa"], max_tokens=5, max_part=4) == [["a", "a###", "aaa"]]
    assert split(["a,,)aaaa"], max_tokens=5, max_part=5) == [["a,,)", "aaaa"]]


def test_marks_of_the_batches_come_before_the_table():
    ids, marks = np.zeros(6, np.uint16), np.array([0, 0, 1, 0, 1, 1], np.uint8)
    offsets, _ = split_long(ids, np.array([0, 6]), marks, TABLE, 5, 4)
    assert offsets.tolist() == [0, 3, 6]


@pytest.mark.parametrize("length", [8, 9, 64, 128, 512, 32768])
def test_several_parts_fit_into_a_row(length):
    assert 1 <= longest_part(length) <= max(1, (length - 3) // 2)


def test_what_the_tokens_of_vocabularies_are(tmp_path):
    vocabulary = load_tokenizer(str(VOCAB), do_lower_case=None)
    table = dict(zip(vocabulary.tokens, table_of_marks(vocabulary).tolist(), strict=True))
    assert (table[","], table["the"], table["[SEP]"]) == (CLAUSE, 0, 0)
    assert table["##s"] == CONTINUES
    assert table["1"] == DIGIT_FIRST | DIGIT_LAST
    for kind, mark in (("unigram", "▁"), ("bytelevel", "Ġ")):
        vocabulary = load_tokenizer(str(save_tokenizer(kind, tmp_path)), do_lower_case=None)
        table = dict(zip(vocabulary.tokens, table_of_marks(vocabulary).tolist(), strict=True))
        letters = [
            bits for token, bits in table.items() if token[0] == mark and ascii_word(token[1:])
        ]
        assert len(letters) > 100
        assert not any(letters)
        assert table[","] == CLAUSE | CONTINUES


def ascii_word(text: str) -> bool:
    return text.isascii() and text.isalpha()
