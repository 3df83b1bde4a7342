"""SplitSentences: documents to keyed documents of sentences, a batch at a time.

What a sentence is, is decided in ``transforms.splitting``; here are the document's key, the Arrow
arrays and the Beam step.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.metrics import Metrics

from schemas.arrow import KEY_BYTES, SENTENCE_BATCH
from schemas.errors import ConfigError
from transforms.slicing import slice_sentences
from transforms.splitting import SPLITTERS, shown_pieces, split_lines

__all__ = ["SplitSentences", "document_key", "split_batch"]


def document_key(text: bytes | memoryview) -> bytes:
    """The key of a document: 128-bit BLAKE2b of the UTF-8 of its canonical text."""
    return hashlib.blake2b(text, digest_size=KEY_BYTES).digest()


def split_batch(
    batch: pa.RecordBatch, *, language: str, sentence_splitter: str = "sentencex"
) -> pa.RecordBatch:
    """Cuts the documents of a batch into sentences.

    Args:
      batch: DOCUMENT_BATCH.
      language: of the documents whose own ``language`` is null.
      sentence_splitter: "sentencex", or "none": a sentence is a line.

    Returns:
      SENTENCE_BATCH: the same documents in the same order.
    """
    text = batch.column("text")
    data, offsets = _utf8(text)
    bounds = list(itertools.pairwise(offsets.tolist()))
    view = data.data
    keys = [document_key(view[start:end]) for start, end in bounds]
    texts = (str(view[start:end], "utf-8") for start, end in bounds)
    if sentence_splitter == "none":
        lists = pa.array([split_lines(text) for text in texts], SENTENCE_BATCH.field(1).type)
    else:
        languages = (own or language for own in batch.column("language").to_pylist())
        lists = _sentence_lists(data, offsets, texts, languages)
    return pa.record_batch([pa.array(keys, pa.binary(KEY_BYTES)), lists], schema=SENTENCE_BATCH)


def _utf8(column: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """uint8[] the bytes of a column without nulls, int64[n + 1] the offsets of its values."""
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return np.zeros(0, np.uint8), np.zeros(len(column) + 1, np.int64)
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8), ends


def _sentence_lists(
    data: np.ndarray, offsets: np.ndarray, texts: Iterable[str], languages: Iterable[str]
) -> pa.ListArray:
    """list<large_string> of the sentences of each document."""
    lengths: list[int] = []
    pieces = [0]
    for text, language in zip(texts, languages, strict=True):
        lengths.extend(map(len, shown_pieces(text, language=language)))
        pieces.append(len(lengths))
    bounds, firsts = slice_sentences(
        data, offsets, np.array(lengths, np.int64), np.array(pieces, np.int64)
    )
    return pa.ListArray.from_arrays(pa.array(firsts), _slices(data, bounds))


def _slices(data: np.ndarray, bounds: np.ndarray) -> pa.LargeStringArray:
    """The slices of ``data`` from each even bound to the next, packed."""
    if not len(bounds):
        return pa.array([], pa.large_string())
    # The bounds are the offsets of slices and gaps in turn, over the same bytes.
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    both = pa.Array.from_buffers(pa.large_string(), len(bounds) - 1, buffers)
    return both.take(pa.array(np.arange(0, len(bounds) - 1, 2)))


@dataclasses.dataclass(eq=False)
class SplitSentences(beam.PTransform):
    """DOCUMENT_BATCH -> SENTENCE_BATCH, element by element.

    Attributes:
      language: of the documents that do not name their own, e.g. "en".
      sentence_splitter: "sentencex", or "none" where the input has a sentence on each line.

    Raises:
      ConfigError: an unknown splitter.
    """

    language: str
    sentence_splitter: str = "sentencex"

    def __post_init__(self) -> None:
        super().__init__()
        if self.sentence_splitter not in SPLITTERS:
            raise ConfigError(
                "sentence_splitter", self.sentence_splitter, f"one of {', '.join(SPLITTERS)}"
            )

    def expand(self, documents: beam.PCollection) -> beam.PCollection:
        """PCollection of DOCUMENT_BATCH -> PCollection of SENTENCE_BATCH."""
        split = _SplitBatch(self.language, self.sentence_splitter)
        return documents | "SplitBatch" >> beam.ParDo(split).with_output_types(pa.RecordBatch)


class _SplitBatch(beam.DoFn):
    def __init__(self, language: str, sentence_splitter: str):
        self._language = language
        self._sentence_splitter = sentence_splitter
        self._counters = {
            name: Metrics.counter("SplitSentences", name)
            for name in ("documents_in", "bytes_in", "documents_out", "sentences_out", "bytes_out")
        }

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        split = split_batch(
            batch, language=self._language, sentence_splitter=self._sentence_splitter
        )
        sentences = split.column("sentences")
        for name, value in (
            ("documents_in", batch.num_rows),
            ("bytes_in", _num_bytes(batch.column("text"))),
            ("documents_out", split.num_rows),
            ("sentences_out", len(sentences.values)),
            ("bytes_out", _num_bytes(sentences.values)),
        ):
            self._counters[name].inc(value)
        yield split


def _num_bytes(texts: pa.LargeStringArray) -> int:
    """Bytes of UTF-8, without offsets."""
    return pc.sum(pc.binary_length(texts), min_count=0).as_py()
