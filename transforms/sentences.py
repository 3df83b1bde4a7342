"""SplitSentences: documents to keyed documents of sentences, a batch at a time.

What a sentence is, is decided in ``transforms.splitting`` and ``transforms.splitters``; here are the
document's key, the Arrow arrays and the Beam step.
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

from schemas.arrow import DOCUMENT_BATCH, KEY_BYTES, SENTENCE_BATCH
from schemas.errors import ConfigError
from transforms.languages import language_of
from transforms.slicing import slice_sentences
from transforms.splitters import SPLITTERS, pieces_of
from transforms.splitting import split_lines

__all__ = ["SplitSentences", "document_key", "split_batch"]


def document_key(text: bytes | memoryview) -> bytes:
    """The key of a document: 128-bit BLAKE2b of the UTF-8 of its canonical text."""
    return hashlib.blake2b(text, digest_size=KEY_BYTES).digest()


def split_batch(
    batch: pa.RecordBatch, *, language: str, sentence_splitter: str = "sentencex"
) -> pa.RecordBatch:
    """Cuts the documents of a batch into sentences.

    Args:
      batch: DOCUMENT_BATCH, or SPLIT_DOCUMENT_BATCH: sentences that are there are kept as they are.
      language: of the documents whose own ``language`` is null; "auto": found out for each.
      sentence_splitter: one of ``transforms.splitters.SPLITTERS``; "none": a sentence is a line.

    Returns:
      SENTENCE_BATCH: the same documents in the same order.
    """
    if "sentences" in batch.schema.names:
        return _split_the_others(batch, language=language, sentence_splitter=sentence_splitter)
    text = batch.column("text")
    data, offsets = _utf8(text)
    bounds = list(itertools.pairwise(offsets.tolist()))
    view = data.data
    keys = [document_key(view[start:end]) for start, end in bounds]
    texts = (str(view[start:end], "utf-8") for start, end in bounds)
    if sentence_splitter == "none":
        lists = pa.array([split_lines(text) for text in texts], SENTENCE_BATCH.field(1).type)
    else:
        own = batch.column("language").to_pylist()
        lists = _sentence_lists(data, offsets, texts, own, language, sentence_splitter)
    return pa.record_batch([pa.array(keys, pa.binary(KEY_BYTES)), lists], schema=SENTENCE_BATCH)


def _split_the_others(
    batch: pa.RecordBatch, *, language: str, sentence_splitter: str
) -> pa.RecordBatch:
    """``split_batch`` of a SPLIT_DOCUMENT_BATCH: the documents without sentences are split."""
    given = batch.column("sentences")
    documents = batch.select(DOCUMENT_BATCH.names)
    if not given.null_count:
        data, offsets = _utf8(documents.column("text"))
        bounds = itertools.pairwise(offsets.tolist())
        keys = [document_key(data.data[start:end]) for start, end in bounds]
        return pa.record_batch([pa.array(keys, pa.binary(KEY_BYTES)), given], schema=SENTENCE_BATCH)
    have = given.is_valid()
    parts = [
        _split_the_others(
            batch.filter(have), language=language, sentence_splitter=sentence_splitter
        ),
        split_batch(
            pa.record_batch(documents.filter(pc.invert(have)).columns, schema=DOCUMENT_BATCH),
            language=language,
            sentence_splitter=sentence_splitter,
        ),
    ]
    order = np.argsort(np.argsort(~have.to_numpy(zero_copy_only=False), kind="stable"))
    both = pa.concat_batches(parts)
    return pa.record_batch(both.take(pa.array(order)).columns, schema=SENTENCE_BATCH)


def _utf8(column: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """uint8[] the bytes of a column without nulls, int64[n + 1] the offsets of its values."""
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return np.zeros(0, np.uint8), np.zeros(len(column) + 1, np.int64)
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8), ends


def _sentence_lists(
    data: np.ndarray,
    offsets: np.ndarray,
    texts: Iterable[str],
    languages: Iterable[str | None],
    language: str,
    sentence_splitter: str,
) -> pa.ListArray:
    """list<large_string> of the sentences of each document."""
    lengths: list[int] = []
    pieces = [0]
    for text, own in zip(texts, languages, strict=True):
        code = own or language_of(text, language)
        found = pieces_of(text, language=code, sentence_splitter=sentence_splitter)
        lengths.extend(map(len, found))
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
      language: of the documents that do not name their own, e.g. "en"; "auto": found out for each.
      sentence_splitter: of ``transforms.splitters``; "none" where the input has a sentence on each line.

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
