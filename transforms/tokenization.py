"""TokenizeSentences: sentences to token ids, a batch at a time.

How ids are found is in :mod:`transforms.word_cache`; here are the Arrow arrays, the one encoder of
a process and the Beam step.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterator
from typing import ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.metrics import Metrics

from schemas.arrow import token_batch
from transforms.vocabulary import Vocabulary
from transforms.word_cache import PlainEncoder, WordCache
from transforms.word_segments import WordMarker
from transforms.word_units import has_word_property

__all__ = ["Encoder", "TokenizeSentences", "tokenize_batch"]


class Encoder:
    """Gives the ids of sentences, in the fastest way that is exact for its tokenizer. Thread-safe.

    Attributes:
      vocab_size: of its vocabulary.
    """

    _of_process: ClassVar[dict[str, Encoder]] = {}
    _lock: ClassVar = threading.Lock()

    def __init__(self, vocabulary: Vocabulary):
        self.vocab_size = vocabulary.vocab_size
        by_words = has_word_property(vocabulary.tokenizer_json)
        self._encoder = WordCache(vocabulary) if by_words else PlainEncoder(vocabulary)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Encoder:
        """The encoder of this vocabulary in this process: every thread and bundle shares it."""
        # A runner has one process a core already, and the library's threads do not survive a fork.
        # Not left to the environment: with it, a forked worker would wait for them for ever.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        with cls._lock:
            if vocabulary.digest not in cls._of_process:
                cls._of_process[vocabulary.digest] = cls(vocabulary)
            return cls._of_process[vocabulary.digest]

    def encode(self, sentences: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of each sentence, without special tokens.

        Returns:
          ids (uint16 or uint32, flat) and offsets (int64 [sentences + 1]): sentence i has
          ``ids[offsets[i]:offsets[i + 1]]``.
        """
        return self._encoder.encode(sentences)


def tokenize_batch(
    batch: pa.RecordBatch, encoder: Encoder, *, word_marks: WordMarker | None = None
) -> pa.RecordBatch:
    """Turns the sentences of a batch into ids and leaves out those that have none.

    Args:
      batch: SENTENCE_BATCH.
      encoder: gives the ids.
      word_marks: says which tokens continue a word; None where the vocabulary's table does.

    Returns:
      ``token_batch(encoder.vocab_size)``: the same documents in the same order, each with the
      sentences that have at least one id, which may be none. With ``continues_word`` if there are
      ``word_marks``.

    Raises:
      OverflowError: more ids than the 32-bit offsets of a list can count.
    """
    texts, documents = _sentences(batch)
    ids, ends = encoder.encode(texts)
    if len(ids) > np.iinfo(np.int32).max:
        raise OverflowError(f"a batch of {batch.num_rows:,} documents has {len(ids):,} tokens")
    kept = ends[1:] > ends[:-1]
    sentence_ends = np.append(0, ends[1:][kept]).astype(np.int32)
    kept_before = np.append(0, np.cumsum(kept)).astype(np.int32)
    sentences = pa.ListArray.from_arrays(pa.array(sentence_ends), pa.array(ids))
    first_sentence = kept_before[documents]
    columns = [
        batch.column("key"),
        pa.ListArray.from_arrays(pa.array(first_sentence), sentences),
    ]
    if word_marks is not None:
        continues = pa.array(word_marks.mark(texts, ids, ends))
        first_token = pa.array(sentence_ends[first_sentence])
        columns.append(pa.ListArray.from_arrays(first_token, continues))
    schema = token_batch(encoder.vocab_size, word_marks=word_marks is not None)
    return pa.record_batch(columns, schema=schema)


def _sentences(batch: pa.RecordBatch) -> tuple[pa.LargeStringArray, np.ndarray]:
    """All sentences of a batch, and int32 [documents + 1]: where each document's are."""
    lists = batch.column("sentences")
    offsets = lists.offsets.to_numpy()  # of a slice, they still point into all of the values
    return lists.values[offsets[0] : offsets[-1]], offsets - offsets[0]


@dataclasses.dataclass(eq=False)
class TokenizeSentences(beam.PTransform):
    """SENTENCE_BATCH -> ``token_batch(vocabulary.vocab_size)``, element by element.

    Attributes:
      vocabulary: with the tokenizer inside.
      word_marks: add the column ``continues_word``.
      word_segmenter: what it goes by in Chinese, see ``transforms.word_segments``.
    """

    vocabulary: Vocabulary
    word_marks: bool = False
    word_segmenter: str = "none"

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, sentences: beam.PCollection) -> beam.PCollection:
        """PCollection of SENTENCE_BATCH -> PCollection of token batches."""
        tokenize = _TokenizeBatch(
            self.vocabulary, word_segmenter=self.word_segmenter if self.word_marks else None
        )
        return sentences | "TokenizeBatch" >> beam.ParDo(tokenize).with_output_types(pa.RecordBatch)


class _TokenizeBatch(beam.DoFn):
    def __init__(self, vocabulary: Vocabulary, *, word_segmenter: str | None):
        self._vocabulary = vocabulary
        self._word_segmenter = word_segmenter
        self._counters = {
            name: Metrics.counter("TokenizeSentences", name)
            for name in (
                "documents_in",
                "sentences_in",
                "bytes_in",
                "documents_out",
                "sentences_out",
                "tokens_out",
            )
        }

    def setup(self) -> None:
        self._encoder = Encoder.of(self._vocabulary)
        self._word_marks = None
        if self._word_segmenter is not None:
            self._word_marks = WordMarker.of(self._vocabulary, self._word_segmenter)

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        texts, _ = _sentences(batch)
        tokens = tokenize_batch(batch, self._encoder, word_marks=self._word_marks)
        sentences = tokens.column("sentences").values
        for name, value in (
            ("documents_in", batch.num_rows),
            ("sentences_in", len(texts)),
            ("bytes_in", pc.sum(pc.binary_length(texts)).as_py() or 0),
            ("documents_out", tokens.num_rows),
            ("sentences_out", len(sentences)),
            ("tokens_out", len(sentences.values)),
        ):
            self._counters[name].inc(value)
        yield tokens
