"""The ids that the reference's own tokenizer gives, through the project's encoder wherever that agrees.

google-research/bert, ``tokenization.py``: ``BasicTokenizer`` and ``WordpieceTokenizer``. The
``tokenizers`` library differs from it in three ways: it lower-cases after it has stripped accents,
character by character, so that a final capital sigma does not become a final small one; it drops
characters for private use, which the script keeps; and its tables of Unicode are not those of the
Python that would run the script. So text is lower-cased here, by Python, and every character is tried
once: a line that holds one on which the two disagree goes through a plain copy of the script's steps.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from schemas.arrow import id_dtype
from schemas.errors import ConfigError
from transforms.tokenization import Encoder
from transforms.vocabulary import SPECIAL_TOKENS, Vocabulary
from transforms.vocabulary_files import tokenizer_from_tokens

__all__ = ["ReferenceEncoder", "basic_words", "reference_vocabulary", "vocab_words"]

#: Around a character that is tried: alone in a word, twice, and among marks that NFD may reorder.
_CONTEXTS = ("a{0}b", "{0}", "a{0}{0} {0}b", "a\U0001d165{0}\u302e\u0301b")

#: Lower-cased by what stands beside it, so that it never takes the library's way.
_SIGMA = "\u03a3"

_CJK = re.compile(
    "([\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f])"
)


def reference_vocabulary(vocabulary: Vocabulary) -> Vocabulary:
    """The vocabulary with the script's tokenizer: words of up to 200 characters, for one.

    For a ``vocab.txt`` that is the tokenizer it has already.

    Raises:
      ConfigError: it is not BERT's kind of tokenizer, which the script has no other than.
    """
    parts = json.loads(vocabulary.tokenizer_json)
    model, normalizer = parts["model"], parts["normalizer"] or {}
    wordpiece = model.get("type") == "WordPiece" and model["continuing_subword_prefix"] == "##"
    berts = wordpiece and normalizer.get("type") == "BertNormalizer"
    if not berts or not {*SPECIAL_TOKENS} <= {*vocabulary.tokens}:
        raise ConfigError(
            "exact_reference",
            True,
            "needs a WordPiece vocabulary such as BERT's vocab.txt in --vocab_file",
        )
    tokenizer = tokenizer_from_tokens(vocabulary.tokens, lowercase=vocabulary.do_lower_case)
    serialized = tokenizer.to_str()
    return dataclasses.replace(
        vocabulary,
        tokenizer_json=serialized,
        digest=hashlib.sha256(serialized.encode()).hexdigest(),
    )


def vocab_words(vocabulary: Vocabulary) -> np.ndarray:
    """The ids of ``list(vocab.keys())``: every entry, the special ones too, in the file's order.

    An entry that is there twice stands at its first place with its last id, as in Python's dict.
    """
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    return np.fromiter(ids.values(), id_dtype(vocabulary.vocab_size), len(ids))


def basic_words(text: str, *, do_lower_case: bool) -> list[str]:
    """``BasicTokenizer.tokenize``."""
    cleaned = "".join(" " if _is_white(c) else c for c in text if not _is_dropped(c))
    words = []
    for word in _CJK.sub(r" \1 ", cleaned).split():
        if do_lower_case:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        words += "".join(f" {c} " if _is_punctuation(c) else c for c in word).split()
    return words


def _is_white(character: str) -> bool:
    return character in " \t\n\r" or unicodedata.category(character) == "Zs"


def _is_dropped(character: str) -> bool:
    if character in "\t\n\r":
        return False
    return character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf")


def _is_punctuation(character: str) -> bool:
    if character.isascii():
        return 32 < ord(character) < 127 and not character.isalnum()
    return unicodedata.category(character).startswith("P")


class ReferenceEncoder:
    """Ids of lines as the script has them. Not thread-safe.

    Args:
      vocabulary: of :func:`reference_vocabulary`.

    Attributes:
      slow_lines: how many lines have gone through the plain copy so far.
    """

    def __init__(self, vocabulary: Vocabulary):
        self.slow_lines = 0
        self._encoder = Encoder.of(vocabulary)
        self._tokenizer = vocabulary.tokenizer()
        self._lower = vocabulary.do_lower_case
        self._tried = set(map(chr, range(32, 127))) | {"\n", "\t", "\r"}
        self._disagree = {_SIGMA} if self._lower else set()
        self._tried |= self._disagree
        self._dtype = id_dtype(vocabulary.vocab_size)

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        r"""The ids of each of the lines that ``\n`` separates in ``text``.

        Returns:
          ids (uint16 or uint32, flat) and offsets (int64[lines + 1]).
        """
        characters = set(text)
        for character in characters - self._tried:
            self._tried.add(character)
            if not self._agree(character):
                self._disagree.add(character)
        lines = (text.lower() if self._lower else text).split("\n")
        odd = characters & self._disagree
        if not odd:
            return self._encoder.encode(pa.array(lines, pa.large_string()))
        search = re.compile("[" + "".join(map(re.escape, sorted(odd))) + "]").search
        slow = {i: line for i, line in enumerate(text.split("\n")) if search(line)}
        for i in slow:
            lines[i] = ""
        ids, offsets = self._encoder.encode(pa.array(lines, pa.large_string()))
        return self._with_slow(ids, offsets, {i: self._slowly(line) for i, line in slow.items()})

    def _agree(self, character: str) -> bool:
        """Whether the library finds the words that the script finds, wherever it stands."""
        for context in _CONTEXTS:
            text = context.format(character)
            given = text.lower() if self._lower else text
            normalized = self._tokenizer.normalizer.normalize_str(given)
            theirs = [
                word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(normalized)
            ]
            if theirs != basic_words(text, do_lower_case=self._lower):
                return False
        return True

    def _slowly(self, line: str) -> list[int]:
        self.slow_lines += 1
        words = basic_words(line, do_lower_case=self._lower)
        return [token.id for word in words for token in self._tokenizer.model.tokenize(word)]

    def _with_slow(
        self, ids: np.ndarray, offsets: np.ndarray, slow: dict[int, Sequence[int]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Puts the ids of the lines in ``slow``, which have none yet, where they belong."""
        parts, done = [], 0
        lengths = np.diff(offsets)
        for i, found in slow.items():
            parts += [ids[done : offsets[i]], np.array(found, self._dtype)]
            done = offsets[i]
            lengths[i] = len(found)
        return np.concatenate([*parts, ids[done:]]), np.append(0, np.cumsum(lengths))
