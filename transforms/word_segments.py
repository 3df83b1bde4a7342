"""Which tokens of a sentence continue a word, where the vocabulary's table alone does not say it.

Where the first piece of a word is marked, the first token of a sentence begins one without a mark.
Chinese has no marks at all: BERT's tokenizers set every character apart, and a segmenter says which of
them make a word.
"""

from __future__ import annotations

import importlib.util
import itertools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.errors import ConfigError
from transforms.vocabulary import Vocabulary
from transforms.word_units import CHINESE_BLOCKS

__all__ = [
    "Segmenter",
    "WordMarker",
    "count_chinese",
    "load_segmenter",
    "mark_by_segments",
    "require_segmenter",
]

#: A text to its words, which joined give the text again.
Segmenter = Callable[[str], Sequence[str]]

#: One of the characters that BERT's tokenizers set apart, as Arrow's RE2 writes it.
_CHINESE_CHARACTER = f"[{''.join(f'{chr(a)}-{chr(b)}' for a, b in CHINESE_BLOCKS)}]"

#: Sentences whose tokens and offsets are held as Python objects at a time.
_SENTENCES_PER_CALL = 4096


def count_chinese(tokens: Sequence[str]) -> int:
    """How many of the tokens are a single Chinese character."""
    single = [ord(token) for token in tokens if len(token) == 1]
    return int(_is_chinese(np.array(single, np.uint32)).sum())


def require_segmenter(name: str) -> None:
    """See that what ``--word_segmenter`` names can be loaded; ``none`` always can.

    Raises:
      ConfigError: its package is not installed.
    """
    if name != "none" and importlib.util.find_spec(name) is None:
        raise ConfigError(
            "word_segmenter",
            name,
            'needs a package that is not installed: pip install "bert-data[chinese]"',
        )


def load_segmenter(name: str) -> Segmenter:
    """A new segmenter with its package's own dictionary.

    jieba would keep a copy of its dictionary in the temp folder and believe whatever it finds there,
    be it of another release. So the dictionary is read here, without the copy, in about a second.

    Raises:
      ConfigError: its package is not installed.
    """
    require_segmenter(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its patterns have escapes that Python complains of
        import jieba
    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    cut: Segmenter = tokenizer.lcut
    return cut


class WordMarker:
    """Says of each token of a sentence whether it continues the word before it. Thread-safe.

    Args:
      vocabulary: decides it, by the table ``is_subword`` and by where words are marked.
      segmenter: for sentences with Chinese characters; None leaves them to the table.
    """

    _of_process: ClassVar[dict[tuple[str, str], WordMarker]] = {}
    _lock: ClassVar = threading.Lock()

    def __init__(self, vocabulary: Vocabulary, *, segmenter: Segmenter | None = None):
        self._is_subword = vocabulary.is_subword.astype(np.uint8)
        self._marks_first = vocabulary.word_marks.marks_first
        self._segmenter = segmenter
        self._tokenizer = vocabulary.tokenizer() if segmenter is not None else None

    @classmethod
    def of(cls, vocabulary: Vocabulary, word_segmenter: str) -> WordMarker:
        """The one of this process; forked workers share what was loaded before them."""
        key = vocabulary.digest, word_segmenter
        with cls._lock:
            if key not in cls._of_process:
                segmenter = None if word_segmenter == "none" else load_segmenter(word_segmenter)
                cls._of_process[key] = cls(vocabulary, segmenter=segmenter)
            return cls._of_process[key]

    def mark(
        self, sentences: pa.LargeStringArray, ids: np.ndarray, offsets: np.ndarray
    ) -> np.ndarray:
        """For each token whether it belongs to the word of the token before it.

        Args:
          sentences: the texts.
          ids, offsets: what ``Encoder.encode`` gave for them.

        Returns:
          uint8 [tokens]: 1 where it does.
        """
        continues = self._is_subword[ids]
        filled = offsets[:-1][offsets[1:] > offsets[:-1]]
        if self._marks_first:
            continues[filled] = 0
        if self._segmenter is not None:
            chinese = pc.match_substring_regex(sentences, _CHINESE_CHARACTER)
            which = np.flatnonzero(np.asarray(chinese.fill_null(False)))
            for some in _portions(which):
                self._mark_chinese(
                    sentences.take(pa.array(some)).to_pylist(), some, offsets, continues
                )
        return continues

    def _mark_chinese(
        self, texts: list[str], which: np.ndarray, offsets: np.ndarray, continues: np.ndarray
    ) -> None:
        """Overwrites ``continues`` in some sentences, where a Chinese character is concerned.

        Raises:
          RuntimeError: the library gives other tokens than the encoder did.
        """
        assert self._tokenizer is not None
        assert self._segmenter is not None
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        counts = np.array([len(encoding) for encoding in encodings])
        begins, ends = offsets[which], offsets[which + 1]
        if (counts != ends - begins).any():
            raise RuntimeError("the tokenizer gives other tokens with offsets than without")
        spans = np.fromiter(
            itertools.chain.from_iterable(
                itertools.chain.from_iterable(encoding.offsets for encoding in encodings)
            ),
            np.int64,
            2 * counts.sum(),
        ).reshape(-1, 2)
        words = [[len(word) for word in self._segmenter(text)] for text in texts]
        lengths = np.array([len(text) for text in texts])
        if (lengths != [sum(of_text) for of_text in words]).any():
            raise RuntimeError("the segmenter's words are not the text")
        before = np.cumsum(lengths) - lengths
        flat = np.fromiter(itertools.chain.from_iterable(words), np.int64)
        places = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        continues[places] = mark_by_segments(
            np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32),
            np.repeat(np.arange(len(flat)), flat),
            spans + np.repeat(before, counts)[:, None],
            continues[places],
        )


