"""The steps of the audit: shards alone, or blocks of documents with the shards that are made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import apache_beam as beam
import pyarrow as pa

from schemas.arrow import token_batch
from transforms import progress
from transforms.audit_block import CorpusBlock
from transforms.audit_counts import Counted
from transforms.audit_reports import AuditSettings, BlockReport, ShardReport, ShardTask
from transforms.audit_shard import audit_shard

__all__ = ["AuditBlocks", "AuditShards", "audit_block"]


def audit_block(
    tasks: Iterable[ShardTask], batches: Iterable[pa.RecordBatch], settings: AuditSettings
) -> BlockReport:
    """Holds the shards of a block to its documents."""
    one = next(iter(settings.rules.values())).settings
    block = CorpusBlock.of(
        batches,
        token_batch(one.vocab_size, word_marks=settings.word_marks),
        deduplicate=settings.deduplicate,
    )
    reports = tuple(_audit_length(task, settings, block) for task in tasks)
    return BlockReport(reports, block.counts(one.unk_id))


def _audit_length(task: ShardTask, settings: AuditSettings, block: CorpusBlock) -> ShardReport:
    """A shard of one length, whose long sentences were split for this length alone."""
    length = settings.rules[task.data_set].settings.max_seq_length
    count = block.long_sentences(length)
    if settings.marks is not None:
        block = block.without_long_sentences(settings.marks, length)
    report = audit_shard(task, settings, block=block)
    report.long_sentences = count
    return report


@dataclasses.dataclass(eq=False)
class AuditShards(beam.PTransform):
    """The shards, each alone; a :class:`BlockReport` for each comes out.

    Attributes:
      tasks: the shards.
      settings: the configuration.
    """

    tasks: tuple[ShardTask, ...]
    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        numbered = [(task.number, task) for task in self.tasks]
        return (
            begin
            | "ListShards" >> beam.Create(numbered).with_output_types(tuple[int, ShardTask])
            # Runners deal out the groups of a GroupByKey evenly; a Create stays with one worker.
            | "SpreadShards" >> beam.GroupByKey()
            | "AuditShard" >> beam.FlatMap(_audit_alone, self.settings)
        )


def _audit_alone(
    element: tuple[int, Iterable[ShardTask]], settings: AuditSettings
) -> Iterator[BlockReport]:
    for task in element[1]:
        report = BlockReport((audit_shard(task, settings),))
        progress.report(blocks=1, examples=_rows(report))
        yield report


def _rows(report: BlockReport) -> int:
    return sum(int(shard.counts[Counted.ROWS]) for shard in report.shards)


@dataclasses.dataclass(eq=False)
class AuditBlocks(beam.PTransform):
    """``(block, token batches)`` in, a :class:`BlockReport` out for each.

    Attributes:
      tasks: all shards.
      settings: the configuration.
    """

    tasks: tuple[ShardTask, ...]
    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        by_block: dict[int, list[ShardTask]] = {}
        for task in self.tasks:
            by_block.setdefault(task.block, []).append(task)
        return blocks | "AuditBlock" >> beam.Map(_audit_grouped, by_block, self.settings)


def _audit_grouped(
    element: tuple[int, Iterable[pa.RecordBatch]],
    by_block: Mapping[int, list[ShardTask]],
    settings: AuditSettings,
) -> BlockReport:
    tasks = by_block.get(element[0], [])
    report = audit_block(tasks, element[1], settings)
    progress.report(blocks=1, examples=_rows(report))
    return report
