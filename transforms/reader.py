"""Reads the tasks: every record of a share of a file, as a document or why it is refused. No Beam.

A share of a stream is cut into records, one of a table is asked for rows; behind damage reading goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Literal

import pyarrow as pa

from schemas.errors import RecordError, RefusedRecordError, RejectReason
from transforms import progress
from transforms.beginnings import read_beginning
from transforms.canonical import canonical_text
from transforms.characters import CHARACTER_COUNTS, count_characters
from transforms.formats.batching import DocumentBatcher, RejectBatcher
from transforms.formats.decoding import encode, printable, too_long
from transforms.formats.encodings import UTF_8, explain
from transforms.formats.framing import begin_reading, cut
from transforms.formats.records import Document, Format, HeadedFormat, Table
from transforms.formats.registry import FORMATS, Sharing, open_format, sharing_of
from transforms.read_tasks import FileShare, ReadTask
from transforms.streams import ByteStream, DamagedStreamError

__all__ = ["READ_COUNTS", "Output", "ReadOptions", "read_task"]

#: Which of the two outputs a batch is for, and the batch.
Output = tuple[Literal["documents", "rejects"], pa.RecordBatch]

#: What reading counts beside documents and rejects, by the manifest's names.
READ_COUNTS = ("skipped_documents", *CHARACTER_COUNTS)

#: A file with more damaged places is given up.
_MOST_GAPS = 1000


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How records are read.

    Attributes:
      text_field: the field or column with the text; dots lead into nested ones.
      id_field: likewise with the record's name, for ``source``; None for where it is.
      language_field: likewise with the language.
      document_separator: prose: the line between two documents; None if a file is one.
      max_document_bytes: a longer record is refused, and never held in memory.
      min_document_chars: a document of fewer characters, in canonical form, is left out.
      strict: the first record that is refused ends the reading.
      batch_bytes: UTF-8 bytes of text in a batch, or one document more.
    """

    text_field: str = "text"
    id_field: str | None = None
    language_field: str | None = "lang"
    document_separator: str | None = None
    max_document_bytes: int = 64 << 20
    min_document_chars: int = 0
    strict: bool = False
    batch_bytes: int = 8 << 20

    def format_of(self, share: FileShare) -> Format | Table:
        """What reads the file."""
        form = open_format(share.format, self)
        if isinstance(form, HeadedFormat):
            head = read_beginning(
                share.path,
                form.head_bytes,
                compression=share.compression,
                encoding=share.encoding,
            )
            return form.with_head(head)
        return form


def read_task(
    task: ReadTask, *, options: ReadOptions | None = None, counts: Counter[str] | None = None
) -> Iterator[Output]:
    """Read a task's shares.

    Args:
      task: what to read.
      options: how.
      counts: of ``READ_COUNTS``, which the batches do not say, what is found is added to it.

    Yields:
      ``("documents", DOCUMENT_BATCH)`` of about ``batch_bytes`` of text, or ``SPLIT_DOCUMENT_BATCH``
      where documents bring their sentences, and ``("rejects", REJECT_BATCH)``; none of them empty.

    Raises:
      OSError: a file is gone or cannot be read.
      RefusedRecordError: a record was refused, and the options are strict.
    """
    reader = _Reader(options or ReadOptions(), Counter() if counts is None else counts)
    for share in task.shares:
        yield from reader.read(share)
    yield from reader.flush()


