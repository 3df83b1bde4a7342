"""What marks words in a vocabulary: ``##`` on their later pieces, or ``▁`` or ``Ġ`` on the first.

Only questions about single tokens and the tokenizer's parts live here; which tokens of a sentence go
together also depends on where they stand, see :mod:`transforms.word_segments`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer, models

__all__ = ["WordKind", "WordMarks", "find_word_marks"]

WordKind = Literal["wordpiece", "sentencepiece", "bytelevel"]


def _byte_values() -> dict[str, int]:
    """The bytes that the characters of byte-level tokens stand for.

    Printable Latin-1 characters stand for their own code; the other bytes, in order, are the
    characters from U+0100 on (Radford et al. 2019, ``bytes_to_unicode`` in GPT-2's code).
    """
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    values = {chr(byte): byte for byte in own}
    return values | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTES = _byte_values()


@dataclasses.dataclass(frozen=True)
class WordMarks:
    """How a vocabulary marks words.

    Attributes:
      kind: ``wordpiece``: the mark is on every piece but a word's first; ``sentencepiece`` and
        ``bytelevel``: it is on the first, as it stands for the space before it, so that the first
        token of a text may lack it.
      mark: ``##``, ``▁`` or ``Ġ``, usually.
    """

    kind: WordKind = "wordpiece"
    mark: str = "##"

    @property
    def marks_first(self) -> bool:
        """Whether the mark is on the first piece of a word."""
        return self.kind != "wordpiece"

    def continues(self, token: str) -> bool:
        """Whether an ordinary token that stands inside a text continues the word before it."""
        if self.kind == "wordpiece":
            return token.startswith(self.mark)
        if self.kind == "sentencepiece":
            return bool(token) and not token.startswith(self.mark)
        # White space of any kind, a line break as well as the space that Ġ stands for.
        return bool(token) and not self.text(token)[:1].isspace()

    def text(self, token: str) -> str:
        r"""The text that a token stands for, its mark as a space (``wordpiece``: without the mark).

        Bytes that are part of a character only are written ``\xe4``.
        """
        if self.kind == "wordpiece":
            return token.removeprefix(self.mark)
        if self.kind == "sentencepiece":
            return token.replace(self.mark, " ")
        try:
            return bytes(_BYTES[c] for c in token).decode(errors="backslashreplace")
        except KeyError:  # an added token, which is text as it is
            return token

    def table(self, tokens: Sequence[str], *, special_ids: Sequence[int]) -> np.ndarray:
        """Bool [vocab_size]: the token continues a word; special tokens never do."""
        table = np.array([self.continues(token) for token in tokens], dtype=bool)
        table[list(special_ids)] = False
        return table


def find_word_marks(tokenizer: Tokenizer) -> WordMarks:
    """What the tokenizer's own parts say: its model's prefix, or what spaces are turned into."""
    prefix = getattr(tokenizer.model, "continuing_subword_prefix", None) or "##"
    if isinstance(tokenizer.model, models.WordPiece):
        return WordMarks(mark=prefix)
    parts = [
        part
        for component in (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder)
        if component is not None
        for part in _parts(json.loads(component.__getstate__()))
    ]
    if any(part["type"] == "ByteLevel" for part in parts):
        return WordMarks("bytelevel", "Ġ")
    for part in parts:
        if part["type"] == "Metaspace":
            return WordMarks("sentencepiece", part["replacement"])
        if part["type"] == "Replace" and "▁" in json.dumps(part, ensure_ascii=False):
            return WordMarks("sentencepiece", "▁")
    return WordMarks(mark=prefix)


def _parts(component: Any) -> Iterator[dict[str, Any]]:
    """A component and, where it is a sequence, all that is in it."""
    if isinstance(component, dict):
        if "type" in component:
            yield component
        for value in component.values():
            yield from _parts(value)
    elif isinstance(component, list):
        for value in component:
            yield from _parts(value)
