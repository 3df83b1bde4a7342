"""What a runner other than this machine's own is: its options, its checks, its packaging.

One module a runner has a class of these. None of them changes a row: they say where the graph runs,
and find out before anything is submitted what would not.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, PortableOptions
from apache_beam.runners.runner import PipelineResult

from runners.environments import check_endpoint, check_kind, check_process, check_workers_here
from schemas.errors import ConfigError
from schemas.stores import scheme_of

__all__ = ["AMOUNTS", "Runner", "Submission", "refuse_local_paths"]

#: Where the steps count what the progress display shows: its name, the step's, the counter's.
AMOUNTS = (
    ("text_bytes", "ReadDocuments", "bytes"),
    ("documents", "ReadDocuments", "documents"),
    ("rejects", "WriteRejects", "rejects"),
    ("blocks", "WriteExamples", "blocks"),
    ("examples", "WriteExamples", "examples"),
)

#: What to do about a path that only this machine has.
_ELSEWHERE = (
    "give a gs://, s3:// or hdfs:// path, or say --shared_files if all of them have it under this "
    "name"
)

#: The ``--environment_type`` whose workers are those of the process that submits.
_HERE = "LOOPBACK"


@dataclasses.dataclass(frozen=True)
class Submission:
    """What has to be known of a job before it is submitted.

    Attributes:
      name: of the job, for the runner's pages.
      paths: flags and the paths they name: ``input``, ``output``, ``temp_dir``.
      blocks: how many there are, which is how many workers can be busy.
      num_workers: what ``--num_workers`` says; None if nothing.
      shuffle: ``files`` or ``runner``.
      wait: whether the command stays until the job has ended.
      shared_files: whether all machines have the local ones of the paths under the same names.
    """

    name: str
    paths: Mapping[str, Sequence[str]]
    blocks: int
    num_workers: int | None = None
    shuffle: str = "runner"
    wait: bool = True
    shared_files: bool = False


class Runner(abc.ABC):
    """A place where Beam runs a graph.

    Attributes:
      name: what ``--runner`` calls it.
      beams_name: what Beam calls it.
    """

    name: ClassVar[str]
    beams_name: ClassVar[str]

    def options(self, beam_args: Sequence[str], submission: Submission) -> PipelineOptions:
        """Beam's options: ours where the user gave none, then those of the user."""
        ours = self.defaults(PipelineOptions(list(beam_args)), submission)
        return PipelineOptions([*ours, *beam_args], runner=self.beams_name)

    @abc.abstractmethod
    def defaults(self, given: PipelineOptions, submission: Submission) -> list[str]:
        """Flags of Beam's for what was not given. What is given overrules them."""

    def check(self, options: PipelineOptions, submission: Submission) -> None:
        """Looks for what would keep the job from running, in seconds, and changes nothing.

        Raises:
          ConfigError: of the flag that is wrong, with its value and what to do.
        """
        if not (submission.shared_files or self.sees_this_machine(options)):
            refuse_local_paths(submission, self.name, remedy=_ELSEWHERE)
        check_kind(options)
        if endpoint := options.view_as(PortableOptions).job_endpoint:
            check_endpoint(endpoint)
        check_process(options)
        if self.is_here(options):
            check_workers_here(options)
        if not submission.wait and not self.outlives_the_command(options):
            raise ConfigError(
                "wait", False, f"a job of --runner={self.name} ends with the command; leave it out"
            )

    def package(self, options: PipelineOptions, submission: Submission) -> PipelineOptions:
        """The options with what workers need that have none of it, such as this package itself."""
        return options

    def is_here(self, options: PipelineOptions) -> bool:
        """Whether it is known to run on this machine, and to start what it starts here."""
        return False

    def sees_this_machine(self, options: PipelineOptions) -> bool:
        """Whether the workers read and write the files of this machine under the same names."""
        kind = options.view_as(PortableOptions).environment_type
        return kind == _HERE or (kind == "PROCESS" and self.is_here(options))

    def works_in_this_process(self, options: PipelineOptions) -> bool:
        """Whether the workers are threads of this process, and say how far they are themselves."""
        here = options.view_as(PortableOptions).environment_type == _HERE
        apart = options.view_as(DebugOptions).lookup_experiment(
            "use_loopback_process_worker", False
        )
        return here and not apart

    def outlives_the_command(self, options: PipelineOptions) -> bool:
        """Whether a job goes on when the process that submitted it has ended."""
        return False

    def page(self, options: PipelineOptions, result: PipelineResult) -> str | None:
        """Where the job can be looked at; None if nowhere."""
        return None

    def state(self, options: PipelineOptions, result: PipelineResult) -> str:
        """How the job is, in a word."""
        return str(result.state).lower()

    def amounts(self, options: PipelineOptions, result: PipelineResult) -> dict[str, int]:
        """What is done so far, by the names of ``transforms.progress``; empty if not known."""
        # It keeps the first answer for good, and this one is for how far a job is.
        if getattr(result, "_metrics", None) is not None:
            result._metrics = None
        return amounts_of(result.metrics())

    def lost(self, options: PipelineOptions) -> str | None:
        """Asked when a job has failed: that its runner cannot be reached any more, and which; or None."""
        return None

    def wait(self, options: PipelineOptions, result: PipelineResult) -> str | None:
        """Returns when the job has ended, with the state that it has then.

        Raises:
          BuildError: it has failed.
          RuntimeError: likewise, with a worker's traceback in its text.
        """
        state: str | None = result.wait_until_finish()
        return state

    def keeps(self, options: PipelineOptions, result: PipelineResult) -> bool:
        """Whether the job goes on although the command was told to stop; may ask its user."""
        return False

    def cancel(self, options: PipelineOptions, result: PipelineResult) -> None:
        """Ends the job, because the command was told to stop."""
        result.cancel()


def amounts_of(metrics: Any) -> dict[str, int]:
    """The counters of the steps, attempted ones, by the names of ``transforms.progress``."""
    amounts = {}
    for name, namespace, counter in AMOUNTS:
        found = metrics.query(MetricsFilter().with_namespace(namespace).with_name(counter))
        amounts[name] = sum(int(each.attempted or 0) for each in found["counters"])
    return amounts


def refuse_local_paths(submission: Submission, runner: str, *, remedy: str) -> None:
    """``ConfigError`` for a path that only this machine has, where the workers are on others."""
    for flag, paths in submission.paths.items():
        for path in paths:
            if scheme_of(path) is None:
                raise ConfigError(
                    flag,
                    path,
                    f"is on this machine, and the workers of --runner={runner} may be on others; {remedy}",
                )
