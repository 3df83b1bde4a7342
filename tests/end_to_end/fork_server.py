"""Runs commands in processes forked from one that has imported everything: seconds saved each.

    python -m tests.end_to_end.fork_server bert-data SOCKET

A line of JSON on stdin is a command to start (its process id is answered), a process to wait for
(its exit code, or null), or a question whether all is loaded. Each command has a session of its own,
as from a terminal. The socket is for ``fork_client.py``, which a shell starts in a command's place.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from schemas.exits import leave

DATA = Path(__file__).resolve().parents[1] / "data"

Main = Callable[[list[str]], int]


def load_data() -> Main:
    """``bert-data``, with its kernels."""
    from pipeline.cli import main
    from pipeline.config import BuildConfig
    from pipeline.prepare import prepare
    from pipeline.run import warm_up

    config = BuildConfig(
        input=(str(DATA / "sentences.txt"),), vocab_file=str(DATA / "vocab.txt"), output=os.devnull
    )
    warm_up(prepare(config).job)
    return main


def load_train() -> Main:
    """``bert-train``, with torch and what it imports late."""
    import matplotlib.figure  # noqa: F401
    import transformers.models.bert.modeling_bert  # noqa: F401

    import train.train  # noqa: F401
    from train.cli import main

    return main


PROGRAMS = {"bert-data": load_data, "bert-train": load_train}


def start(main: Main, job: dict) -> int:
    """A process with a session of its own."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # also where tests run in the background
    for descriptor, path in enumerate([os.devnull, job["stdout"], job["stderr"]]):
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags if descriptor else os.O_RDONLY, 0o666), descriptor)
    os.environ.update(job["environment"])
    exec(job["before"], {})
    code = main(job["arguments"])
    Path(job["memory"]).write_text(Path("/proc/self/status").read_text())
    return leave(code)


def wait(pid: int, seconds: float) -> int | None:
    """The exit code of a process; None if it has not ended by then."""
    last = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= last:
            return None
        time.sleep(0.01)


def serve_client(main: Main, connection: socket.socket) -> None:
    """Is the command that a shell has started, with its folder and its descriptors."""
    request, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    job = json.loads(request)
    pid = os.fork()
    if not pid:
        os.chdir(job["folder"])
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
        leave(main(job["arguments"]))
    for descriptor in descriptors:
        os.close(descriptor)
    _, status = os.waitpid(pid, 0)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def serve(main: Main, path: str) -> None:
    """Until stdin ends."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    answers = os.fdopen(os.dup(1), "w")
    # A question is one line, and answered before the next: nothing is left in the buffer.
    while True:
        ready, _, _ = select.select([sys.stdin, listener], [], [])
        if listener in ready:
            with listener.accept()[0] as connection:
                serve_client(main, connection)
            continue
        line = sys.stdin.readline()
        if not line:
            return
        job = json.loads(line)
        if "wait" in job:
            answer = wait(job["wait"], job["seconds"])
        else:
            answer = None if "ready" in job else start(main, job)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(PROGRAMS[sys.argv[1]](), sys.argv[2])
