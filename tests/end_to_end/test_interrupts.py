"""Builds that are told to stop, or killed: what they leave behind, and how soon."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from runners.interrupts import InterruptedBuildError, interruptible
from runners.local import _DeathWatch
from runners.workers import ForkedWorkers
from schemas.errors import BuildError
from tests.end_to_end.commands import (
    PROMPTLY,
    error_line,
    files_of,
    is_leftover,
    session_members,
    shards_of,
    wait_until_gone,
)
from tests.end_to_end.slow_corpus import FLAGS, is_reading, is_writing, make_slow_corpus

INTERRUPTED = "nothing half-written was left; run again with --resume"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_slow_corpus(tmp_path_factory.mktemp("corpus") / "slow.jsonl")


def to_the_group(signum):
    return lambda command: os.killpg(command.pid, signum)


def to_the_driver(signum):
    return lambda command: os.kill(command.pid, signum)


def to_a_worker(signum):
    return lambda command: os.kill(command.workers()[-1], signum)


def stop(commands, corpus: Path, output: Path, *, when, how, workers: int, flags=()):
    """Starts a build, stops it, and checks what holds whenever and however that is done."""
    # So many passes that writing is not over before a busy machine lets this test go on.
    long = "--dupe_factor=30"
    command = commands.build(corpus, output, f"--num_workers={workers}", *FLAGS, long, *flags)
    command.until(lambda: when(output))
    if workers > 1:
        assert len(command.workers()) == (0 if flags else workers)
    how(command)
    done = command.wait(PROMPTLY)
    wait_until_gone(command.pid, seconds=PROMPTLY if done.code < 0 else 5.0)
    assert "manifest.json" not in files_of(output)
    shards = shards_of(output)  # whole, all of them
    assert min(shards.values(), default=1) > 0
    assert bool(shards) == (when is is_writing)
    assert len(shards) < 8
    if done.code > 0:
        assert not list(filter(is_leftover, files_of(output)))
        assert not list(output.glob(".spill-*"))
    return done


@pytest.mark.parametrize(
    ("when", "workers", "how", "code", "says"),
    [
        (is_reading, 1, to_the_driver(signal.SIGINT), 130, f"interrupted; {INTERRUPTED}"),
        (is_reading, 2, to_the_driver(signal.SIGINT), 130, f"interrupted; {INTERRUPTED}"),
        (is_writing, 1, to_the_group(signal.SIGINT), 130, f"interrupted; {INTERRUPTED}"),
        (is_writing, 2, to_the_group(signal.SIGINT), 130, f"interrupted; {INTERRUPTED}"),
        (
            is_reading,
            1,
            to_the_driver(signal.SIGTERM),
            143,
            f"interrupted by SIGTERM; {INTERRUPTED}",
        ),
        (
            is_writing,
            2,
            to_the_driver(signal.SIGTERM),
            143,
            f"interrupted by SIGTERM; {INTERRUPTED}",
        ),
        (is_reading, 2, to_a_worker(signal.SIGKILL), 1, "a worker process was killed by SIGKILL; "),
        (is_writing, 2, to_a_worker(signal.SIGKILL), 1, "a worker process was killed by SIGKILL; "),
    ],
    ids=[
        "read-interrupt",
        "read-interrupt-workers",
        "write-ctrl-c",
        "write-ctrl-c-workers",
        "read-terminate",
        "write-terminate-workers",
        "read-worker-killed",
        "write-worker-killed",
    ],
)
def test_a_build_that_is_stopped_tidies_up(
    commands, corpus, tmp_path, when, workers, how, code, says
):
    done = stop(commands, corpus, tmp_path / "out", when=when, how=how, workers=workers)
    assert done.code == code
    assert error_line(done).startswith(says)


def test_a_build_that_is_killed_leaves_whole_shards(commands, corpus, tmp_path):
    # With workers: see test_resume.
    kill = to_the_driver(signal.SIGKILL)
    done = stop(commands, corpus, tmp_path / "out", when=is_writing, how=kill, workers=1)
    assert done.code == -signal.SIGKILL
    assert done.stderr == ""
    assert list(filter(is_leftover, files_of(tmp_path / "out")))


def test_beams_own_processes_end_as_promptly(commands, corpus, tmp_path):
    flags = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    done = stop(
        commands,
        corpus,
        tmp_path / "out",
        when=is_writing,
        how=to_the_driver(signal.SIGINT),
        workers=2,
        flags=flags,
    )
    assert done.code == 130
    assert error_line(done) == f"interrupted; {INTERRUPTED}"


def test_the_folder_of_the_workers_is_gone_even_if_the_driver_was_killed(
    commands, corpus, tmp_path
):
    (tmp_path / "tmp").mkdir()
    before = f"import tempfile; tempfile.tempdir = {str(tmp_path / 'tmp')!r}"
    command = commands.build(corpus, tmp_path / "out", "--num_workers=2", *FLAGS, before=before)
    command.until(lambda: list((tmp_path / "tmp").glob("bert-data-workers-*/socket")))
    command.until(lambda: is_reading(tmp_path / "out"))
    os.kill(command.pid, signal.SIGKILL)
    command.wait(PROMPTLY)
    wait_until_gone(command.pid)
    assert not list((tmp_path / "tmp").glob("bert-data*"))
    assert not session_members(command.pid)


# The context, by itself.


def test_an_interrupt_comes_out_whatever_was_made_of_it():
    called = []

    def build():
        with interruptible() as interrupts, interrupts.calling(lambda: called.append("kill")):
            try:
                signal.raise_signal(signal.SIGTERM)
            except KeyboardInterrupt as error:
                raise RuntimeError(f"{error} [while running 'Step']") from error

    with pytest.raises(InterruptedBuildError) as caught:
        build()
    assert caught.value.signum == signal.SIGTERM
    assert called == ["kill"]
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_interrupt_that_is_passed_on_twice_is_one():
    tidied = []

    def build():
        with interruptible():
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.raise_signal(signal.SIGINT)  # does not disturb the tidying up
                tidied.append(True)

    with pytest.raises(InterruptedBuildError):
        build()
    assert tidied


def test_another_interrupt_counts_if_the_first_was_lost(monkeypatch):
    monkeypatch.setattr("runners.interrupts._SAME_INTERRUPT", 0.01)
    went_on: list = []

    def build():
        with interruptible():
            with contextlib.suppress(KeyboardInterrupt):  # as in a finalizer
                signal.raise_signal(signal.SIGINT)
            time.sleep(0.02)
            signal.raise_signal(signal.SIGINT)
            went_on.append(True)

    with pytest.raises(InterruptedBuildError):
        build()
    assert not went_on


def test_a_thread_insists_if_the_interrupt_was_lost(monkeypatch):
    monkeypatch.setattr("runners.interrupts._SAME_INTERRUPT", 0.01)
    monkeypatch.setattr("runners.interrupts._LOST_INTERRUPT", 0.5)
    went_on = []

    def build():
        with interruptible() as interrupts:
            try:
                interrupts.stop(BuildError("a worker died"))
                threading.Event().wait(5)
            except KeyboardInterrupt:
                time.sleep(0.1)
                interrupts.insist()  # too early: that would disturb the tidying up
                went_on.append("a moment")
            threading.Timer(0.6, interrupts.insist).start()
            threading.Event().wait(5)
            went_on.append("for good")

    with pytest.raises(BuildError, match="a worker died"):
        build()
    assert went_on == ["a moment"]


def test_a_thread_stops_the_build_while_it_waits_for_a_lock():
    went_on = []

    def build():
        with interruptible() as interrupts:
            threading.Timer(0.05, interrupts.stop, [BuildError("a worker died")]).start()
            with contextlib.suppress(Exception):  # as Beam does in places
                threading.Event().wait(5)
            went_on.append(True)

    with pytest.raises(BuildError, match="a worker died"):
        build()
    assert not went_on


def test_what_is_ignored_stays_ignored_but_for_our_own_end():
    def build():
        with interruptible() as interrupts:
            signal.raise_signal(signal.SIGINT)
            assert interrupts.cause is None
            interrupts.stop(BuildError("a worker died"))
            threading.Event().wait(5)
            went_on.append(True)

    went_on: list[bool] = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(BuildError):
            build()
        assert not went_on
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_handlers_are_as_before_and_other_errors_are_left_alone():
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(ZeroDivisionError), interruptible():
        1 / 0
    assert before == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_in_another_thread_it_does_nothing():
    seen = []

    def build():
        with interruptible():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


# A worker's death, by itself.


class _Workers:
    """One was killed, which is known the third time that it is asked for."""

    def __init__(self):
        self.asked = 0

    def find_dead(self) -> str | None:
        self.asked += 1
        return "was killed by SIGKILL" if self.asked == 3 else None

    def are_gone(self) -> bool:
        return self.asked > 5


def fail_with(message: str, workers) -> None:
    with interruptible() as interrupts:
        watch = _DeathWatch(workers, interrupts, "use less")
        with watch.asked_first():
            raise RuntimeError(message)


def test_how_a_worker_died_is_said_if_beam_was_the_first_to_notice():
    workers = _Workers()
    with pytest.raises(BuildError, match=r"a worker process was killed by SIGKILL; .* use less"):
        fail_with("Channel closed prematurely.", workers)
    assert workers.asked == 3


def test_an_error_of_beams_own_is_said_if_no_worker_died():
    workers = _Workers()
    workers.asked = 3
    with pytest.raises(RuntimeError, match="no such coder"):
        fail_with("no such coder", workers)
    assert workers.are_gone()


@pytest.mark.parametrize(
    ("message", "workers"),
    [("[while running 'WriteExamples']", _Workers()), ("no such coder", None)],
    ids=["of a step", "no workers"],
)
def test_no_worker_is_asked_for_what_it_did_not_do(message, workers):
    with pytest.raises(RuntimeError):
        fail_with(message, workers)
    assert workers is None or not workers.asked


def test_of_several_deaths_a_signal_is_the_reason():
    workers = ForkedWorkers.__new__(ForkedWorkers)
    processes = [subprocess.Popen(["sh", "-c", end]) for end in ("exit 3", "kill -9 $$", "exit 0")]
    for process in processes:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    workers._pids = [process.pid for process in processes]
    assert workers.find_dead() == "was killed by SIGKILL"
    assert workers.are_gone()
    for process in processes:
        process.wait()
