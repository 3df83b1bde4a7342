"""What was counted in all shards of a data set."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from schemas.manifest import HISTOGRAM_BINS
from transforms.audit_counts import Counted
from transforms.audit_reports import ShardReport

__all__ = ["FAR", "Totals"]

#: A configured rate that is further away than so many standard deviations is a violation.
FAR = 6.0

#: Where a row breaks one of these, it is not known which chunk it was made of.
_ROWLESS = {
    "document_missing",
    "label",
    "sentence_again",
    "sentence_missing",
    "sentence_order",
    "sentence_span",
    "structure",
    "text",
    "unknown_document",
}


@dataclasses.dataclass(frozen=True)
class Totals:
    """The sums over the shards of one data set.

    Attributes:
      counts: by :class:`~transforms.audit_rows.Counted`.
      histogram: rows by length.
      covered: tokens of the corpus in some row, at least and at most; tokens: of its split.
      without_partner: chunks of one sentence that made no row; None if that is not known.
      long_sentences: of the corpus, longer than a row.
      random_ids: how many ids a random replacement is drawn from.
    """

    counts: np.ndarray
    histogram: np.ndarray
    covered: tuple[int, int]
    tokens: int
    without_partner: int | None
    long_sentences: int
    random_ids: int

    @classmethod
    def of(cls, reports: Sequence[ShardReport], *, random_ids: int) -> Totals:
        """Adds up."""
        alone = [r.without_partner for r in reports if not _ROWLESS & set(r.broken)]
        known = [n for n in alone if n is not None]
        return cls(
            counts=sum((r.counts for r in reports), np.zeros(len(Counted), np.int64)),
            histogram=sum((r.histogram for r in reports), np.zeros(HISTOGRAM_BINS, np.int64)),
            covered=(sum(r.covered[0] for r in reports), sum(r.covered[1] for r in reports)),
            tokens=sum(r.tokens for r in reports),
            without_partner=sum(known) if len(known) == len(reports) else None,
            long_sentences=sum(r.long_sentences for r in reports),
            random_ids=max(1, random_ids),
        )

    def __getitem__(self, name: Counted) -> int:
        return int(self.counts[name])
