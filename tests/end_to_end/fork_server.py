"""Runs ``bert-data`` in processes forked from one that has imported everything: seconds saved each.

A line of JSON on stdin is a command to start (its process id is answered) or a process to wait for
(its exit code, or null). Each has a session of its own, as from a terminal.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pipeline.cli import main
from pipeline.config import BuildConfig
from pipeline.prepare import prepare
from pipeline.run import warm_up

DATA = Path(__file__).resolve().parents[1] / "data"


def start(job: dict) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    for descriptor, path in enumerate([os.devnull, job["stdout"], job["stderr"]]):
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags if descriptor else os.O_RDONLY, 0o666), descriptor)
    os.environ.update(job["environment"])
    exec(job["before"], {})
    code = main(job["arguments"])
    if job["memory"]:
        Path(job["memory"]).write_text(Path("/proc/self/status").read_text())
    sys.exit(code)


def wait(pid: int, seconds: float) -> int | None:
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


def serve() -> None:
    config = BuildConfig(
        input=(str(DATA / "sentences.txt"),), vocab_file=str(DATA / "vocab.txt"), output=os.devnull
    )
    warm_up(prepare(config).job)  # the kernels
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        job = json.loads(line)
        answer = wait(job["wait"], job["seconds"]) if "wait" in job else start(job)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve()
