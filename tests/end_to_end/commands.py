"""Commands of tests: started, watched, signalled and waited for."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from tests.builds import ROOT, VOCAB

#: However loaded the machine is.
PATIENCE = 300.0
#: A build that was told to stop has this long, on a machine that does more than it can.
PROMPTLY = 30.0


@dataclasses.dataclass
class Done:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str
    peak_bytes: int = 0


class Command:
    """A command that runs."""

    def __init__(self, server: CommandServer, pid: int, folder: Path):
        self._server = server
        self._folder = folder
        self.pid = pid

    def wait(self, seconds: float = PATIENCE) -> Done:
        """Its end; an error, and its end, if that does not come."""
        code = self._server.ask({"wait": self.pid, "seconds": seconds})
        stdout, stderr = ((self._folder / name).read_text() for name in ("stdout", "stderr"))
        if code is None:
            members = session_members(self.pid)
            os.killpg(self.pid, signal.SIGKILL)
            self._server.ask({"wait": self.pid, "seconds": PATIENCE})
            raise AssertionError(f"still there after {seconds} s: {members} {stdout} {stderr}")
        memory, peak = self._folder / "memory", 0
        if memory.exists():
            found = [line for line in memory.read_text().splitlines() if line.startswith("VmHWM")]
            peak = int(found[0].split()[1]) * 1024
        return Done(code, stdout, stderr, peak)

    def has_ended(self) -> bool:
        """Whether it has; nothing is left of it that would still do something."""
        return not is_alive(self.pid)

    def send_signal(self, signum: int) -> None:
        """To it alone."""
        os.kill(self.pid, signum)

    def until(self, condition: Callable[[], object]) -> None:
        """Waits for a condition, but not beyond the command's end."""
        last = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < last
            assert is_alive(self.pid), self.wait()
            time.sleep(0.005)

    def workers(self) -> list[int]:
        """Its forked processes: neither a shell nor Python's own helpers."""
        found = [pid for pid, parent, _ in processes() if parent == self.pid]
        return [pid for pid in found if b"fork_server" in _command_line(pid)]


#: Variables that count when a program is imported. gRPC's the command itself sets, too late here.
_VARIABLES = {"bert-data": {"GRPC_VERBOSITY": "NONE"}, "bert-train": {"OMP_NUM_THREADS": "1"}}


@functools.cache
def server_of(program: str) -> CommandServer:
    """The one of this process for ``bert-data`` or ``bert-train``; it ends with the process."""
    folder = Path(tempfile.mkdtemp(prefix=f"{program}-tests-"))
    server = CommandServer(folder, program=program)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.close)
    return server


class CommandServer:
    """Starts commands, see ``fork_server``.

    Args:
      folder: for what they print.
      program: ``bert-data`` or ``bert-train``.
    """

    def __init__(self, folder: Path, *, program: str):
        self._folder = folder
        self._count = 0
        self._socket = str(folder / "socket")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.fork_server", program, self._socket],
            cwd=ROOT,
            env={**os.environ, **_VARIABLES[program]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, job: dict) -> int | None:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(job), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def start(
        self, *arguments: object, before: str = "", environment: dict[str, str] | None = None
    ) -> Command:
        """Starts a command.

        Args:
          arguments: of the command line.
          before: Python to run first.
          environment: variables to set.
        """
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        job = {
            "arguments": list(map(str, arguments)),
            "stdout": str(folder / "stdout"),
            "stderr": str(folder / "stderr"),
            "memory": str(folder / "memory"),
            "environment": environment or {},
            "before": before,
        }
        pid = self.ask(job)
        assert pid
        return Command(self, pid, folder)

    def build(self, corpus: Path, output: Path, *flags: object, **keywords) -> Command:
        """Starts a build of one input."""
        fixed = ["--vocab_file", VOCAB, "--output", output]
        return self.start("build", corpus, *fixed, *flags, **keywords)

    def shell_command(self) -> str:
        """What a shell script has to exec, with its arguments behind it; the server has started then."""
        self.ask({"ready": True})
        client = Path(__file__).with_name("fork_client.py")
        return shlex.join([sys.executable, "-I", "-S", str(client), self._socket])

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(PATIENCE)


def processes() -> Iterator[tuple[int, int, int]]:
    """Process id, parent and session of everything that runs; what is dead and not buried is not."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path("/proc", name, "stat").read_text()
            except OSError:
                continue
            state, parent, _, session = text.rpartition(")")[2].split()[:4]
            if state not in "ZX":
                yield int(name), int(parent), int(session)


def is_alive(pid: int) -> bool:
    return any(found == pid for found, _, _ in processes())


def session_members(session: int) -> list[tuple[int, bytes]]:
    """Who is left of a command, workers and all."""
    return [(pid, _command_line(pid)) for pid, _, found in processes() if found == session]


def wait_until_gone(session: int, *, seconds: float = PROMPTLY) -> None:
    last = time.monotonic() + seconds
    while session_members(session):
        assert time.monotonic() < last, session_members(session)
        time.sleep(0.01)


def _command_line(pid: int) -> bytes:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return b""


def files_of(directory: Path) -> set[str]:
    """All files, as relative paths, hidden ones too."""
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if not p.is_dir()}


def shards_of(directory: Path) -> dict[str, int]:
    """The rows of every file under a shard's name; reads all of each."""
    paths = sorted(directory.glob("seq*/*.parquet"))
    tables = {str(p.relative_to(directory)): pq.read_table(p) for p in paths}
    for path, table in tables.items():
        table.validate(full=True)
        assert table.num_rows == pq.read_metadata(directory / path).num_rows
    return {path: table.num_rows for path, table in tables.items()}


def is_leftover(name: str) -> bool:
    """Whether it is a spilled file or one under a temporary name."""
    return ".spill-" in name or name.endswith(".tmp")


def error_line(done: Done) -> str:
    """The only line on stderr."""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("bert-data: error: ")
    return lines[0].removeprefix("bert-data: error: ")