def mark_by_segments(
    points: np.ndarray, words: np.ndarray, spans: np.ndarray, continues: np.ndarray
) -> np.ndarray:
    """Lets the segmenter decide between tokens of which one is Chinese; others stay as they are.

    A token continues a word when the character that it begins with and the one that the token before
    it ends with are both Chinese, next to each other and of one word, or when both are parts of one
    character. So Latin letters never join Chinese ones, whatever the segmenter says. The marks are laid
    over the tokens that there are; none is made up (compare issue 70 of brightmart/roberta_zh).

    Args:
      points: uint32 [characters], of all texts.
      words: int64 [characters], the number of the segmenter's word, which ends with its text.
      spans: int64 [tokens, 2], the characters of each token; where there are none, start is end.
      continues: uint8 [tokens], by the vocabulary.
    """
    if len(spans) < 2:
        return continues
    chinese = _is_chinese(points)
    start = np.minimum(spans[1:, 0], len(points) - 1)
    end = np.maximum(spans[:-1, 1] - 1, 0)
    # A mark that stands by itself, ``▁``, is the space before the word that comes next.
    space = np.isin(points, (0x20, 0x3000))[end]
    decides = (chinese[start] & ~space) | chinese[end]
    together = (start == end + 1) & chinese[start] & chinese[end] & (words[start] == words[end])
    marked = continues.copy()
    marked[1:] = np.where(decides, together | (start <= end), continues[1:])
    return marked


def _is_chinese(points: np.ndarray) -> np.ndarray:
    """Bool [characters]: BERT's tokenizers set the character apart."""
    chinese = np.zeros(len(points), bool)
    for first, last in CHINESE_BLOCKS:
        chinese |= (points >= first) & (points <= last)
    return chinese


def _portions(which: np.ndarray) -> Iterator[np.ndarray]:
    """An array in parts of bounded size."""
    for first in range(0, len(which), _SENTENCES_PER_CALL):
        yield which[first : first + _SENTENCES_PER_CALL]
