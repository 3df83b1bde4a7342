"""Stops a build that refuses too many records, before the first shard is written."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

import apache_beam as beam
import pyarrow as pa

from schemas.errors import TooManyRejectsError

__all__ = ["CheckRejectLimit", "ReadTotals", "check_reject_limit"]


@dataclasses.dataclass(frozen=True)
class ReadTotals:
    """What was read: documents taken, and records refused by reason."""

    documents: int = 0
    rejects_by_reason: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def rejects(self) -> int:
        """Records refused, whatever the reason."""
        return sum(self.rejects_by_reason.values())


def check_reject_limit(totals: ReadTotals, *, max_reject_fraction: float) -> ReadTotals:
    """Gives the totals back.

    Raises:
      TooManyRejectsError: more than ``max_reject_fraction`` of the records were refused.
    """
    records = totals.documents + totals.rejects
    if totals.rejects > max_reject_fraction * records:
        reasons = ", ".join(
            f"{n:,} {reason}" for reason, n in sorted(totals.rejects_by_reason.items())
        )
        raise TooManyRejectsError(
            f"{totals.rejects:,} of {records:,} records were refused ({reasons}), more than "
            f"--max_reject_fraction={max_reject_fraction:g} allows; look into rejects/ in the output, "
            "mend the input or raise the limit"
        )
    return totals


def _merge(totals: Iterable[ReadTotals]) -> ReadTotals:
    documents, rejects = 0, Counter[str]()
    for part in totals:
        documents += part.documents
        rejects.update(part.rejects_by_reason)
    return ReadTotals(documents, dict(sorted(rejects.items())))


class CheckRejectLimit(beam.PTransform):
    """Document batches in and counts of rejects beside them; the one :class:`ReadTotals` out; none if nothing was read.

    Args:
      rejects: ``{reason: count}`` elements, of ``transforms.rejects.WriteRejects``.
      max_reject_fraction: the limit.
    """

    def __init__(self, rejects: beam.PCollection, *, max_reject_fraction: float):
        super().__init__()
        self.rejects = rejects
        self.max_reject_fraction = max_reject_fraction

    def expand(self, documents: beam.PCollection) -> beam.PCollection:
        # A GroupByKey by hand: CombineGlobally is ten steps where three do, and each costs start-up.
        read = documents | "CountDocuments" >> beam.Map(_documents_of)
        refused = self.rejects | "CountRejects" >> beam.Map(_rejects_of)
        return (
            (read, refused)
            | "Flatten" >> beam.Flatten()
            | "Gather" >> beam.GroupByKey()
            | "Check" >> beam.Map(_check, max_reject_fraction=self.max_reject_fraction)
        )


def _documents_of(batch: pa.RecordBatch) -> tuple[None, ReadTotals]:
    return None, ReadTotals(batch.num_rows, {})


def _rejects_of(counts: dict[str, int]) -> tuple[None, ReadTotals]:
    return None, ReadTotals(0, counts)


def _check(element: tuple[None, Iterable[ReadTotals]], max_reject_fraction: float) -> ReadTotals:
    return check_reject_limit(_merge(element[1]), max_reject_fraction=max_reject_fraction)
