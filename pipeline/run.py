"""``bert-data build``: prepares the job, runs the graph, says what came out."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.build import Job, build_graph
from pipeline.config import BuildConfig
from pipeline.output import (
    clear_leftovers,
    is_local,
    locked,
    prepare_output,
    spill_folder,
)
from pipeline.prepare import Prepared, prepare
from pipeline.summary import introduction, summary
from runners.errors import translated
from runners.interrupts import Interrupts, interruptible
from runners.local import LocalRun, choose_workers, run_locally
from schemas.arrow import DOCUMENT_BATCH, token_batch
from schemas.manifest import Manifest, load_manifest
from transforms.examples import ExampleStream, gather_block
from transforms.sentences import split_batch
from transforms.shards import shard_path
from transforms.tokenization import Encoder, tokenize_batch

__all__ = ["build", "warm_up"]

_LOGGER = logging.getLogger(__name__)


def build(config: BuildConfig, *, beam_args: Sequence[str] = (), quiet: bool = False) -> Manifest:
    """Builds the data set that ``config`` describes.

    Args:
      config: the configuration.
      beam_args: Beam's own flags.
      quiet: print nothing.

    Returns:
      The manifest that was written.

    Raises:
      ConfigError: see ``pipeline.prepare`` and ``pipeline.output``.
      BuildError: see ``runners.local``.
      InterruptedBuildError: a signal ended it; see ``runners.interrupts``.
    """
    started = time.monotonic()
    with _only_news(), interruptible() as interrupts:
        prepared = prepare(config, num_readers=os.cpu_count() or 1)
        with locked(config.output):
            prepare_output(
                config.output,
                overwrite=config.overwrite,
                resume=config.resume,
                inputs=[file.path for file in prepared.files],
                shards=_shard_paths(prepared.job),
            )
            if not quiet:
                print(introduction(prepared), flush=True)
                for warning in prepared.warnings:
                    _LOGGER.warning(warning)
            try:
                _run(prepared, beam_args, interrupts, quiet=quiet)
            finally:
                clear_leftovers(config.output)
            manifest = load_manifest(config.output)
    if not quiet:
        print(summary(manifest, prepared, seconds=time.monotonic() - started), flush=True)
    return manifest


def _run(
    prepared: Prepared, beam_args: Sequence[str], interrupts: Interrupts, *, quiet: bool
) -> None:
    job, config = prepared.job, prepared.job.config
    if config.runner != "local":
        pipeline = beam.Pipeline(
            options=PipelineOptions(list(beam_args), runner=config.runner),
        )
        build_graph(pipeline, job, spill_dir=None)
        with translated():
            pipeline.run().wait_until_finish()
        return
    run = LocalRun(
        workers=choose_workers(config.num_workers, text_bytes=prepared.text_bytes),
        beam_args=beam_args,
        raw_bytes=sum(file.size for file in prepared.files),
        blocks=job.layout.num_blocks,
        quiet=quiet,
    )
    base = config.output if is_local(config.output) else tempfile.gettempdir()
    with spill_folder(config.temp_dir or base, output=config.output) as spill_dir:
        run_locally(
            lambda pipeline: build_graph(pipeline, job, spill_dir=spill_dir),
            run,
            interrupts=interrupts,
            warm_up=lambda: warm_up(job),
        )


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
    tokens = tokenize_batch(sentences, Encoder.of(job.vocabulary))
    settings = job.shards
    block = gather_block([tokens], token_batch(job.vocabulary.vocab_size))
    for max_seq_length, max_predictions in settings.lengths[:1]:
        stream = ExampleStream(
            block,
            settings.options,
            settings.special,
            max_seq_length=max_seq_length,
            max_predictions_per_seq=max_predictions,
        )
        for _ in stream:
            pass


@contextlib.contextmanager
def _only_news() -> Iterator[None]:
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
