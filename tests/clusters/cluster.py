"""A Flink cluster of this machine, for tests and benchmarks, from what ``make runners`` fetched.

Each task manager has a folder, a log, and a table of host names of its own (``bert-data-pool`` is
another address in each), as machines would have them.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["POOL_HOST", "Cluster", "end_with_parent", "free_port", "kill_session", "start_cluster"]

#: What a task manager calls the machine that its pool of workers is on.
POOL_HOST = "bert-data-pool"

#: The C library, for what Python has no name for: ``prctl`` and its ``PR_SET_PDEATHSIG``.
_LIBC = ctypes.CDLL(None)
_SET_DEATH_SIGNAL = 1

#: However loaded the machine is.
_PATIENCE = 180.0

_LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %-5p %c{1} %m%n
"""


def free_port() -> int:
    """A port that nobody listens at just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclasses.dataclass
class TaskManager:
    """A process that runs tasks.

    Attributes:
      number: from 1 on.
      process: Java.
      log: what it says.
      pool_address: where ``POOL_HOST`` is for it.
    """

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    pool_address: str


class Cluster:
    """A job manager and its task managers.

    Attributes:
      folder: of configuration and logs.
      slots: of each task manager.
      rest: of its REST interface, ``127.0.0.1:PORT``.
      task_managers: those that were started, dead ones too.
    """

    def __init__(
        self, distribution: Path, folder: Path, *, slots: int, heap_mb: int, restarts: int
    ):
        self.folder = folder
        self.slots = slots
        self.task_managers: list[TaskManager] = []
        self._jars = [*distribution.glob("lib/*.jar")]
        self._tool = distribution / "bin" / "bash-java-utils.jar"
        self._heap_mb = heap_mb
        rest, rpc = free_port(), free_port()
        self.rest = f"127.0.0.1:{rest}"
        self._configure(rest, rpc, restarts)
        main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        self.job_manager = self._java("job-manager", main, ["-Xmx256m"])

    def _configure(self, rest: int, rpc: int, restarts: int) -> None:
        settings = {
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": rpc,
            "rest.address": "127.0.0.1",
            "rest.port": rest,
            "rest.flamegraph.enabled": "true",
            "taskmanager.host": "127.0.0.1",
            "taskmanager.numberOfTaskSlots": self.slots,
            "taskmanager.memory.task.heap.size": f"{self._heap_mb}m",
            "taskmanager.memory.managed.size": "128m",
            # A result that is sorted takes 512 buffers of 32 KB, and a task may have four of them.
            "taskmanager.memory.network.min": f"{64 * self.slots}m",
            "taskmanager.memory.network.max": f"{64 * self.slots}m",
            "heartbeat.interval": 2000,
            # A lost machine is noticed after two heartbeats; until then attempts would be for nothing.
            "restart-strategy.type": "fixed-delay" if restarts else "none",
            "restart-strategy.fixed-delay.attempts": restarts,
            "restart-strategy.fixed-delay.delay": "8 s",
            "web.tmpdir": self.folder,
            "io.tmp.dirs": self.folder,
        }
        lines = [f"{name}: {value}" for name, value in settings.items()]
        (self.folder / "config.yaml").write_text("\n".join(lines) + "\n")
        (self.folder / "log4j.properties").write_text(_LOG4J)

    def _java(
        self, name: str, main: str, flags: list[str], arguments: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        command = ["java", *flags, f"-Dlog4j.configurationFile={self.folder}/log4j.properties"]
        command += ["-cp", ":".join(map(str, self._jars)), main, "--configDir", str(self.folder)]
        with (self.folder / f"{name}.log").open("ab") as log:
            # A session of its own, so that its workers end with it; and it ends with this process.
            return subprocess.Popen(
                [*command, *arguments],
                preexec_fn=end_with_parent,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _memory(self) -> tuple[list[str], tuple[str, ...]]:
        """Java's flags for a task manager's memory, and its own."""
        main = "org.apache.flink.runtime.util.bash.BashJavaUtils"
        jars = ":".join(map(str, [self._tool, *self._jars]))
        command = ["java", "-Xmx64m", "-cp", jars, main, "GET_TM_RESOURCE_PARAMS"]
        done = subprocess.run(
            [*command, "--configDir", str(self.folder)], capture_output=True, text=True, check=True
        )
        mark = "BASH_JAVA_UTILS_EXEC_RESULT:"
        found = [line.removeprefix(mark) for line in done.stdout.splitlines() if mark in line]
        return found[0].split(), tuple(found[1].split())

    def add_task_manager(self) -> TaskManager:
        """Starts another one; does not wait for it."""
        number = len(self.task_managers) + 1
        name, address = f"task-manager-{number}", f"127.0.0.{number + 1}"
        hosts = self.folder / f"{name}.hosts"
        hosts.write_text(
            f"127.0.0.1 localhost\n127.0.0.1 {socket.gethostname()}\n{address} {POOL_HOST}\n"
        )
        flags, arguments = self._memory()
        flags = [*flags, f"-Djdk.net.hosts.file={hosts}"]
        main = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        process = self._java(name, main, flags, arguments)
        added = TaskManager(number, process, self.folder / f"{name}.log", address)
        self.task_managers.append(added)
        return added

    def ask(self, path: str) -> Any:
        """What REST has under a path."""
        with urllib.request.urlopen(f"http://{self.rest}{path}", timeout=10) as answer:
            return json.load(answer)

    def wait_for(self, task_managers: int) -> None:
        """Waits until so many have registered."""
        last = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError):
                if self.ask("/overview")["taskmanagers"] == task_managers:
                    return
            assert time.monotonic() < last, self.logs()
            assert self.job_manager.poll() is None, self.logs()
            time.sleep(0.2)

    def logs(self) -> str:
        """The ends of all logs, for whoever has to find out why."""
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-60:])
            for path in sorted(self.folder.glob("*.log"))
        )

    def kill(self) -> None:
        """Ends all of it at once, and the workers with it."""
        processes = [self.job_manager, *(each.process for each in self.task_managers)]
        for process in processes:
            kill_session(process)


def end_with_parent() -> None:
    """Has the kernel kill this process when the one that started it has gone, however it went."""
    _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that has a session of its own, and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def start_cluster(
    distribution: Path,
    folder: Path,
    *,
    task_managers: int,
    slots: int = 1,
    heap_mb: int = 300,
    restarts: int = 0,
) -> Iterator[Cluster]:
    """A context with a cluster whose task managers have registered; it is killed at the end.

    Args:
      distribution: what ``make runners`` unpacked.
      folder: for configuration and logs.
      task_managers: how many.
      slots: of each.
      heap_mb: of each, for tasks.
      restarts: how often a job is tried again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(distribution, folder, slots=slots, heap_mb=heap_mb, restarts=restarts)
    try:
        for _ in range(task_managers):
            cluster.add_task_manager()
        cluster.wait_for(task_managers)
        yield cluster
    finally:
        cluster.kill()


def main(arguments: list[str]) -> None:
    """Starts a cluster and keeps it until it is interrupted: ``cluster.py .runners FOLDER 2``."""
    runners, folder, task_managers = arguments
    with start_cluster(
        Path(runners, "flink"), Path(folder).resolve(), task_managers=int(task_managers)
    ) as cluster:
        print(cluster.rest, flush=True)
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
