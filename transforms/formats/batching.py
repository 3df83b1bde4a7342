"""Gathers documents and refused records into the Arrow batches that go to the next step."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from schemas.arrow import DOCUMENT_BATCH, REJECT_BATCH, SPLIT_DOCUMENT_BATCH
from schemas.errors import RejectReason
from transforms.formats.decoding import excerpt, printable

__all__ = ["DocumentBatcher", "RejectBatcher", "text_bytes"]

#: Rows of a batch of rejects: a few megabytes at most.
REJECT_ROWS = 4096


def text_bytes(batch: pa.RecordBatch) -> int:
    """UTF-8 bytes of the documents of a ``DOCUMENT_BATCH``."""
    ends = np.frombuffer(batch.column("text").buffers()[1], np.int64)
    first = batch.column("text").offset
    return int(ends[first + batch.num_rows] - ends[first])


class DocumentBatcher:
    """Collects documents for one ``DOCUMENT_BATCH``, or ``SPLIT_DOCUMENT_BATCH`` if one has sentences.

    Attributes:
      size: bytes of text so far.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._texts: list[bytes] = []
        self._sources: list[str] = []
        self._languages: list[bytes | None] = []
        self._sentences: list[list[bytes] | None] = []
        self._split = False
        self.size = 0

    def __len__(self) -> int:
        return len(self._texts)

    def add(
        self,
        text: bytes,
        *,
        source: str,
        language: bytes | None,
        sentences: list[bytes] | None = None,
    ) -> None:
        """Add a document: canonical text, language and sentences as UTF-8."""
        self._texts.append(text)
        self._sources.append(source)
        self._languages.append(language)
        self._sentences.append(sentences)
        self._split |= sentences is not None
        self.size += len(text)

    def take(self) -> pa.RecordBatch:
        """The batch of everything since the last one."""
        # Joining and counting is all there is to do: the bytes are known to be UTF-8.
        ends = np.fromiter(itertools.accumulate(map(len, self._texts), initial=0), np.int64)
        text = pa.LargeStringArray.from_buffers(
            len(self._texts), pa.py_buffer(ends), pa.py_buffer(b"".join(self._texts))
        )
        columns = [
            text,
            pa.array(self._sources, pa.string()),
            pa.array(self._languages, pa.binary()).cast(pa.string()),
        ]
        schema = DOCUMENT_BATCH
        if self._split:
            schema = SPLIT_DOCUMENT_BATCH
            lists = pa.array(self._sentences, pa.list_(pa.large_binary()))
            columns.append(lists.cast(schema.field("sentences").type))
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        self._clear()
        return batch


class RejectBatcher:
    """Collects refused records for one ``REJECT_BATCH``."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, str, str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Whether there is enough for a batch."""
        return len(self._rows) >= REJECT_ROWS

    def add(
        self, reason: RejectReason, *, source: str, detail: str, data: bytes | memoryview
    ) -> None:
        """Add a record; of its ``data`` an excerpt is kept."""
        self._rows.append((source, str(reason), printable(detail), excerpt(data)))

    def take(self) -> pa.RecordBatch:
        """The batch of everything since the last one."""
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(column, pa.string()) for column in columns]
        self._rows = []
        return pa.RecordBatch.from_arrays(arrays, schema=REJECT_BATCH)
