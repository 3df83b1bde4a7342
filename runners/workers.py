"""Worker processes of the local runner: forked once everything is imported and loaded, or spawned.

Beam starts a Python process for each worker, which imports Beam, numba and the rest again: seconds
that a build of a minute's text notices. Here the driver imports and loads first, then forks; Beam is
given a command (``runners.attach``) that hands its settings to one of the waiting processes. They
share the loaded memory, and they end with the driver, however that ends.

Where forking is not safe, Beam's own way is taken, but for what makes the processes known here.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["ForkedWorkers", "SpawnedWorkers", "Workers", "can_fork", "death", "spawned"]

_LOGGER = logging.getLogger(__name__)

#: Ctrl-C reaches the whole process group, ``systemd stop`` every process: the driver decides.
_LEFT_TO_THE_DRIVER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def can_fork() -> bool:
    """Whether forked workers are safe here: elsewhere than on Linux, system libraries object."""
    return sys.platform == "linux" and threading.active_count() == 1


def death(exit_code: int) -> str:
    """How a process ended, as a predicate; the code as ``subprocess`` has it."""
    with contextlib.suppress(ValueError):  # no signal has that number
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code if exit_code >= 0 else 128 - exit_code}"


class Workers(abc.ABC):
    """Processes that Beam gets hold of by a command, in a folder of their own."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="bert-data-workers-")

    @property
    @abc.abstractmethod
    def command(self) -> str:
        """The command line, of a shell, with which Beam gets hold of one of the processes."""

    def find_dead(self) -> str | None:
        """How a worker died, if one did and it is known."""
        return None

    def are_gone(self) -> bool:
        """Whether all have ended, and it is known how."""
        return False

    @abc.abstractmethod
    def kill(self) -> None:
        """Ends the processes that are still there, at once."""

    def close(self) -> None:
        """Ends everything; more than once does no harm."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _shell(command: Sequence[str], before: str = "") -> str:
        # The shell becomes the command, which leaves Ctrl-C to the driver.
        return f"trap '' INT TERM HUP; {before}exec {shlex.join(command)}"


class SpawnedWorkers(Workers):
    """New processes that Beam starts itself."""

    @property
    def command(self) -> str:
        """See ``Workers``."""
        program = f"from runners.workers import spawned; spawned({os.getpid()}, {self.folder!r})"
        before = f"echo $$ >> {shlex.quote(self._pid_file)}; "
        if not _LOGGER.isEnabledFor(logging.DEBUG):
            before += "exec 2>/dev/null; "
        return self._shell([sys.executable, "-c", program], before)

    def kill(self) -> None:
        """See ``Workers``."""
        with contextlib.suppress(FileNotFoundError):
            for pid in Path(self._pid_file).read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    @property
    def _pid_file(self) -> str:
        return os.path.join(self.folder, "pids")


class ForkedWorkers(Workers):
    """Forked processes, each waiting to become one Beam worker.

    Args:
      size: how many.
      on_start: called in each with its number from 0, before it waits.

    Make it while the process has a single thread and before any gRPC channel is open.
    """

    def __init__(self, size: int, *, on_start: Callable[[int], None]):
        super().__init__()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        directory = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        self._listener.bind(f"/proc/self/fd/{directory}/socket")  # see runners.attach
        os.close(directory)
        self._listener.listen(size)
        # Nobody ever writes: the end of the driver closes it, and the workers see that.
        self._driver_gone, self._driver_alive = os.pipe()
        self._pids: list[int] = []
        try:
            for number in range(size):
                self._pids.append(self._fork(number, on_start))
        except OSError:
            self.close()
            raise
        finally:
            self._listener.close()
            os.close(self._driver_gone)

    @property
    def command(self) -> str:
        """See ``Workers``."""
        attach = Path(__file__).with_name("attach.py")
        return self._shell([sys.executable, "-I", "-S", str(attach), self.folder])

    def find_dead(self) -> str | None:
        """See ``Workers``."""
        codes = []
        for pid in list(self._pids):
            with contextlib.suppress(ChildProcessError):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    self._pids.remove(pid)
                    codes.append(os.waitstatus_to_exitcode(status))
        # Signals, which are negative, first: others may have ended because of that one.
        failed = sorted(code for code in codes if code)
        return death(failed[0]) if failed else None

    def are_gone(self) -> bool:
        """See ``Workers``."""
        return not self._pids

    def kill(self) -> None:
        """See ``Workers``."""
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """See ``Workers``."""
        super().close()
        for pid in self._pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._pids = []
        with contextlib.suppress(OSError):
            os.close(self._driver_alive)
        self._driver_alive = -1  # its number may be another file's by now

    def _fork(self, number: int, on_start: Callable[[int], None]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _LEFT_TO_THE_DRIVER)
        try:
            pid = os.fork()
            if not pid:
                self._be_worker(number, on_start)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _LEFT_TO_THE_DRIVER)
        return pid

    def _be_worker(self, number: int, on_start: Callable[[int], None]) -> NoReturn:
        code = 1
        try:
            for signum in _LEFT_TO_THE_DRIVER:
                signal.signal(signum, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _LEFT_TO_THE_DRIVER)
            os.close(self._driver_alive)
            threading.Thread(target=self._end_with_driver, daemon=True).start()
            on_start(number)
            _serve(self._listener)
            code = 0
        except BaseException:
            if _LOGGER.isEnabledFor(logging.DEBUG):
                traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)

    def _end_with_driver(self) -> NoReturn:
        os.read(self._driver_gone, 1)
        shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(1)


def spawned(driver: int, folder: str) -> None:
    """Is a Beam worker in a new process, which ends with the driver, by its process id."""

    def end_with_driver() -> None:
        while os.getppid() == driver:
            time.sleep(0.2)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=end_with_driver, daemon=True).start()
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])


def _serve(listener: socket.socket) -> None:
    """Waits for one connection, then is a Beam worker until Beam has no more work."""
    connection, _ = listener.accept()
    listener.close()
    received = b""
    while chunk := connection.recv(1 << 16):
        received += chunk
    for setting in received.decode().split("\0"):
        name, _, value = setting.partition("=")
        os.environ[name] = value
    # Beam logs, prints and sends every traceback: to be sent to the driver, which says it once, is
    # enough. What the libraries' C code has to say goes to the descriptor as always.
    logging.getLogger().handlers.clear()
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for good
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])
    connection.sendall(b"0")
