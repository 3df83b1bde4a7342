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


@pytest.mark.parametrize(
    ("code", "exit_code", "said"),
    [
        (
            "import atexit; atexit.register(print, 'tidied', end=''); print('said', end=' ')",
            3,
            "said tidied",
        ),
        ("import atexit; exits._SECONDS = 0.1; atexit.register(threading.Event().wait)", 3, ""),
        ("import sys; print('said'); sys.stdout.close()", 2, "said\n"),
    ],
    ids=["tidied up, all said", "what is done last never ends", "the output is closed"],
)
def test_it_ends(code, exit_code, said):
    done = run(f"import schemas.exits as exits; {code}; exits.leave({exit_code})")
    assert (done.returncode, done.stdout, done.stderr) == (exit_code, said, "")


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
