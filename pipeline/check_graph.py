"""The graph of an audit.

Without a corpus it is the shards, spread over the workers. With one it is that of a build up to
GroupIntoBlocks: a block's documents are all that its shards can be made of.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import apache_beam as beam
import pyarrow as pa

from pipeline.build import Job, read_sentences, tokens_in_blocks
from pipeline.prepare import Prepared, choose_workers
from pipeline.run import warm_up as warm_up_build
from runners.interrupts import Interrupts
from runners.local import LocalRun, run_locally
from runners.progress import Wording
from schemas.arrow import example_schema, token_batch
from transforms.audit import AuditBlocks, AuditShards
from transforms.audit_columns import RowGroup
from transforms.audit_corpus import CorpusBlock, Coverage, find_rows
from transforms.audit_reports import AuditSettings, BlockReport, ShardReport, ShardTask
from transforms.audit_rows import check_rows
from transforms.reference_groups import ReadReferenceGroups

__all__ = ["AuditJob", "AuditResult", "build_graph", "run_audit", "warm_up"]

#: A shard's bytes stand for about half as many bytes of text, at five passes.
_WORTH_WORKERS = 2

_RESULTS = "results.pickle"

_ALONE = Wording(read="", write="Check rows", done="checked", items="shards", rows="rows")
_WITH_CORPUS = Wording(
    read="Read, tokenize", write="Check rows", done="checked", items="blocks", rows="rows"
)


@dataclasses.dataclass(frozen=True)
class AuditJob:
    """What there is to do.

    Attributes:
      tasks: the shards.
      settings: the rules.
      prepared: how to read the corpus; None to look at the shards alone.
      scratch: a folder for files.
    """

    tasks: tuple[ShardTask, ...]
    settings: AuditSettings
    prepared: Prepared | None
    scratch: str


@dataclasses.dataclass(frozen=True)
class AuditResult:
    """What came out.

    Attributes:
      shards: a report for each, in order.
      counts: of the documents of all blocks.
      rejects: records of the corpus that were refused, by reason.
      read: what reading it counted, see ``transforms.reader.READ_COUNTS``.
    """

    shards: tuple[ShardReport, ...]
    counts: Counter[str]
    rejects: dict[str, int]
    read: Counter[str]


def run_audit(
    job: AuditJob, *, interrupts: Interrupts, num_workers: int | None, quiet: bool
) -> AuditResult:
    """Runs the graph.

    Args:
      job: what to do.
      interrupts: see ``runners.interrupts``.
      num_workers: processes; None for one a core where there is enough to do.
      quiet: no progress display.

    Raises:
      BuildError: see ``runners.local``.
    """
    tasks, prepared = job.tasks, job.prepared
    size = sum(task.bytes for task in tasks)
    text_bytes = size // _WORTH_WORKERS if prepared is None else prepared.text_bytes
    run = LocalRun(
        workers=choose_workers(num_workers, text_bytes=text_bytes),
        beam_args=(),
        raw_bytes=size if prepared is None else sum(file.size for file in prepared.files),
        blocks=len(tasks) if prepared is None else prepared.job.layout.num_blocks,
        quiet=quiet,
        less_memory="use fewer --num_workers",
        go_on="mend that and check again",
        wording=_ALONE if prepared is None else _WITH_CORPUS,
    )
    results = os.path.join(job.scratch, _RESULTS)
    run_locally(
        lambda pipeline: build_graph(pipeline, job, results),
        run,
        interrupts=interrupts,
        warm_up=lambda: warm_up(job.settings, prepared),
    )
    shards: list[ShardReport] = []
    counts: Counter[str] = Counter()
    rejects: Counter[str] = Counter()
    read: Counter[str] = Counter()
    for each in pickle.loads(Path(results).read_bytes()):
        if isinstance(each, BlockReport):
            shards += each.shards
            counts.update(each.counts)
        else:
            kind, numbers = each
            (rejects if kind == "rejects" else read).update(numbers)
    shards.sort(key=lambda report: report.task.number)
    return AuditResult(tuple(shards), counts, dict(rejects), read)


def build_graph(pipeline: beam.Pipeline, audit: AuditJob, results: str) -> None:
    """Wires the audit; its reports go to the file ``results``."""
    tasks, settings, prepared = audit.tasks, audit.settings, audit.prepared
    if prepared is None:
        reports = pipeline | "AuditShards" >> AuditShards(tasks, settings)
    else:
        blocks, refused = _read_corpus(pipeline, prepared.job, os.path.join(audit.scratch, "spill"))
        # A block's documents and its shards meet here: a report for each block comes out.
        audited = blocks | "AuditBlocks" >> AuditBlocks(tasks, settings)
        reports = (audited, *refused) | "Flatten" >> beam.Flatten()
    _ = (
        reports
        | "ForOne" >> beam.Map(lambda report: (0, report))
        | "Gather" >> beam.GroupByKey()
        | "Keep" >> beam.Map(_keep, results)
    )


def _read_corpus(
    pipeline: beam.Pipeline, job: Job, spill_dir: str
) -> tuple[beam.PCollection, tuple[beam.PCollection, ...]]:
    """As in a build, up to the blocks; and what was counted, as (of what, ``{name: number}``)."""
    if job.config.exact_reference:
        return pipeline | "ReadGroups" >> ReadReferenceGroups(job.groups, job.vocabulary), ()
    sentences, rejects, counts = read_sentences(pipeline, job)
    blocks = tokens_in_blocks(sentences, job, spill_dir=spill_dir)
    refused = rejects | "CountRejects" >> beam.Map(_count_rejects)
    return blocks, (refused, counts | "CountRead" >> beam.Map(lambda numbers: ("read", numbers)))


def _count_rejects(batch: pa.RecordBatch) -> tuple[str, dict[str, int]]:
    return "rejects", dict(Counter(batch.column("reason").to_pylist()))


def _keep(element: tuple[int, Iterable[object]], results: str) -> None:
    Path(results).write_bytes(pickle.dumps(list(element[1])))


def warm_up(settings: AuditSettings, prepared: Prepared | None) -> None:
    """Loads or compiles every kernel before workers are forked."""
    for rules in settings.rules.values():
        schema = example_schema(
            rules.settings.vocab_size,
            provenance=rules.provenance,
            objective=rules.objective,
            masking=rules.masking,
            layout=rules.layout,
        )
        group = RowGroup.of(schema.empty_table())
        found = check_rows(group, rules)
        if prepared is not None:
            block = CorpusBlock.of(
                [], token_batch(rules.settings.vocab_size, word_marks=settings.word_marks)
            )
            coverage = Coverage.of(block, passes=1, pairs=rules.settings.pairs)
            find_rows(group, found, block, rules, coverage)
    if prepared is not None:
        warm_up_build(prepared.job)
