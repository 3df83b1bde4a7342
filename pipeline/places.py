"""Where a build runs: the runner with its checks, and where the documents of a block meet."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from pipeline.config import BuildConfig
from pipeline.output import is_local, spill_folder
from pipeline.prepare import Prepared
from runners.base import Runner, Submission
from runners.registry import LOCAL, find_runner
from schemas.errors import ConfigError
from schemas.stores import local_path
from transforms.saved_datasets import HUB_PREFIX

__all__ = ["Place", "find_place", "from_the_root", "shuffle_folder"]


class Place(NamedTuple):
    """A runner other than this machine's own, with Beam's options for it and what it was told."""

    runner: Runner
    options: PipelineOptions
    submission: Submission


def from_the_root(config: BuildConfig) -> BuildConfig:
    """The same, its local paths absolute where workers may have another working directory."""
    if config.runner == LOCAL:
        return config
    return dataclasses.replace(
        config,
        input=tuple(map(_absolute, config.input)),
        output=_absolute(config.output),
        temp_dir=config.temp_dir and _absolute(config.temp_dir),
    )


def _absolute(path: str) -> str:
    local = None if path.startswith(HUB_PREFIX) else local_path(path)
    return path if local is None else os.path.abspath(local)


def find_place(prepared: Prepared, beam_args: Sequence[str]) -> Place | None:
    """Where ``--runner`` says that the job runs, once its checks have passed; None for this machine.

    Raises:
      ConfigError: there is no such runner, or what it needs is missing; see ``runners.base``.
    """
    job, config = prepared.job, prepared.job.config
    if config.runner == LOCAL:
        _refuse_what_is_for_others(config, beam_args)
        return None
    runner = find_runner(config.runner)
    paths = {
        "input": [file.path for file in prepared.files],
        "output": [config.output] if config.output != os.devnull else [],  # of a plan
        "temp_dir": [config.temp_dir] if config.temp_dir else [],
    }
    submission = Submission(
        name=f"bert-data-{job.fingerprint[:12]}",
        paths=paths,
        shared_files=config.shared_files,
        blocks=job.layout.num_blocks,
        num_workers=config.num_workers,
        shuffle=_resolve_shuffle(config),
        wait=config.wait,
    )
    options = runner.options(beam_args, submission)
    if submission.shuffle == "files" and not runner.sees_this_machine(options):
        _refuse_own_files(config)
    runner.check(options, submission)
    return Place(runner, options, submission)


def _refuse_what_is_for_others(config: BuildConfig, beam_args: Sequence[str]) -> None:
    """What this machine's own runner would take no notice of."""
    portable = PipelineOptions(list(beam_args)).view_as(PortableOptions)
    for flag in ("job_endpoint", "environment_type", "environment_config"):
        if value := getattr(portable, flag):
            raise ConfigError(
                flag, value, "is of no use to --runner=local; name another or leave it out"
            )
    if not config.wait:
        raise ConfigError(
            "wait", False, "a job of --runner=local ends with the command; leave it out"
        )


def _resolve_shuffle(config: BuildConfig) -> str:
    """``files`` or ``runner``: what ``--shuffle auto`` means for the runner."""
    if config.shuffle != "auto":
        return config.shuffle
    return "files" if config.runner == LOCAL else "runner"


def _refuse_own_files(config: BuildConfig) -> None:
    """The files of the shuffle are read on other machines than those that write them."""
    if config.temp_dir is None or not config.shared_files:
        raise ConfigError(
            "shuffle",
            "files",
            f"the workers of --runner={config.runner} may be on several machines; leave it out, or name "
            "a folder that all of them share with --temp_dir and say --shared_files",
        )


@contextlib.contextmanager
def shuffle_folder(config: BuildConfig) -> Iterator[str | None]:
    """A context with a folder for the shuffle's files; with None where the runner shuffles."""
    if _resolve_shuffle(config) == "runner":
        yield None
        return
    base = config.output if is_local(config.output) else tempfile.gettempdir()
    with spill_folder(config.temp_dir or base, output=config.output) as folder:
        yield folder
