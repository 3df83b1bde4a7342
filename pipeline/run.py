"""``bert-data build``: prepares the job, runs the graph, says what came out."""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
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
from runners.local import LocalRun, run_locally
from schemas.arrow import DOCUMENT_BATCH, token_batch
from schemas.errors import ConfigError, RejectReason, TooManyRejectsError
from schemas.manifest import Manifest, ManifestError, load_manifest
from transforms.examples import ExampleStream, gather_block
from transforms.rejects import REJECTS_FOLDER
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
        prepared = prepare(config)
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
                for warning in prepared.warnings:
                    _LOGGER.warning(warning)
            try:
                _run(prepared, beam_args, interrupts, quiet=quiet)
            except TooManyRejectsError as error:
                raise TooManyRejectsError(f"{error}; {_a_reject(config.output)}") from error
            finally:
                clear_leftovers(config.output)
            manifest = load_manifest(config.output)
            if not quiet:
                for damage in _damages(manifest):
                    _LOGGER.warning(damage)
    if not quiet:
        print(summary(manifest, prepared, seconds=time.monotonic() - started), flush=True)
    return manifest


def _run(
    prepared: Prepared, beam_args: Sequence[str], interrupts: Interrupts, *, quiet: bool
) -> None:
    job, config = prepared.job, prepared.job.config
    if config.runner != "local":
        options = PipelineOptions(list(beam_args), runner=config.runner)
        try:
            pipeline = beam.Pipeline(options=options)
        except (ValueError, ImportError) as error:
            raise ConfigError("runner", config.runner, str(error)) from None
        build_graph(pipeline, job, spill_dir=None)
        with translated():
            pipeline.run().wait_until_finish()
        return
    run = LocalRun(
        workers=prepared.workers,
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
    pattern = FileSystems.join(output, REJECTS_FOLDER, "*.jsonl")
    for path in sorted(found.path for found in FileSystems.match([pattern])[0].metadata_list):
        with FileSystems.open(path) as file:
            for line in file:
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
