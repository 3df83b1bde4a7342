"""Runs a build on this machine: in this process when there is little to do, else one worker a core.

The runner is always Beam's ``FnApiRunner``, chosen explicitly: ``DirectRunner`` first looks for Prism, a
Go binary it would download, and ignores the worker flags.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import apache_beam as beam
import grpc  # type: ignore[import-untyped]
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from runners.errors import is_of_a_step, translated
from runners.interrupts import Interrupts
from runners.progress import BUILDING, ProgressDisplay, SharedCounters, Wording
from runners.proxies import no_proxy_for_localhost
from runners.workers import ForkedWorkers, SpawnedWorkers, Workers, can_fork, death
from schemas.errors import BuildError
from transforms import progress

__all__ = ["LocalRun", "run_locally"]

#: Beam's threads that wait for the end of a worker's process; and what they say when it failed.
_WAITING_THREAD = "run_worker"
_PROCESS_ENDED = r"Worker subprocess exited with return code (-?\d+)"

#: For what follows a worker's death: the end of Beam's threads, and word of it.
_WAIT_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class LocalRun:
    """How a local run goes.

    Attributes:
      workers: processes; 1 is this one.
      beam_args: Beam's own flags; ``--direct_running_mode`` or ``--direct_num_workers`` there
        overrule ``workers``.
      raw_bytes, blocks: for the progress display.
      quiet: no progress display.
      wording: what the display says.
      less_memory: what to do if the machine has too little memory.
      go_on: what to do after an error of the system.
    """

    workers: int
    beam_args: Sequence[str]
    raw_bytes: int
    blocks: int
    quiet: bool = False
    wording: Wording = BUILDING
    less_memory: str = "use fewer --num_workers or more --num_shards, then go on with --resume"
    go_on: str = "mend that and go on with --resume"


def run_locally(
    construct: Callable[[beam.Pipeline], None],
    run: LocalRun,
    *,
    interrupts: Interrupts,
    warm_up: Callable[[], None],
) -> None:
    """Builds the graph with ``construct`` and runs it to its end.

    Args:
      construct: wires everything into the pipeline it is given.
      run: how.
      interrupts: of the context ``interruptible`` that all of it is in.
      warm_up: loads what every worker needs; called once, before there are workers.

    Raises:
      BuildError: or another of ``schemas.errors``, as it was raised on a worker; or a worker died.
      InterruptedBuildError: see ``runners.interrupts``.
    """
    options = PipelineOptions(list(run.beam_args))
    direct = options.view_as(DirectOptions)
    counters = SharedCounters(run.workers + 1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_proxy_for_localhost())
        workers = _start_workers(run, direct, counters, warm_up=warm_up)
        watch = stack.enter_context(_DeathWatch(workers, interrupts, run.less_memory))
        if workers is None:
            runner = FnApiRunner()
            progress.set_listener(counters.listener(run.workers))
            stack.callback(progress.set_listener, None)
        else:
            stack.callback(workers.close)
            stack.enter_context(interrupts.calling(workers.kill))
            runner = FnApiRunner(SubprocessSDKEnvironment.from_command_string(workers.command))
        stack.enter_context(
            ProgressDisplay(
                counters,
                raw_bytes=run.raw_bytes,
                blocks=run.blocks,
                quiet=run.quiet,
                wording=run.wording,
                check=watch.check,
            )
        )
        pipeline = beam.Pipeline(runner=runner, options=options)
        construct(pipeline)
        with translated(go_on=run.go_on), watch.asked_first():
            pipeline.run().wait_until_finish()


def _start_workers(
    run: LocalRun, direct: DirectOptions, counters: SharedCounters, *, warm_up: Callable[[], None]
) -> Workers | None:
    """Worker processes; None if Beam is to work in this one, alone or with threads."""
    beams_own = direct.direct_running_mode == "multi_processing"
    if beams_own:
        direct.direct_running_mode = "in_memory"  # by a command that is known here
    elif (direct.direct_running_mode, direct.direct_num_workers) != ("in_memory", 1):
        return None
    else:
        if run.workers == 1:
            return None
        direct.direct_num_workers = run.workers
    warm_up()  # new processes profit too: kernels that were not compiled yet are, once and not in each
    if beams_own or not can_fork():
        return SpawnedWorkers()
    return ForkedWorkers(
        run.workers, on_start=lambda number: progress.set_listener(counters.listener(number))
    )


class _DeathWatch:
    """A context that ends the run when a worker process dies, and says so.

    Beam would wait for it without end, or say no more than that a channel was closed.

    While it is open, nothing is said of threads of Beam's that fail because of it.
    """

    def __init__(self, workers: Workers | None, interrupts: Interrupts, less_memory: str):
        self._workers = workers
        self._interrupts = interrupts
        self._less_memory = less_memory
        self._lost: str | None = None
        self._excepthook = threading.excepthook

    def check(self) -> None:
        """Looks whether one has died; called in another thread, again and again."""
        self._interrupts.insist()
        if self._workers is None or self._interrupts.cause is not None:
            return
        lost = self._lost  # before the look at the workers, who know better how it died
        if how := self._workers.find_dead() or lost:
            remedy = (
                f"if the machine ran out of memory, {self._less_memory}"
                if how.startswith("was killed")
                else "--debug shows why"
            )
            self._interrupts.stop(BuildError(f"a worker process {how}; {remedy}"))

    @contextlib.contextmanager
    def asked_first(self) -> Iterator[None]:
        """A context in which an error of Beam's own is none yet: a worker's death may be behind it."""
        try:
            yield
        except Exception as error:  # whatever Beam makes of it
            if self._workers is not None and not is_of_a_step(error):
                last = time.monotonic() + _WAIT_SECONDS
                while not self._workers.are_gone() and time.monotonic() < last:
                    self.check()
                    if self._interrupts.cause is not None:
                        break
                    time.sleep(0.05)
                time.sleep(0.2)  # the other thread's interrupt may be on its way
            raise

    def __enter__(self) -> _DeathWatch:
        threading.excepthook = self._on_thread_failure
        return self

    def __exit__(self, *unused: object) -> None:
        # The processes have been ended, so these do.
        for thread in threading.enumerate():
            if thread.name == _WAITING_THREAD:
                thread.join(_WAIT_SECONDS)
        threading.excepthook = self._excepthook

    def _on_thread_failure(self, failure: threading.ExceptHookArgs) -> None:
        """Beam's thread that waits for a worker's process fails when that does."""
        if found := re.fullmatch(_PROCESS_ENDED, str(failure.exc_value)):
            self._lost = death(int(found[1]))
        elif not isinstance(failure.exc_value, grpc.RpcError):
            self._excepthook(failure)
