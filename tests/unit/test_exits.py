"""A command's process ends with the command, whatever is left in it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

#: A thread that Python itself would wait for.
STUCK = "import threading; threading.Thread(target=threading.Event().wait).start()\n"


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", STUCK + code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_it_ends_tidied_up_and_with_all_that_was_said():
    done = run(
        "import atexit, sys; from schemas.exits import leave\n"
        "atexit.register(print, 'tidied', end='')\n"
        "print('said', end=' ')\n"
        "leave(3)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "said tidied", "")


def test_what_is_to_be_done_last_and_never_ends_is_not_waited_for():
    done = run(
        "import atexit, schemas.exits as exits\n"
        "exits._SECONDS = 0.1\n"
        "atexit.register(threading.Event().wait)\n"
        "exits.leave(3)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_an_output_that_is_closed_changes_nothing():
    done = run(
        "import sys; from schemas.exits import leave\nprint('said'); sys.stdout.close(); leave(2)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "said\n", "")


@pytest.mark.parametrize(
    ("module", "arguments", "code"),
    [
        ("pipeline", ["--version"], 0),
        ("pipeline", ["nonsense"], 2),
        ("train", ["--help"], 0),
        ("train", ["--nonsense"], 2),
    ],
)
def test_commands_end_so(module, arguments, code):
    done = run(
        f"import runpy, sys; sys.argv[1:] = {arguments}\n"
        f"runpy.run_module({module!r}, run_name='__main__')"
    )
    assert done.returncode == code
    assert (done.stdout or done.stderr).startswith(("bert-", "usage: bert-"))


def test_installed_commands_are_these():
    scripts = importlib.metadata.distribution("bert-data").entry_points
    found = {script.name: script.value for script in scripts if "worker" not in script.name}
    assert found == {"bert-data": "pipeline.cli:command", "bert-train": "train.cli:command"}
