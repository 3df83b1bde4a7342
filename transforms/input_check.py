"""Stops a build that cannot come to a good end, when all is read and before the first shard is written."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

import apache_beam as beam
import pyarrow as pa

from schemas.errors import SingleDocumentError, TooManyRejectsError

__all__ = ["CheckInput", "ReadTotals", "check_input", "require_two_documents"]


@dataclasses.dataclass(frozen=True)
class ReadTotals:
    """What was read.

    Attributes:
      documents: taken.
      rejects_by_reason: records refused.
      a_key: of one of the documents; None if there is none.
      several: whether there are others with another key.
    """

    documents: int = 0
    rejects_by_reason: Mapping[str, int] = dataclasses.field(default_factory=dict)
    a_key: bytes | None = None
    several: bool = False

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
    if not totals.documents and totals.rejects:
        raise SingleDocumentError(
            f"no document is left: all {totals.rejects:,} records were refused ({reasons}); look into "
            "rejects/ in the output"
        )
    if not totals.several:
        require_two_documents(min(1, totals.documents), objective=objective)
    return totals


def require_two_documents(distinct: int, *, objective: str) -> None:
    """Refuses a corpus of so few distinct documents that no NotNext can be drawn.

    Raises:
      SingleDocumentError: fewer than two.
    """
    if distinct < 2:
        what = "is one document" if distinct else "has no document with text"
        raise SingleDocumentError(
            f"the corpus {what}, and --objective={objective} needs at least two different ones: B of "
            "a NotNext pair comes from another document; add documents, or set document boundaries "
            "(a blank line in BERT's text format, --document_separator in prose)"
        )


def _merge(totals: Iterable[ReadTotals]) -> ReadTotals:
    documents, rejects = 0, Counter[str]()
    a_key, several = None, False
    for part in totals:
        documents += part.documents
        rejects.update(part.rejects_by_reason)
        several |= part.several or (None not in (a_key, part.a_key) and a_key != part.a_key)
        a_key = a_key or part.a_key
    return ReadTotals(documents, dict(sorted(rejects.items())), a_key, several)


class CheckInput(beam.PTransform):
    """Sentence batches in; one :class:`ReadTotals` out.

    Args:
      rejects: ``{reason: count}`` elements, of ``transforms.rejects.WriteRejects``.
      max_reject_fraction: the limit.
      objective: named in the error.
    """

    def __init__(self, rejects: beam.PCollection, *, max_reject_fraction: float, objective: str):
        super().__init__()
        self.rejects = rejects
        self.max_reject_fraction = max_reject_fraction
        self.objective = objective

    def expand(self, sentences: beam.PCollection) -> beam.PCollection:
        # A GroupByKey by hand: CombineGlobally is ten steps where three do, and each costs start-up.
        nothing = sentences.pipeline | "Nothing" >> beam.Create(
            [(0, ReadTotals())], reshuffle=False
        )
        read = sentences | "CountDocuments" >> beam.Map(_documents_of)
        refused = self.rejects | "CountRejects" >> beam.Map(_rejects_of)
        return (
            (nothing, read, refused)
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


def _check(
    element: tuple[int, Iterable[ReadTotals]], max_reject_fraction: float, objective: str
) -> ReadTotals:
    return check_input(
        _merge(element[1]), max_reject_fraction=max_reject_fraction, objective=objective
    )
