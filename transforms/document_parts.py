"""WriteDocumentParts: reads and splits, and leaves a file for each task, to be joined in their order."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator

import apache_beam as beam

from transforms.atomic import atomic_write
from transforms.document_files import encode_part, records_of
from transforms.formats.batching import text_bytes
from transforms.read_tasks import ReadTask
from transforms.reader import ReadOptions, read_task

__all__ = ["DocumentParts", "PartTotals", "WriteDocumentParts", "read_part"]


@dataclasses.dataclass(frozen=True)
class DocumentParts:
    """How documents are read, and where the parts go.

    Attributes:
      folder: of the parts, on this machine.
      ending: one of ``document_files.ENDINGS``.
      options: of the reading.
      language, sentence_splitter: see ``transforms.sentences``.
    """

    folder: str
    ending: str
    options: ReadOptions
    language: str
    sentence_splitter: str

    def path(self, index: int, kind: str) -> str:
        """The file of a task: its ``part``, its ``rejects``, or its ``totals``."""
        return os.path.join(self.folder, f"{index:08d}.{kind}")


@dataclasses.dataclass(frozen=True)
class PartTotals:
    """What was read for a part, or for all; ``skipped`` documents were too short."""

    documents: int = 0
    sentences: int = 0
    text_bytes: int = 0
    skipped: int = 0
    rejects_by_reason: Counter[str] = dataclasses.field(default_factory=Counter)

    def __add__(self, other: PartTotals) -> PartTotals:
        return PartTotals(
            self.documents + other.documents,
            self.sentences + other.sentences,
            self.text_bytes + other.text_bytes,
            self.skipped + other.skipped,
            self.rejects_by_reason + other.rejects_by_reason,
        )

    @property
    def rejects(self) -> int:
        """Records refused, whatever the reason."""
        return self.rejects_by_reason.total()


def _write_part(task: ReadTask, about: DocumentParts) -> None:
    """Reads a task; a retry writes the same bytes to the same names."""
    totals, counts = PartTotals(), Counter[str]()
    with (
        atomic_write(about.path(task.index, "part"), sync=False) as part,
        atomic_write(about.path(task.index, "rejects"), sync=False) as rejects,
    ):
        for output, batch in read_task(task, options=about.options, counts=counts):
            if output == "rejects":
                rows = batch.to_pylist()
                for row in rows:
                    rejects.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                totals += PartTotals(rejects_by_reason=Counter(row["reason"] for row in rows))
                continue
            records = records_of(
                batch, language=about.language, sentence_splitter=about.sentence_splitter
            )
            part.write(encode_part(records, ending=about.ending))
            sentences = sum(len(record["sentences"]) for record in records)
            totals += PartTotals(len(records), sentences, text_bytes(batch))
    totals += PartTotals(skipped=counts["skipped_documents"])
    with atomic_write(about.path(task.index, "totals"), sync=False) as file:
        file.write(json.dumps(vars(totals)).encode())


def read_part(index: int, about: DocumentParts) -> PartTotals:
    """What a task read, once it is done."""
    with open(about.path(index, "totals"), "rb") as file:
        values = json.load(file)
    return PartTotals(**values | {"rejects_by_reason": Counter(values["rejects_by_reason"])})


class WriteDocumentParts(beam.PTransform):
    """Reads the tasks, spread over the workers; nothing comes out, but files for each.

    Args:
      tasks: what ``transforms.read_tasks.plan_reads`` made.
      about: how, and where to.
    """

    def __init__(self, tasks: Iterable[ReadTask], about: DocumentParts):
        super().__init__()
        self.tasks = tuple(tasks)
        self.about = about

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """Wire it."""
        numbered = [(task.index, task) for task in self.tasks]
        return (
            begin
            | "ListTasks" >> beam.Create(numbered).with_output_types(tuple[int, ReadTask])
            # As in ReadDocuments: a Create stays with one worker.
            | "SpreadTasks" >> beam.GroupByKey()
            | "WriteParts" >> beam.ParDo(_WriteParts(self.about))
        )


class _WriteParts(beam.DoFn):
    def __init__(self, about: DocumentParts):
        super().__init__()
        self._about = about

    def process(self, element: tuple[int, Iterable[ReadTask]]) -> Iterator[None]:
        for task in element[1]:
            _write_part(task, self._about)
        yield from ()
