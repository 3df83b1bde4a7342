"""The job server of a portable runner, if this command is to start one: started, watched, ended.

Beam would start it itself, leave it until the process ends, log it as a warning, take the signals'
handlers, and wait without end where it dies. So it is started here, and Beam told its address.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import grpc  # type: ignore[import-untyped]
from apache_beam.options.pipeline_options import JobServerOptions, PipelineOptions, PortableOptions
from apache_beam.runners.portability.job_server import SubprocessJobServer
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import create_runner

from runners.workers import death
from schemas.errors import BuildError

__all__ = ["JobServer", "serving"]

_LOGGER = logging.getLogger(__name__)

#: However loaded the machine is, a job server answers by then.
_START_SECONDS = 120.0
#: It is asked to end, then made to.
_END_SECONDS = 5.0

#: Runs a command, and ends it when standard input does: when the one who started it has gone. SIGTERM
#: is the command's, and is waited for.
_WATCHED = (
    'exec 3<&0; trap : TERM; "$@" </dev/null 3<&- & child=$!; '
    "{ read -r _ <&3; kill $child; sleep 5; kill -9 0; } >/dev/null 2>&1 & "
    "exec 3<&-; wait $child; code=$?; "
    "while kill -0 $child 2>/dev/null; do wait $child; code=$?; done; exit $code"
)


class JobServer:
    """A job server's process, in a session of its own that its workers are in as well.

    Args:
      command: to run.
      endpoint: where it will answer, ``HOST:PORT``.
      folder: for what it logs.
    """

    def __init__(self, command: list[str], endpoint: str, folder: Path):
        self.endpoint = endpoint
        self._log = folder / "log"
        with self._log.open("wb") as log:
            shown = sys.stderr if _LOGGER.isEnabledFor(logging.DEBUG) else log
            self._process = subprocess.Popen(
                ["sh", "-c", _WATCHED, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=shown,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Waits until it answers.

        Raises:
          BuildError: it does not, or has ended.
        """
        with grpc.insecure_channel(self.endpoint) as channel:
            ready = grpc.channel_ready_future(channel)
            last = time.monotonic() + _START_SECONDS
            while time.monotonic() < last:
                with contextlib.suppress(grpc.FutureTimeoutError):
                    ready.result(timeout=0.2)
                    return
                if how := self.find_dead():
                    raise BuildError(f"the job server {how} before it answered{self._last_words()}")
        raise BuildError(
            f"the job server does not answer after {_START_SECONDS:.0f} s; --debug shows what it says"
        )

    def find_dead(self) -> str | None:
        """How it ended, if it has."""
        code = self._process.poll()
        if code is None:
            return None
        return death(128 - code if code > 128 else code)  # as shells have it

    def close(self) -> None:
        """Ends it with all that it has started; more than once does no harm."""
        if self._process.stdin:
            self._process.stdin.close()
        for signum, seconds in ((signal.SIGTERM, _END_SECONDS), (signal.SIGKILL, None)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines()]
        said = [line for line in lines if line and not line.startswith(("at ", "..."))]
        return f": {said[-1][:300]}" if said else "; --debug shows what it says"


@contextlib.contextmanager
def serving(options: PipelineOptions, beams_name: str) -> Iterator[JobServer | None]:
    """A context in which the job server that the runner needs is there.

    Args:
      options: Beam's; are told its address.
      beams_name: of the runner.

    Yields:
      The job server; None where ``--job_endpoint`` names one, or the runner has none.

    Raises:
      BuildError: it does not start.
    """
    portable = options.view_as(PortableOptions)
    runner = create_runner(beams_name)
    if portable.job_endpoint or not isinstance(runner, PortableRunner):
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="bert-data-job-server-"))
    servers = options.view_as(JobServerOptions)
    try:
        if not servers.artifacts_dir:
            servers.artifacts_dir = str(folder / "artifacts")
        # What Java leaves there, it leaves for ever; and it takes no notice of TMPDIR.
        temporary = f"-Djava.io.tmpdir={folder}"
        servers.job_server_jvm_properties = [temporary, *servers.job_server_jvm_properties]
        found = runner.default_job_server(options)
        found = getattr(found, "_job_server", found)  # without what ends it when Python does
        if not isinstance(found, SubprocessJobServer):
            yield None
            return
        command, endpoint = found.subprocess_cmd_and_endpoint()
        server = JobServer([str(part) for part in command], endpoint, folder)
        try:
            server.wait_until_ready()
            portable.job_endpoint = endpoint
            yield server
        finally:
            server.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
