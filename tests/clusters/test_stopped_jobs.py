"""Builds on portable runners that are stopped, or lose their job server: what is left, what goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.builds import build_here, digests
from tests.clusters.job_servers import RUNNERS, flags_of
from tests.end_to_end.commands import (
    error_line,
    files_of,
    is_leftover,
    processes,
    session_members,
    shards_of,
    wait_until_gone,
)
from tests.end_to_end.slow_corpus import FLAGS, is_writing, make_slow_corpus

pytestmark = [pytest.mark.runners, pytest.mark.timeout(900)]

INTERRUPTED = "nothing half-written was left; run again with --resume"

#: However loaded the machine is; a job server has 5 seconds to end, a step 10.
PATIENCE = 60.0

#: A worker's thread takes its time to say that its step was ended: the command has said why by then.
LATE = """
import atexit, time, traceback
said = traceback.format_exc
traceback.format_exc = lambda: (said(), time.sleep(0.2))[0]
atexit.register(time.sleep, 1.0)
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_slow_corpus(tmp_path_factory.mktemp("corpus") / "slow.jsonl")


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    output = tmp_path_factory.mktemp("local") / "data"
    settings = {"num_shards": 8, "dupe_factor": 10, "max_reject_fraction": 1.0}
    build_here(corpus, output=output, sentence_splitter="none", **settings)
    return digests(output)


def server_of(command) -> int:
    """The session of the command's job server."""
    found = [session for pid, parent, session in processes() if parent == command.pid]
    (session,) = {each for each in found if each != command.pid}
    return session


def kill_the_server(command) -> None:
    for pid, line in session_members(server_of(command)):
        if Path(os.fsdecode(line.split(b"\0")[0])).name != "sh":
            os.kill(pid, signal.SIGKILL)


def stopped(commands, corpus, output, how, flags):
    """A build that is stopped once it writes; nothing of it is left, whatever stopped it."""
    command = commands.build(corpus, output, *FLAGS, *flags, before=LATE)
    command.until(lambda: is_writing(output))
    server = server_of(command)
    how(command)
    done = command.wait(PATIENCE)
    wait_until_gone(command.pid, seconds=PATIENCE)
    wait_until_gone(server, seconds=PATIENCE)
    assert "manifest.json" not in files_of(output)
    assert not list(filter(is_leftover, files_of(output)))
    assert min(shards_of(output).values()) > 0
    done.stderr = "".join(f"{s}\n" for s in done.stderr.splitlines() if " s: " not in s)
    return done


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        (lambda c: os.killpg(c.pid, signal.SIGINT), 130, f"interrupted; {INTERRUPTED}"),
        (lambda c: os.kill(c.pid, signal.SIGTERM), 143, f"interrupted by SIGTERM; {INTERRUPTED}"),
        (kill_the_server, 1, "the job server was killed by SIGKILL; go on with --resume"),
    ],
    ids=["Ctrl-C", "SIGTERM", "server"],
)
@pytest.mark.parametrize("runner", RUNNERS)
def test_nothing_is_left_and_resume_goes_on(
    commands, runners, corpus, expected, tmp_path, runner, how, code, says
):
    output, flags = tmp_path / "out", flags_of(runner, runners)
    done = stopped(commands, corpus, output, how, flags)
    assert (done.code, error_line(done)) == (code, says)
    if runner == "prism":
        resumed = commands.build(corpus, output, "--resume", *FLAGS, *flags).wait(600)
        assert resumed.code == 0, resumed.stderr
        assert digests(output) == expected


def test_the_job_server_ends_with_a_command_that_is_killed(commands, runners, corpus, tmp_path):
    output = tmp_path / "out"
    command = commands.build(corpus, output, *FLAGS, *flags_of("prism", runners))
    command.until(lambda: is_writing(output))
    server = server_of(command)
    os.kill(command.pid, signal.SIGKILL)
    assert command.wait(PATIENCE).code == -signal.SIGKILL
    wait_until_gone(server, seconds=PATIENCE)


def test_a_job_server_that_does_not_start_says_why(commands, runners, corpus, tmp_path):
    prism = tmp_path / "prism"
    prism.write_text("#!/bin/sh\necho no such port\nexit 3\n")
    prism.chmod(0o755)
    flags = ["--runner=prism", f"--prism_location={prism}"]
    done = commands.build(corpus, tmp_path / "out", *FLAGS, *flags).wait(600)
    assert done.code == 1
    assert error_line(done) == (
        "the job server ended with exit code 3 before it answered: no such port"
    )
