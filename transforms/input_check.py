"""Stops a build that cannot come to a good end, when all is read and before the first shard is written."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

import apache_beam as beam
import pyarrow as pa

from schemas.errors import SingleDocumentError, TooManyRejectsError

__all__ = ["CheckInput", "ReadTotals", "check_input", "require_documents"]


@dataclasses.dataclass(frozen=True)
class ReadTotals:
    """What was read.

    Attributes:
      documents: taken.
      rejects_by_reason: records refused.
      a_key: of one of the documents; None if there is none.
      several: whether there are others with another key.
      counts: what reading counts beside the records, see ``transforms.reader.read_task``; None
        where that is not done.
    """

    documents: int = 0
    rejects_by_reason: Mapping[str, int] = dataclasses.field(default_factory=dict)
    a_key: bytes | None = None
    several: bool = False
    counts: Mapping[str, int] | None = None

    @property
    def rejects(self) -> int:
        """Records refused, whatever the reason."""
        return sum(self.rejects_by_reason.values())


def check_input(totals: ReadTotals, *, max_reject_fraction: float, objective: str) -> ReadTotals:
    """Gives the totals back.

    Raises:
      TooManyRejectsError: more than ``max_reject_fraction`` of the records were refused.
      SingleDocumentError: all documents have the same text.
    """
    records = totals.documents + totals.rejects
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(totals.rejects_by_reason.items()))
    if totals.rejects > max_reject_fraction * records:
        raise TooManyRejectsError(
            f"{totals.rejects:,} of {records:,} records were refused ({reasons}), more than "
            f"--max_reject_fraction={max_reject_fraction:g} allows; look into rejects/ in the output, "
            "mend the input or raise the limit"
        )
    skipped = (totals.counts or {}).get("skipped_documents", 0)
    if not totals.documents and (totals.rejects or skipped):
        why = [f"{skipped:,} have fewer characters than --min_document_chars"] if skipped else []
        if totals.rejects:
            all_of_them = "" if skipped else "all "
            why.append(
                f"{all_of_them}{totals.rejects:,} records were refused ({reasons}); look into "
                "rejects/ in the output"
            )
        raise SingleDocumentError(f"no document is left: {', '.join(why)}")
    if not totals.several:
        require_documents(min(1, totals.documents), objective=objective)
    return totals


def require_documents(distinct: int, *, objective: str) -> None:
    """Refuses a corpus of so few distinct documents that no row, or no NotNext, can be made of it.

    Raises:
      SingleDocumentError: none; or one, and the objective is next sentence prediction.
    """
    if not distinct:
        raise SingleDocumentError("the corpus has no document with text; nothing can be made of it")
    if distinct == 1 and objective == "nsp":
        raise SingleDocumentError(
            "the corpus is one document, and --objective=nsp needs at least two different ones: B of "
            "a NotNext pair comes from another document; add documents (of html, gutenberg and prose "
            "a file is one), or set document boundaries (a blank line in BERT's text format, which has "
            "a sentence a line and which .txt is taken for: running text needs --format prose; there, "
            "--document_separator), or give --objective sop or mlm, which need none"
        )


def _merge(totals: Iterable[ReadTotals]) -> ReadTotals:
    documents, rejects, counts = 0, Counter[str](), Counter[str]()
    a_key, several = None, False
    for part in totals:
        documents += part.documents
        rejects.update(part.rejects_by_reason)
        counts.update(part.counts or {})
        several |= part.several or (None not in (a_key, part.a_key) and a_key != part.a_key)
        a_key = a_key or part.a_key
    return ReadTotals(documents, dict(sorted(rejects.items())), a_key, several, dict(counts))


class CheckInput(beam.PTransform):
    """Sentence batches in; one :class:`ReadTotals` out.

    Args:
      rejects: ``{reason: count}`` elements, of ``transforms.rejects.WriteRejects``.
      counts: ``{name: number}`` elements, of ``transforms.documents.ReadDocuments``.
      max_reject_fraction: the limit.
      objective: named in the error.
    """

    def __init__(
        self,
        rejects: beam.PCollection,
        counts: beam.PCollection,
        *,
        max_reject_fraction: float,
        objective: str,
    ):
        super().__init__()
        self.rejects = rejects
        self.counts = counts
        self.max_reject_fraction = max_reject_fraction
        self.objective = objective

    def expand(self, sentences: beam.PCollection) -> beam.PCollection:
        # A GroupByKey by hand: CombineGlobally is ten steps where three do, and each costs start-up.
        nothing = sentences.pipeline | "Nothing" >> beam.Create(
            [(0, ReadTotals())], reshuffle=False
        )
        read = sentences | "CountDocuments" >> beam.Map(_documents_of)
        refused = self.rejects | "CountRejects" >> beam.Map(_rejects_of)
        counted = self.counts | "CountOthers" >> beam.Map(_others_of)
        return (
            (nothing, read, refused, counted)
            | "Flatten" >> beam.Flatten()
            | "Gather" >> beam.GroupByKey()
            | "Check"
            >> beam.Map(
                _check, max_reject_fraction=self.max_reject_fraction, objective=self.objective
            )
        )


def _documents_of(batch: pa.RecordBatch) -> tuple[int, ReadTotals]:
    keys = batch.column("key").unique()
    a_key = keys[0].as_py() if len(keys) else None
    return 0, ReadTotals(batch.num_rows, {}, a_key, len(keys) > 1)


def _rejects_of(counts: dict[str, int]) -> tuple[int, ReadTotals]:
    return 0, ReadTotals(0, counts)


def _others_of(counts: dict[str, int]) -> tuple[int, ReadTotals]:
    return 0, ReadTotals(counts=counts)


def _check(
    element: tuple[int, Iterable[ReadTotals]], max_reject_fraction: float, objective: str
) -> ReadTotals:
    return check_input(
        _merge(element[1]), max_reject_fraction=max_reject_fraction, objective=objective
    )
