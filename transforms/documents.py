"""ReadDocuments: from files to batches of documents, with the refused records beside them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Generator, Iterable, Iterator
from typing import Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics

from schemas.errors import RecordError, RejectReason
from transforms import coders, progress
from transforms.formats.batching import DocumentBatcher, RejectBatcher, text_bytes
from transforms.formats.bert_text import BertText
from transforms.formats.decoding import encode, printable
from transforms.formats.framing import Record, begin_reading, cut
from transforms.formats.jsonl import JsonLines
from transforms.formats.prose import Prose
from transforms.formats.records import Format
from transforms.inputs import FileShare, ReadTask
from transforms.streams import ByteStream, DamagedStreamError

__all__ = ["Output", "ReadDocuments", "ReadOptions", "canonical_text", "read_task"]

#: Which of the two outputs a batch is for, and the batch.
Output = tuple[Literal["documents", "rejects"], pa.RecordBatch]

# Importing it is what makes the batches Arrow's and not pickles.
_CODER = coders.ArrowBatchCoder

# White space beside a newline. Anchored on the newline: some 20 times as fast to search for as with
# the white space named first.
_LOOSE = re.compile(r"\n(?:[^\S\n]|(?<=[^\S\n]\n))")


def canonical_text(text: str) -> str:
    r"""The form of a document that its key is made of, the same whatever format it came in.

    Line endings are ``\n``, every line is stripped (``str.strip``), blank lines at the beginning
    and the end are dropped. Text that is so already, which most is, is given back as it is.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.strip()
    if _LOOSE.search(text):
        text = "\n".join([line.strip() for line in text.split("\n")])
    return text


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How records are read.

    Attributes:
      text_field: JSON lines: the field with the text; dots lead into nested objects.
      id_field: JSON lines: the field with the record's name, for ``source``; None for the offset.
      language_field: JSON lines: the field with the language.
      document_separator: prose: the line between two documents; None if a file is one.
      max_document_bytes: a longer record is refused, and never held in memory.
      batch_bytes: UTF-8 bytes of text in a batch, or one document more.
    """

    text_field: str = "text"
    id_field: str | None = None
    language_field: str | None = "lang"
    document_separator: str | None = None
    max_document_bytes: int = 64 << 20
    batch_bytes: int = 8 << 20

    def format_of(self, share: FileShare) -> Format:
        """What cuts and parses the file."""
        if share.format == "text":
            return BertText()
        if share.format == "prose":
            return Prose(self.document_separator)
        if share.format == "jsonl":
            return JsonLines(self.text_field, self.id_field, self.language_field)
        raise ValueError(f"no such format: {share.format!r}")


def read_task(task: ReadTask, *, options: ReadOptions | None = None) -> Iterator[Output]:
    """Read a task's shares.

    Yields:
      ``("documents", DOCUMENT_BATCH)`` of about ``batch_bytes`` of text, and
      ``("rejects", REJECT_BATCH)``; none of them empty.

    Raises:
      OSError: a file is gone or cannot be read.
    """
    reader = _Reader(options or ReadOptions())
    for share in task.shares:
        yield from reader.read(share)
    yield from reader.flush()


class _Reader:
    """Reads one share after the other into the same batches."""

    def __init__(self, options: ReadOptions):
        self._options = options
        self._documents = DocumentBatcher()
        self._rejects = RejectBatcher()
        self._raw_bytes = 0  # reported of the present share
        self._unreported = {"text_bytes": 0, "documents": 0, "rejects": 0}

    def read(self, share: FileShare) -> Iterator[Output]:
        """Every record of a share; gives batches as they fill."""
        form = self._options.format_of(share)
        label = printable(share.path)
        begin = begin_reading(share.start, lookback=form.lookback)
        stream = ByteStream(share.path, compression=share.compression, start=begin, end=share.end)
        self._raw_bytes = 0
        with contextlib.closing(self._chunks(share, stream)) as chunks:
            pieces = cut(chunks, offset=begin, owned_run=share.owned_run)
            try:
                for record in form.frame(pieces, max_bytes=self._options.max_document_bytes):
                    self._take(record, form, label)
                    if self._documents.size >= self._options.batch_bytes:
                        yield "documents", self._documents.take()
                    if self._rejects.full:
                        yield "rejects", self._rejects.take()
            except DamagedStreamError as damage:
                if share.owned_run(damage.offset)[1]:
                    self._refuse_damage(damage, label)
        self._report(share.weight, share.weight)

    def flush(self) -> Iterator[Output]:
        """What is left."""
        if self._documents:
            yield "documents", self._documents.take()
        if self._rejects:
            yield "rejects", self._rejects.take()

    def _take(self, record: Record, form: Format, label: str) -> None:
        source = f"{label}@{record.offset}"
        try:
            if record.too_long:
                raise RecordError(
                    RejectReason.TOO_LONG,
                    f"more than {self._options.max_document_bytes:,} bytes (--max_document_bytes); "
                    + form.too_long_hint,
                )
            document = form.parse(record)
            if document is None:
                return
            text = encode(canonical_text(document.text))
            language = None if document.language is None else encode(document.language)
        except RecordError as error:
            self._rejects.add(error.reason, source=source, detail=error.detail, data=record.data)
            self._unreported["rejects"] += 1
            return
        if document.id is not None:
            source = f"{label}#{document.id}"
        self._documents.add(text, source=source, language=language)
        self._unreported["documents"] += 1
        self._unreported["text_bytes"] += len(text)

    def _refuse_damage(self, damage: DamagedStreamError, label: str) -> None:
        detail = (
            f"{damage.detail}, near byte {damage.compressed_offset:,} of the file, after "
            f"{damage.offset:,} bytes of content; the documents before it are kept"
        )
        self._rejects.add(
            RejectReason.DAMAGED_STREAM, source=f"{label}@{damage.offset}", detail=detail, data=b""
        )
        self._unreported["rejects"] += 1

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


class ReadDocuments(beam.PTransform):
    """Read the tasks, spread over the workers.

    A pair comes out: the documents as ``DOCUMENT_BATCH``, about ``batch_bytes`` of text each, and
    the refused records as ``REJECT_BATCH``.

    Args:
      tasks: what ``transforms.inputs.plan_reads`` made.
      text_field, id_field, language_field, document_separator, max_document_bytes, batch_bytes: see
        :class:`ReadOptions`.

    Raises:
      ConfigError: a separator that no line can equal.
    """

    def __init__(
        self,
        tasks: Iterable[ReadTask],
        *,
        text_field: str = ReadOptions.text_field,
        id_field: str | None = ReadOptions.id_field,
        language_field: str | None = ReadOptions.language_field,
        document_separator: str | None = ReadOptions.document_separator,
        max_document_bytes: int = ReadOptions.max_document_bytes,
        batch_bytes: int = ReadOptions.batch_bytes,
    ):
        super().__init__()
        self.tasks = tuple(tasks)
        self.options = ReadOptions(
            text_field=text_field,
            id_field=id_field,
            language_field=language_field,
            document_separator=document_separator,
            max_document_bytes=max_document_bytes,
            batch_bytes=batch_bytes,
        )
        Prose(document_separator)  # refuses a wrong one here, not on a worker

    def expand(self, begin: beam.pvalue.PBegin) -> tuple[beam.PCollection, beam.PCollection]:
        """Wire it."""
        numbered = [(task.index, task) for task in self.tasks]
        read = (
            begin
            | "ListTasks" >> beam.Create(numbered).with_output_types(tuple[int, ReadTask])
            # Runners deal out the groups of a GroupByKey evenly; a Create stays with one worker.
            | "SpreadTasks" >> beam.GroupByKey()
            | "ReadTasks"
            >> beam.ParDo(_ReadTasks(self.options)).with_outputs("rejects", main="documents")
        )
        return read["documents"], read["rejects"]


@beam.typehints.with_output_types(pa.RecordBatch, rejects=pa.RecordBatch)
class _ReadTasks(beam.DoFn):
    """``(index, tasks)`` in; batches out, those of refused records tagged."""

    def __init__(self, options: ReadOptions):
        super().__init__()
        self._options = options
        self._documents = Metrics.counter("ReadDocuments", "documents")
        self._bytes = Metrics.counter("ReadDocuments", "bytes")
        self._rejects = Metrics.counter("ReadDocuments", "rejects")

    def process(
        self, element: tuple[int, Iterable[ReadTask]]
    ) -> Iterator[pa.RecordBatch | beam.pvalue.TaggedOutput]:
        for task in element[1]:
            for output, batch in read_task(task, options=self._options):
                if output == "rejects":
                    self._rejects.inc(batch.num_rows)
                    yield beam.pvalue.TaggedOutput("rejects", batch)
                else:
                    self._documents.inc(batch.num_rows)
                    self._bytes.inc(text_bytes(batch))
                    yield batch
