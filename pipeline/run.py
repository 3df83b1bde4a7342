"""``bert-data build``: prepares the job, runs the graph, says what came out."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import time
from collections.abc import Iterator, Sequence
from typing import cast

import apache_beam as beam
import pyarrow as pa

from pipeline.build import Job, build_graph
from pipeline.config import BuildConfig
from pipeline.output import clear_leftovers, list_rejects, locked, prepare_output
from pipeline.places import Place, find_place, from_the_root, shuffle_folder
from pipeline.prepare import Prepared, prepare
from pipeline.summary import COMPILING, introduction, is_compiled, summary
from runners.interrupts import Interrupts, interruptible
from runners.local import LocalRun, run_locally
from runners.remote import RemoteRun, run_remotely
from schemas.arrow import DOCUMENT_BATCH
from schemas.errors import ConfigError, RejectReason, TooManyRejectsError
from schemas.manifest import Manifest, ManifestError, load_manifest
from schemas.stores import open_file, use_store_options
from transforms.sentences import split_batch
from transforms.shards import gather, open_stream, shard_path
from transforms.tokenization import Encoder, tokenize_batch

__all__ = ["build", "quiet_beam", "warm_up"]

_LOGGER = logging.getLogger(__name__)


def build(
    config: BuildConfig, *, beam_args: Sequence[str] = (), quiet: bool = False
) -> Manifest | None:
    """Builds the data set that ``config`` describes.

    Args:
      config: the configuration.
      beam_args: Beam's own flags.
      quiet: print nothing.

    Returns:
      The manifest that was written; None for a job elsewhere that is not waited for.

    Raises:
      ConfigError: see ``pipeline.prepare`` and ``pipeline.output``.
      BuildError: see ``runners.local``.
      InterruptedBuildError: a signal ended it; see ``runners.interrupts``.
    """
    started, config = time.monotonic(), from_the_root(config)
    with quiet_beam(), interruptible() as interrupts:
        use_store_options(beam_args)
        prepared = prepare(config)
        place = find_place(prepared, beam_args)  # before anything of an earlier build is removed
        with locked(config.output):
            if config.resume and (complete := _complete(prepared.job)):
                if not quiet:
                    print(f"{config.output} is complete: nothing to go on with", flush=True)
                return complete
            prepare_output(
                config.output,
                overwrite=config.overwrite,
                resume=config.resume,
                inputs=[file.path for file in prepared.files],
                shards=_shard_paths(prepared.job),
            )
            if not quiet:
                print(introduction(prepared), flush=True)
                if place is None and not is_compiled(prepared.job.config):
                    print(COMPILING, flush=True)
                for warning in prepared.warnings:
                    _LOGGER.warning(warning)
            if not _finish(prepared, place, beam_args, interrupts, quiet=quiet):
                return None
            manifest = load_manifest(config.output)
            if not quiet:
                for damage in _damages(manifest):
                    _LOGGER.warning(damage)
    if not quiet:
        print(summary(manifest, prepared, seconds=time.monotonic() - started), flush=True)
    return manifest


def _finish(
    prepared: Prepared,
    place: Place | None,
    beam_args: Sequence[str],
    interrupts: Interrupts,
    *,
    quiet: bool,
) -> bool:
    """Runs the job and leaves nothing beside its result; False if it goes on without this process."""
    output, ended = prepared.job.config.output, True
    try:
        ended = _run(prepared, place, beam_args, interrupts, quiet=quiet)
    except TooManyRejectsError as error:
        raise TooManyRejectsError(f"{error}; {_a_reject(output)}") from error
    finally:
        if ended and not getattr(interrupts.cause, "goes_on", False):
            clear_leftovers(output)
    if not ended and not quiet:
        print(f"Not waited for: {output}/manifest.json will be there once it is done", flush=True)
    return ended


def _run(
    prepared: Prepared,
    place: Place | None,
    beam_args: Sequence[str],
    interrupts: Interrupts,
    *,
    quiet: bool,
) -> bool:
    """Runs the graph; False if it was only submitted."""
    job = prepared.job
    with shuffle_folder(job.config) as spill_dir:

        def construct(pipeline: beam.Pipeline) -> None:
            build_graph(pipeline, job, spill_dir=spill_dir)

        if place is None:
            run = LocalRun(
                workers=prepared.workers,
                beam_args=beam_args,
                raw_bytes=sum(file.size for file in prepared.files),
                blocks=job.layout.num_blocks,
                quiet=quiet,
            )
            run_locally(construct, run, interrupts=interrupts, warm_up=lambda: warm_up(job))
            return True
        runner, options, submission = place
        options = runner.package(options, submission)
        remote = RemoteRun(runner, options, submission, quiet=quiet)
        return run_remotely(construct, remote, interrupts=interrupts)


def _complete(job: Job) -> Manifest | None:
    """The manifest of the data set that is there, if it is what the job would make.

    Raises:
      ConfigError: it is another one, which ``--resume`` is not meant to replace.
    """
    config = job.config
    try:
        manifest = load_manifest(config.output)
    except ManifestError:
        return None
    same = manifest.fingerprint == job.fingerprint
    if not same or manifest.configuration["input"] != list(config.input):
        raise ConfigError(
            "output",
            config.output,
            f"holds a complete data set of other {'input' if same else 'settings'}; "
            "--overwrite replaces it",
        )
    return manifest


def _rejects(output: str) -> Iterator[dict[str, str]]:
    for path in list_rejects(output):
        with open_file(path) as file:
            for line in io.BufferedReader(cast(io.RawIOBase, file)):
                yield json.loads(line)


def _a_reject(output: str) -> str:
    """One of the refused records in words: most often the others have the same fault."""
    reject = next(_rejects(output))
    return f"one of them is {reject['source']}: {reject['detail']}"


def _damages(manifest: Manifest) -> Iterator[str]:
    """Files of which a part was lost, which counts as one record and may be thousands."""
    if manifest.counts.rejects_by_reason.get(RejectReason.DAMAGED_STREAM):
        for reject in _rejects(manifest.configuration["output"]):
            if reject["reason"] == RejectReason.DAMAGED_STREAM:
                yield f"{reject['source']}: {reject['detail']}"


def _shard_paths(job: Job) -> set[str]:
    return {
        shard_path(length, job.layout, block)
        for length in job.config.max_seq_length
        for block in range(job.layout.num_blocks)
    }


def warm_up(job: Job) -> None:
    """Loads the tokenizer and compiles or loads every kernel, by taking one sentence all the way.

    Called before workers are forked, which then share all of it.
    """
    documents = pa.RecordBatch.from_pydict(
        {"text": ["One. Two."], "source": [""], "language": [None]}, schema=DOCUMENT_BATCH
    )
    sentences = split_batch(
        documents,
        language=job.config.language,
        sentence_splitter=job.config.sentence_splitter,
    )
    encoder = Encoder.of(job.vocabulary)
    tokens = tokenize_batch(sentences, encoder, word_marks=job.word_marker())
    settings = job.shards
    block = gather([tokens], settings)
    for max_seq_length, max_predictions in settings.lengths[:1]:
        for _ in open_stream(block, settings, max_seq_length, max_predictions):
            pass


@contextlib.contextmanager
def quiet_beam() -> Iterator[None]:
    """Our own warnings are printed as such, those of Beam are not: it logs an error at every worker."""
    beams = logging.getLogger("apache_beam")
    beams_level, heard = beams.level, logging.StreamHandler()
    heard.setFormatter(logging.Formatter("bert-data: warning: %(message)s"))
    ours = [logging.getLogger(name) for name in ("pipeline", "runners", "transforms")]
    if not logging.getLogger().isEnabledFor(logging.DEBUG):
        beams.setLevel(logging.CRITICAL)
    for logger in ours:
        logger.addHandler(heard)
        logger.propagate = False
    try:
        yield
    finally:
        beams.setLevel(beams_level)
        for logger in ours:
            logger.removeHandler(heard)
            logger.propagate = True
