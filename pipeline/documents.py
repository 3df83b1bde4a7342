"""``bert-data documents``: the documents of a corpus, cut into sentences, as one file to build from.

What it writes is read like any input; the documents keep their keys, so that the shards are those that the
corpus itself would have given.
"""

from __future__ import annotations

import json
import logging
import os
import posixpath
import tempfile
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from pipeline.config import BuildConfig
from pipeline.output import is_local, make_directory, spill_folder
from pipeline.prepare import (
    choose_workers,
    estimate_text_bytes,
    find_inputs,
    read_options,
    resolve_splitter,
)
from pipeline.run import quiet_beam
from pipeline.wording import plural
from runners.interrupts import Interrupts, interruptible
from runners.local import LocalRun, run_locally
from runners.progress import Wording
from runners.registry import LOCAL
from schemas.arrow import DOCUMENT_BATCH
from schemas.errors import ConfigError, RejectReason, SingleDocumentError, TooManyRejectsError
from schemas.stores import exists, open_file, remove, require_store, use_store_options
from transforms.atomic import atomic_write
from transforms.document_files import ending_of, join_parts
from transforms.document_parts import DocumentParts, PartTotals, WriteDocumentParts, read_part
from transforms.inputs import InputFile
from transforms.languages import require_detector
from transforms.read_tasks import ReadTask, plan_reads
from transforms.sentences import split_batch
from transforms.splitters import require_splitter

__all__ = ["rejects_path", "write_documents"]

_LOGGER = logging.getLogger(__name__)

_WORDING = Wording(read="Read, split", write="Write", items="parts", rows="documents")


def rejects_path(output: str) -> str:
    """Where the refused records go: a name that is passed over where the folder is an input."""
    folder, name = posixpath.split(output)
    return posixpath.join(folder, f"_{name}.rejects.jsonl")


def write_documents(
    config: BuildConfig, *, beam_args: Sequence[str] = (), quiet: bool = False
) -> PartTotals:
    """Writes ``config.output``, whole or not at all. Its order is that of the input, files by path.

    Args:
      config: of a build; what is about rows has no effect.
      beam_args: Beam's own flags.
      quiet: print nothing.

    Returns:
      What was read.

    Raises:
      ConfigError: no input, an output that is there, or that is no kind of file.
      TooManyRejectsError: more than ``max_reject_fraction`` were refused; they are in ``rejects_path``.
      SingleDocumentError: there is no document.
      BuildError: see ``runners.local``.
      InterruptedBuildError: a signal ended it.
    """
    started = time.monotonic()
    # The command has no such flag, so that it comes among Beam's.
    runner = PipelineOptions(list(beam_args)).view_as(StandardOptions).runner or config.runner
    if runner != LOCAL:
        raise ConfigError("runner", runner, "documents are written on this machine; leave it out")
    ending = ending_of(config.output)
    with quiet_beam(), interruptible() as interrupts:
        use_store_options(beam_args)
        require_store("output", config.output)
        require_splitter(config.sentence_splitter, language=config.language)
        require_detector(config.language)
        files = find_inputs(config)
        _check_output(config, files)
        # Not by stripes, whatever the number of workers: the order of the tasks is that of the documents.
        tasks = plan_reads(
            files,
            num_stripes=1,
            range_bytes=None,
            document_separator=config.document_separator,
        )
        base = os.path.dirname(os.path.abspath(config.output))
        base = config.temp_dir or (base if is_local(config.output) else tempfile.gettempdir())
        with spill_folder(base, output=os.devnull) as folder:
            about = DocumentParts(
                folder,
                ending,
                read_options(config),
                config.language,
                resolve_splitter(config, files),
            )
            _run(config, files, tasks, about, beam_args, interrupts, quiet=quiet)
            totals = sum((read_part(task.index, about) for task in tasks), PartTotals())
            _write_rejects(config.output, tasks, about, totals)
            _check_totals(config, totals)
            with atomic_write(config.output) as target:
                join_parts([about.path(t.index, "part") for t in tasks], target, ending=ending)
    if not quiet:
        print(_summary(config, totals, seconds=time.monotonic() - started), flush=True)
    return totals


