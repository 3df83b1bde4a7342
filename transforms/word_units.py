"""What a unit of text is for a tokenizer, and whether it may be tokenized by itself.

A unit is a maximal run of bytes between ASCII white space, except that every ASCII punctuation
character and every *isolated* character is a unit of its own. Only questions to a tokenizer live
here; :mod:`transforms.word_scan` cuts text into units.
"""

from __future__ import annotations

import json
import unicodedata

import numpy as np
from tokenizers import Tokenizer

from transforms.word_scan import ID_BITS, LEAD, PUNCTUATION, SPACE, WORD

__all__ = [
    "CHINESE_BLOCKS",
    "byte_classes",
    "has_word_property",
    "isolated_characters",
    "word_property_obstacle",
]

#: The characters that BertNormalizer sets apart (``is_chinese_char`` in the library; its third
#: range of extensions is not the one in BERT's own code).
CHINESE_BLOCKS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)

#: Where non-ASCII punctuation and spaces are looked for; elsewhere they stay inside units.
_PUNCTUATION_BLOCKS = ((0x80, 0x3100), (0xFE10, 0x10000))

_ADDED_TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def word_property_obstacle(tokenizer_json: str) -> str | None:
    """Why the ids of a text are not the ids of its units one after another; None if they are."""
    parts = json.loads(tokenizer_json)
    model, normalizer, pre_tokenizer = (
        parts[name] or {} for name in ("model", "normalizer", "pre_tokenizer")
    )
    if normalizer.get("type") != "BertNormalizer":
        return f"its normalizer is {normalizer.get('type')}, not BertNormalizer"
    if pre_tokenizer.get("type") != "BertPreTokenizer":
        return f"its pre-tokenizer is {pre_tokenizer.get('type')}, not BertPreTokenizer"
    if model.get("type") != "WordPiece" or model["continuing_subword_prefix"] != "##":
        return f"its model is {model.get('type')}, not WordPiece with the prefix ##"
    if max(model["vocab"].values()) >= 1 << ID_BITS:
        return f"it has ids of more than {ID_BITS} bits"
    for token in parts["added_tokens"]:
        if not token["special"]:
            return f"{token['content']!r} is an added token that is not special"
        if any(token[flag] for flag in _ADDED_TOKEN_FLAGS):
            return f"{token['content']!r} is an added token with flags"
    return None


def has_word_property(tokenizer_json: str) -> bool:
    """Whether the ids of a text are the ids of its units, one after another."""
    return word_property_obstacle(tokenizer_json) is None


def isolated_characters(tokenizer: Tokenizer, *, chinese: bool) -> np.ndarray:
    """uint8 [code points]: 1 for non-ASCII characters that may be units of their own.

    Chinese ones by the library's ranges. For punctuation and spaces the library itself is asked
    whether they stand alone between two letters. They are starters in Unicode's sense, so no
    combining mark is reordered across them.
    """
    isolated = np.zeros(0x30000, np.uint8)
    for first, last in CHINESE_BLOCKS:
        isolated[first : last + 1] = chinese

    def pieces(text: str) -> list[str]:
        text = tokenizer.normalizer.normalize_str(text)
        return [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    for block in _PUNCTUATION_BLOCKS:
        for point in range(*block):
            character = chr(point)
            if unicodedata.category(character)[0] in "PZ":
                isolated[point] = pieces(f"a{character}b") == ["a", *pieces(character), "b"]
    return isolated


def byte_classes(isolated: np.ndarray) -> np.ndarray:
    """uint8 [256]: the class of each byte of UTF-8 text."""
    classes = np.full(256, WORD, np.uint8)
    for byte in range(0x80):
        if chr(byte) in " \t\n\r":
            classes[byte] = SPACE
        elif 0x20 < byte < 0x7F and not chr(byte).isalnum():
            classes[byte] = PUNCTUATION
    points = np.flatnonzero(isolated)
    classes[0xC0 | points[points < 0x800] >> 6] = LEAD
    classes[0xE0 | points[(points >= 0x800) & (points < 0x10000)] >> 12] = LEAD
    classes[0xF0 | points[points >= 0x10000] >> 18] = LEAD
    return classes
