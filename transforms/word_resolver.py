"""The ids of many units of text in one call of the ``tokenizers`` library.

Only the resolver of the word cache's misses lives here.
"""

from __future__ import annotations

import numpy as np
from tokenizers import Tokenizer, pre_tokenizers

from transforms.vocabulary import Vocabulary
from transforms.word_ids import join_units

__all__ = ["UnitResolver"]

#: Units in one string for the library; more of them are slower, as are fewer.
_UNITS_PER_CALL = 256


class UnitResolver:
    """Many units in one library call.

    Plain units (letters and digits, or one punctuation character, all ASCII) are what the
    normalizer and the pre-tokenizer leave as it is: they go to the model joined by spaces, five
    times faster, and each gives one piece that does not continue a word. Others go through
    everything, joined by a special token, between which texts are independent. Units are cut at
    ASCII punctuation, so that none can spell it.
    """

    def __init__(self, vocabulary: Vocabulary):
        tokenizer = vocabulary.tokenizer()
        self._model = Tokenizer(tokenizer.model)
        self._model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        self._whole = Tokenizer(tokenizer.model)
        self._whole.normalizer = tokenizer.normalizer
        self._whole.pre_tokenizer = tokenizer.pre_tokenizer
        self._whole.add_special_tokens(["[SEP]"])
        self._separator_id = self._whole.token_to_id("[SEP]")
        self._is_subword = vocabulary.is_subword

    def resolve(
        self, text: np.ndarray, units: np.ndarray, *, fold: np.uint64, plain: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all units and how many each has.

        Args:
          text: uint8.
          units: int64 [units, 2 or more]: start and length of each.
          fold: as for ``look_up``.
          plain: whether they are all plain units.
        """
        separator = b" " if plain else b"[SEP]"
        tokenizer = self._model if plain else self._whole
        joined = [
            _join(text, units[a : a + _UNITS_PER_CALL], fold, separator)
            for a in range(0, len(units), _UNITS_PER_CALL)
        ]
        encodings = tokenizer.encode_batch_fast(joined, add_special_tokens=False)
        ids = np.concatenate([np.array(encoding.ids, np.uint32) for encoding in encodings])
        if plain:
            ends = np.append(np.flatnonzero(~self._is_subword[ids]), len(ids))
            counts = np.diff(ends)
        else:
            ends = np.flatnonzero(ids == self._separator_id)
            counts = np.diff(ends, prepend=-1) - 1
            ids = np.delete(ids, ends)
        if len(counts) != len(units):
            raise RuntimeError(f"{len(units)} units came back as {len(counts)}")
        return ids, counts


def _join(text: np.ndarray, units: np.ndarray, fold: np.uint64, separator: bytes) -> str:
    joined = np.empty(units[:, 1].sum() + len(units) * len(separator), np.uint8)
    join_units(text, units, fold, np.frombuffer(separator, np.uint8), joined)
    return joined.tobytes().decode()