class _Reader:
    """Reads one share after the other into the same batches."""

    def __init__(self, options: ReadOptions, counts: Counter[str]):
        self._options = options
        self._counts = counts
        self._documents = DocumentBatcher()
        self._rejects = RejectBatcher()
        self._raw_bytes = 0  # reported of the present share
        self._unreported = {"text_bytes": 0, "documents": 0, "rejects": 0}

    def read(self, share: FileShare) -> Iterator[Output]:
        """Every record of a share; gives batches as they fill."""
        form = self._options.format_of(share)
        label = printable(share.path)
        self._raw_bytes = 0
        try:
            takes = (
                self._rows(form, share, label)
                if isinstance(form, Table)
                else self._records(form, share, label)
            )
            for _ in takes:
                if self._documents.size >= self._options.batch_bytes:
                    yield "documents", self._batch()
                if self._rejects.full:
                    yield "rejects", self._rejects.take()
        except DamagedStreamError as damage:
            self._refuse_damage(damage, share, label)
        self._report(share.weight, share.weight)

    def _records(self, form: Format, share: FileShare, label: str) -> Iterator[None]:
        """Takes the records of a stream, behind damage too; None after each."""
        begin = begin_reading(share.start, lookback=form.lookback)
        stream = ByteStream(
            share.path,
            compression=share.compression,
            start=begin,
            end=share.end,
            encoding=share.encoding,
            size=share.size,
        )
        begins: bool | None = None
        for gaps in itertools.count():
            try:
                yield from self._records_from(form, share, label, stream, begin, begins)
                return
            except DamagedStreamError as damage:
                rest = self._after(damage, share, stream) if gaps < _MOST_GAPS else None
                self._refuse_damage(damage, share, label, rest)
                if rest is None:
                    return
                stream, begin = rest, damage.offset
                begins = FORMATS[share.format].shows_its_beginning

    def _after(
        self, damage: DamagedStreamError, share: FileShare, stream: ByteStream
    ) -> ByteStream | None:
        """Where reading goes on, if anything there is ours and records can be told again."""
        separator = self._options.document_separator
        if sharing_of(share.format, document_separator=separator) is Sharing.WHOLE:
            return None
        end, owned = share.owned_run(damage.offset)
        return stream.after(damage) if owned or end is not None else None

    def _records_from(
        self,
        form: Format,
        share: FileShare,
        label: str,
        stream: ByteStream,
        begin: int,
        begins: bool | None,
    ) -> Iterator[None]:
        """Takes the records of a stream up to its end, or damage; for ``begins`` see ``cut``.

        Raises:
          DamagedStreamError: the record that was open there is dropped.
        """
        max_bytes = self._options.max_document_bytes
        with contextlib.closing(self._chunks(share, stream)) as chunks:
            pieces = cut(chunks, offset=begin, owned_run=share.owned_run, begins_record=begins)
            for record in form.frame(pieces, max_bytes=max_bytes):
                source = f"{label}@{record.offset}"
                try:
                    if record.too_long:
                        raise too_long(max_bytes, form.too_long_hint)
                    self._take(form.parse(record), source, label)
                except RecordError as error:
                    if share.encoding != UTF_8:
                        error = explain(error, record.data, share.encoding)
                    self._refuse(error, source, record.data)
                yield

    def _rows(self, form: Table, share: FileShare, label: str) -> Iterator[None]:
        """Takes the rows of a table; None after each."""
        for row in form.rows(share, max_bytes=self._options.max_document_bytes):
            source = f"{label}@{row.position}"
            try:
                if isinstance(row.found, RecordError):
                    raise row.found
                self._take(row.found, source, label)
            except RecordError as error:
                self._refuse(error, source, row.data)
            self._report(row.raw_bytes, share.weight)
            yield
            if share.is_enough(row.raw_bytes):
                return

    def flush(self) -> Iterator[Output]:
        """What is left."""
        if self._documents:
            yield "documents", self._batch()
        if self._rejects:
            yield "rejects", self._rejects.take()

    def _batch(self) -> pa.RecordBatch:
        batch = self._documents.take()
        self._counts.update(count_characters(batch.column("text")))
        return batch

    def _take(self, document: Document | None, source: str, label: str) -> None:
        """Adds a document, if there is one.

        Raises:
          RecordError: half a character in it.
        """
        if document is None:
            return
        canonical = canonical_text(document.text)
        text = encode(canonical)
        if len(canonical) < self._options.min_document_chars:
            self._counts["skipped_documents"] += 1
            return
        language = None if document.language is None else encode(document.language)
        if document.id is not None:
            source = f"{label}#{document.id}"
        sentences = None
        if document.sentences is not None:
            # In the form that they have in the canonical text, whatever edges they were given.
            forms = (canonical_text(sentence) for sentence in document.sentences)
            sentences = [encode(form) for form in forms if form]
        self._documents.add(text, source=source, language=language, sentences=sentences)
        self._unreported["documents"] += 1
        self._unreported["text_bytes"] += len(text)

    def _refuse(self, error: RecordError, source: str, data: bytes | memoryview) -> None:
        if self._options.strict:
            raise RefusedRecordError(printable(f"--strict: {source}: {error}"))
        self._rejects.add(error.reason, source=source, detail=error.detail, data=data)
        self._unreported["rejects"] += 1

    def _refuse_damage(
        self,
        damage: DamagedStreamError,
        share: FileShare,
        label: str,
        rest: ByteStream | None = None,
    ) -> None:
        """Refuses what is between damage and the rest, if there is any and it is this share's to say."""
        if not share.owned_run(damage.offset)[1]:
            return
        detail = (
            f"{damage.detail}, near byte {damage.compressed_offset:,} of the file, after "
            f"{damage.offset:,} bytes of content; the documents before it are kept"
        )
        if rest is not None:
            detail += f", and the file is read on from byte {rest.raw_offset:,}"
        error = RecordError(RejectReason.DAMAGED_STREAM, detail)
        self._refuse(error, f"{label}@{damage.offset}", b"")

    def _chunks(self, share: FileShare, stream: ByteStream) -> Generator[bytes, None, None]:
        """The stream; whenever a chunk is done with, at most a megabyte, progress is reported."""
        for chunk in stream:
            yield chunk
            self._report(max(0, stream.raw_offset - share.start) // share.num_stripes, share.weight)

    def _report(self, raw_bytes: int, weight: int) -> None:
        """Report what is new; ``raw_bytes`` counts from the beginning of the share."""
        raw_bytes = min(raw_bytes, weight)
        progress.report(raw_bytes=raw_bytes - self._raw_bytes, **self._unreported)
        self._raw_bytes = raw_bytes
        self._unreported = dict.fromkeys(self._unreported, 0)