def _check_output(config: BuildConfig, files: Sequence[InputFile]) -> None:
    output = config.output
    if is_local(output):
        if os.path.isdir(output):
            raise ConfigError("output", output, "is a directory; give the name of a file")
        there = os.path.exists(output)
        same = there and any(os.path.realpath(f.path) == os.path.realpath(output) for f in files)
        make_directory("output", os.path.dirname(os.path.abspath(output)))
    else:
        there = exists(output)
        same = any(file.path == output for file in files)
    if same:
        raise ConfigError("output", output, "is an input as well; give another name")
    if there and not config.overwrite:
        raise ConfigError("output", output, "is there already; --overwrite replaces it")


def _run(
    config: BuildConfig,
    files: Sequence[InputFile],
    tasks: Sequence[ReadTask],
    about: DocumentParts,
    beam_args: Sequence[str],
    interrupts: Interrupts,
    *,
    quiet: bool,
) -> None:
    workers = choose_workers(config.num_workers, text_bytes=estimate_text_bytes(files))
    run = LocalRun(
        workers=min(workers, max(1, len(tasks))),
        beam_args=beam_args,
        raw_bytes=sum(file.size for file in files),
        blocks=1,
        quiet=quiet,
        wording=_WORDING,
        less_memory="use fewer --num_workers",
        go_on="mend that and run it again",
    )
    run_locally(
        lambda pipeline: pipeline | "WriteDocumentParts" >> WriteDocumentParts(tasks, about),
        run,
        interrupts=interrupts,
        warm_up=lambda: _warm_up(about),
    )


def _warm_up(about: DocumentParts) -> None:
    documents = pa.RecordBatch.from_pydict(
        {"text": ["One. Two."], "source": [""], "language": [None]}, schema=DOCUMENT_BATCH
    )
    split_batch(documents, language=about.language, sentence_splitter=about.sentence_splitter)


def _write_rejects(
    output: str, tasks: Sequence[ReadTask], about: DocumentParts, totals: PartTotals
) -> None:
    """The refused records beside the output; none of an earlier run stays."""
    path = rejects_path(output)
    if not totals.rejects:
        remove([path])
        return
    with atomic_write(path) as target:
        for line in _rejects(tasks, about):
            target.write(line)
    for line in _rejects(tasks, about):
        reject = json.loads(line)
        if reject["reason"] == RejectReason.DAMAGED_STREAM:  # one record, and may be thousands
            _LOGGER.warning("%s: %s", reject["source"], reject["detail"])


def _rejects(tasks: Sequence[ReadTask], about: DocumentParts) -> Iterator[bytes]:
    for task in tasks:
        with open(about.path(task.index, "rejects"), "rb") as file:
            yield from file


def _check_totals(config: BuildConfig, totals: PartTotals) -> None:
    records = totals.documents + totals.rejects
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(totals.rejects_by_reason.items()))
    if totals.rejects > config.max_reject_fraction * records:
        path = rejects_path(config.output)
        with open_file(path) as file:
            reject = json.loads(file.readline())
        raise TooManyRejectsError(
            f"{totals.rejects:,} of {records:,} records were refused ({reasons}), more than "
            f"--max_reject_fraction={config.max_reject_fraction:g} allows; look into {path}, mend the "
            f"input or raise the limit; one of them is {reject['source']}: {reject['detail']}"
        )
    if not totals.documents:
        refused = f": all {records:,} records were refused ({reasons})" if records else ""
        if totals.skipped:
            refused += f"; {totals.skipped:,} have fewer characters than --min_document_chars"
        raise SingleDocumentError(f"the corpus has no document with text{refused}")


def _summary(config: BuildConfig, totals: PartTotals, *, seconds: float) -> str:
    refused = ""
    if totals.rejects:
        reasons = (f"{n:,} {reason}" for reason, n in sorted(totals.rejects_by_reason.items()))
        refused = f" ({', '.join(reasons)}; they are in {rejects_path(config.output)})"
    short = f"left out {plural(totals.skipped, 'short one')}; " if totals.skipped else ""
    return (
        f"Read {plural(totals.documents, 'document')}, {plural(totals.sentences, 'sentence')}; "
        f"{short}refused {plural(totals.rejects, 'record')}{refused}\n"
        f"Wrote {config.output} in {seconds:.1f} s ({totals.text_bytes / 1e6 / seconds:.1f} MB/s)"
    )
