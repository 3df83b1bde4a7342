"""What an audit is given and what it reports; small and picklable."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

import numpy as np

from schemas.manifest import HISTOGRAM_BINS
from transforms.audit_counts import Counted
from transforms.audit_rules import AuditRules, Violation
from transforms.blocks import BlockLayout

__all__ = ["AuditSettings", "BlockReport", "ShardReport", "ShardTask"]


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """One shard to look at.

    Attributes:
      number: among all shards, for the file with its rows' hashes.
      data_set: name and split, ``seq128/train``.
      block: of the layout.
      path, rows, bytes, sha256: as the manifest has them.
    """

    number: int
    data_set: str
    block: int
    path: str
    rows: int
    bytes: int
    sha256: str


@dataclasses.dataclass
class ShardReport:
    """What was found in one shard.

    Attributes:
      task: the shard.
      counts: int64[len(Counted)]; histogram: int64[HISTOGRAM_BINS].
      broken: how often which rule does not hold.
      violations: the first of each.
      groups: (rows, digest) of each row group.
      covered: tokens of the block that are in some row, at least and at most.
      tokens: of the block.
      long_sentences: of the block, longer than a row.
      sums, drawn: of its passes, see ``audit_relations.sum_passes``; empty without provenance.
      without_partner: chunks of one sentence that made no row and need not; None if it is not known.
    """

    task: ShardTask
    counts: np.ndarray
    histogram: np.ndarray
    broken: Counter[str]
    violations: list[Violation]
    groups: list[tuple[int, bytes]]
    covered: tuple[int, int] = (0, 0)
    tokens: int = 0
    without_partner: int | None = None
    long_sentences: int = 0
    sums: tuple[int, ...] = ()
    drawn: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, task: ShardTask) -> ShardReport:
        """Nothing found yet."""
        counts, bins = np.zeros(len(Counted), np.int64), np.zeros(HISTOGRAM_BINS, np.int64)
        return cls(task, counts, bins, Counter(), [], [])

    def add(self, rule: str, words: str, *, row: int | None = None, show: int) -> None:
        """Count a violation, and keep it if it is one of the first."""
        self.broken[rule] += 1
        if self.broken[rule] <= show:
            self.violations.append(Violation(rule, words, self.task.path, row))


@dataclasses.dataclass(frozen=True)
class BlockReport:
    """What was found in the shards of one block; ``counts`` of its documents, if there is a corpus."""

    shards: tuple[ShardReport, ...]
    counts: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class AuditSettings:
    """What an audit is configured with.

    Attributes:
      root: the data set.
      rules: by data set, see ``ShardTask.data_set``.
      hash_dir: a folder for files with the hashes of rows.
      show: how many violations of each rule are kept of a shard.
      layout: which document belongs where.
      word_marks: whether the token batches say which tokens continue a word.
      deduplicate: of copies of a document, the data set has one.
      marks: where long sentences were cut, see ``transforms.long_sentences``; None if they were not.
    """

    root: str
    rules: Mapping[str, AuditRules]
    hash_dir: str
    show: int
    layout: BlockLayout | None = None
    word_marks: bool = False
    deduplicate: bool = False
    marks: np.ndarray | None = None
