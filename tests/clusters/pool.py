"""A pool of workers that listens at one address, as one on a machine of its own would.

Beam's ``worker_pool_main`` listens at every address of the machine, so that here are never two of them
at the same port.

    python -m tests.clusters.pool 127.0.0.2:50000 /path/of/bert-data-worker
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.builds import ROOT
from tests.clusters.cluster import end_with_parent, kill_session

__all__ = ["start_pool"]


@contextlib.contextmanager
def start_pool(address: str, command: str, *, log: str) -> Iterator[None]:
    """A context with a pool at ``HOST:PORT`` that starts workers with ``command``."""
    host, _, port = address.rpartition(":")
    # Beam's own where it will do.
    module = ["apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    module += [f"--container_executable={command}"]
    if host != "localhost":
        module = ["tests.clusters.pool", address, command]
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    try:
        last = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection((host, int(port)), timeout=5).close()
                break
            assert process.poll() is None, Path(log).read_text()
            assert time.monotonic() < last
            time.sleep(0.2)
        yield
    finally:
        kill_session(process)


def main(arguments: list[str]) -> None:
    """Is the pool, until it is killed."""
    import grpc  # type: ignore[import-untyped]
    from apache_beam.portability.api import beam_fn_api_pb2_grpc as services
    from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
    from apache_beam.utils import thread_pool_executor

    address, command = arguments
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    pool = BeamFnExternalWorkerPoolServicer(use_process=True, container_executable=command)
    services.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    assert server.add_insecure_port(address)
    server.start()
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
