"""ReadDocuments: from files to batches of documents, with the refused records beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics

from transforms import coders
from transforms.formats.batching import text_bytes
from transforms.formats.prose import Prose
from transforms.read_tasks import ReadTask
from transforms.reader import ReadOptions, read_task

__all__ = ["ReadDocuments"]

# Importing it is what makes the batches Arrow's and not pickles.
_CODER = coders.ArrowBatchCoder


class ReadDocuments(beam.PTransform):
    """Read the tasks, spread over the workers.

    Three come out: the documents as ``DOCUMENT_BATCH``, about ``batch_bytes`` of text each, the
    refused records as ``REJECT_BATCH``, and ``{name: number}`` of what :func:`read_task` counts.

    Args:
      tasks: what ``transforms.inputs.plan_reads`` made.
      text_field, id_field, language_field, document_separator, max_document_bytes,
        min_document_chars, strict, batch_bytes: see :class:`ReadOptions`.

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
        min_document_chars: int = ReadOptions.min_document_chars,
        strict: bool = ReadOptions.strict,
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
            min_document_chars=min_document_chars,
            strict=strict,
            batch_bytes=batch_bytes,
        )
        Prose(document_separator)  # refuses a wrong one here, not on a worker

    def expand(self, begin: beam.pvalue.PBegin) -> tuple[beam.PCollection, ...]:
        """Wire it."""
        numbered = [(task.index, task) for task in self.tasks]
        read = (
            begin
            | "ListTasks" >> beam.Create(numbered).with_output_types(tuple[int, ReadTask])
            # Runners deal out the groups of a GroupByKey evenly; a Create stays with one worker.
            | "SpreadTasks" >> beam.GroupByKey()
            | "ReadTasks"
            >> beam.ParDo(_ReadTasks(self.options)).with_outputs(
                "rejects", "counts", main="documents"
            )
        )
        return read["documents"], read["rejects"], read["counts"]


@beam.typehints.with_output_types(pa.RecordBatch, rejects=pa.RecordBatch, counts=dict[str, int])
class _ReadTasks(beam.DoFn):
    """``(index, tasks)`` in; batches out, those of refused records tagged, and counts."""

    def __init__(self, options: ReadOptions):
        super().__init__()
        self._options = options
        self._documents = Metrics.counter("ReadDocuments", "documents")
        self._bytes = Metrics.counter("ReadDocuments", "bytes")
        self._rejects = Metrics.counter("ReadDocuments", "rejects")

    def process(
        self, element: tuple[int, Iterable[ReadTask]]
    ) -> Iterator[pa.RecordBatch | beam.pvalue.TaggedOutput]:
        counts: Counter[str] = Counter()
        for task in element[1]:
            for output, batch in read_task(task, options=self._options, counts=counts):
                if output == "rejects":
                    self._rejects.inc(batch.num_rows)
                    yield beam.pvalue.TaggedOutput("rejects", batch)
                else:
                    self._documents.inc(batch.num_rows)
                    self._bytes.inc(text_bytes(batch))
                    yield batch
        yield beam.pvalue.TaggedOutput("counts", dict(counts))
