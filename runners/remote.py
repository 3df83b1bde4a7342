"""Runs a graph on a runner other than this machine's own, and says how far it is.

What the runner logs is not printed but for its errors, of which the worker's own is looked for; with
``--debug`` all of it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import apache_beam as beam
import grpc  # type: ignore[import-untyped]
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult, PipelineState

from runners.base import Runner, Submission
from runners.errors import translated, worker_error
from runners.interrupts import InterruptedBuildError, Interrupts
from runners.job_display import JobDisplay
from runners.job_server import JobServer, serving
from runners.loopback import stop_steps
from runners.progress import SharedCounters
from runners.proxies import no_proxy_for_localhost
from runners.quiet import without_beams_noise
from schemas.errors import BuildError
from transforms import progress

__all__ = ["RemoteRun", "run_remotely"]

#: Seconds between two questions how far the job is.
_INTERVAL = 2.0

#: Until a job is given up that is told to end: a cluster has half a minute.
_CANCEL_SECONDS = 40.0
#: The connection to a job server that is killed ends before its process does.
_GONE_SECONDS = 5.0

#: What Beam's client raises when its job server does not answer.
_UNREACHABLE = (grpc.RpcError, grpc.FutureTimeoutError)

_GO_ON = "go on with --resume"


@dataclasses.dataclass(frozen=True)
class RemoteRun:
    """How a run elsewhere goes.

    Attributes:
      runner: where.
      options: Beam's, of the runner.
      submission: what was known before.
      quiet: print nothing.
    """

    runner: Runner
    options: PipelineOptions
    submission: Submission
    quiet: bool = False


def run_remotely(
    construct: Callable[[beam.Pipeline], None], run: RemoteRun, *, interrupts: Interrupts
) -> bool:
    """Builds the graph with ``construct``, submits it, and waits for its end.

    Args:
      construct: wires everything into the pipeline it is given.
      run: how.
      interrupts: of the context ``interruptible`` that all of it is in.

    Returns:
      True if the job has ended well, False if it was not waited for.

    Raises:
      BuildError: or another of ``schemas.errors``, as it was raised on a worker; or the job failed, was
        cancelled, or its runner could not be reached any more.
      InterruptedBuildError: see ``runners.interrupts``.
    """
    watch = _Watch(run, interrupts)
    with contextlib.ExitStack() as stack:
        stack.enter_context(without_beams_noise())
        stack.enter_context(no_proxy_for_localhost())
        if run.runner.works_in_this_process(run.options):
            stack.enter_context(watch.listening())
            stack.callback(stop_steps)
        display = JobDisplay(
            state=watch.state,
            amounts=watch.amounts,
            blocks=run.submission.blocks,
            quiet=run.quiet,
        )
        shown = stack.enter_context(contextlib.ExitStack())
        shown.enter_context(display)
        server = stack.enter_context(serving(run.options, run.runner.beams_name))
        # Within the job server's life: who still asks when it is ended takes that for its death.
        asked = stack.enter_context(contextlib.ExitStack())
        with _gone(server, interrupts), translated():
            pipeline = beam.Pipeline(options=run.options)
            construct(pipeline)
            result = pipeline.run()
        with _gone(server, interrupts):
            page = run.runner.page(run.options, result)
            if not run.quiet and page:
                print(f"The job: {page}", flush=True)
            if not run.submission.wait:
                return False
            asked.enter_context(watch.asking(result, server))
            try:
                _wait(run, result, interrupts)
            except BaseException as error:
                asked.close()
                if interrupts.cause is not None:
                    shown.close()  # the runner may have to ask
                    _stop(run, result, interrupts.cause)
                elif isinstance(error, _UNREACHABLE) and run.runner.outlives_the_command(
                    run.options
                ):
                    _cancel(run, result)  # it would write beside the build that goes on with it
                raise
    return True


def _wait(run: RemoteRun, result: PipelineResult, interrupts: Interrupts) -> None:
    try:
        with translated():
            state = run.runner.wait(run.options, result)
    except BuildError:
        raise
    except RuntimeError as error:
        if interrupts.cause is None and (lost := run.runner.lost(run.options)):
            raise BuildError(f"{lost}; {_GO_ON}, there or elsewhere") from error
        if interrupts.cause is None and (said := worker_error(str(error))):
            raise BuildError(f"{said}; --debug shows where") from error
        raise
    if state not in (PipelineState.DONE, None):
        raise BuildError(
            f"the job has ended as {state}; {_GO_ON}, or --debug shows what was logged"
        )


def _stop(run: RemoteRun, result: PipelineResult, cause: BaseException) -> None:
    """Ends the job because the command was told to stop, unless it goes on without the command."""
    if isinstance(cause, InterruptedBuildError) and run.runner.keeps(run.options, result):
        cause.goes_on = True
    else:
        _cancel(run, result)


def _cancel(run: RemoteRun, result: PipelineResult) -> None:
    """Ends the job, as far as its runner can be reached; what ended the command is said, not this."""

    def cancel() -> None:
        with contextlib.suppress(Exception):
            run.runner.cancel(run.options, result)

    thread = threading.Thread(target=cancel, name="cancel-job", daemon=True)
    thread.start()
    thread.join(_CANCEL_SECONDS)


@contextlib.contextmanager
def _gone(server: JobServer | None, interrupts: Interrupts) -> Iterator[None]:
    """A context in which a job server that cannot be reached is a ``BuildError``, with its reason."""
    try:
        yield
    except _UNREACHABLE as error:
        if interrupts.cause is not None:
            raise
        raise BuildError(f"the job server {_how(server, error)}; {_GO_ON}") from error


def _how(server: JobServer | None, error: Exception) -> str:
    """As a predicate."""
    last = time.monotonic() + _GONE_SECONDS
    while server is not None and time.monotonic() < last:
        if how := server.find_dead():
            return how
        time.sleep(0.05)
    details = error.details() if hasattr(error, "details") else None
    return f"cannot be reached any more ({details or type(error).__name__})"


class _Watch:
    """How the job is: from workers in this process, else asked of the runner every other second."""

    def __init__(self, run: RemoteRun, interrupts: Interrupts):
        self._run = run
        self._interrupts = interrupts
        self._counters: SharedCounters | None = None
        self._state = "starting"
        self._amounts: Mapping[str, int] = {}
        self._ended = threading.Event()

    def state(self) -> str:
        """In a word."""
        return self._state

    def amounts(self) -> Mapping[str, int]:
        """By the names of ``transforms.progress``."""
        return self._counters.totals() if self._counters else self._amounts

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """A context in which the workers of this process say how far they are."""
        self._counters = SharedCounters(1)
        progress.set_listener(self._counters.listener(0))
        try:
            yield
        finally:
            progress.set_listener(None)

    @contextlib.contextmanager
    def asking(self, result: PipelineResult, server: JobServer | None) -> Iterator[None]:
        """A context in which the runner is asked."""
        thread = threading.Thread(
            target=self._ask_on, args=(result, server), name="job-progress", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._ended.set()

    def _ask_on(self, result: PipelineResult, server: JobServer | None) -> None:
        run = self._run
        while not self._ended.wait(_INTERVAL):
            self._interrupts.insist()
            if server is not None and (how := server.find_dead()) and not self._ended.is_set():
                self._interrupts.stop(BuildError(f"the job server {how}; {_GO_ON}"))
                continue
            with contextlib.suppress(Exception):  # the next answer will do
                self._state = run.runner.state(run.options, result)
                if self._counters is None:
                    self._amounts = run.runner.amounts(run.options, result) or self._amounts
