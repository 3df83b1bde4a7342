"""The command ``bert-data-worker``: what a runner starts on its machines to run our steps.

Beam's runners start a worker as its container is started, with its name and the address of a service that
has everything else: ``bert-data-worker --id=1-1 --provision_endpoint=localhost:40000``. So
this command goes wherever a runner takes one: ``--environment_type=PROCESS``, or
``--container_executable`` of Beam's pool of workers. It installs nothing: the package is there.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

__all__ = ["main", "settings_of"]

#: What the runner says, and the variable that Beam's worker reads it from.
_ENDPOINTS = {
    "logging_endpoint": "LOGGING_API_SERVICE_DESCRIPTOR",
    "control_endpoint": "CONTROL_API_SERVICE_DESCRIPTOR",
    "status_endpoint": "STATUS_API_SERVICE_DESCRIPTOR",
}

#: Seconds that a runner may take to answer.
_PATIENCE = 120.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Works until the runner has no more for it; 0 then."""
    parser = argparse.ArgumentParser(prog="bert-data-worker", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--id", required=True, help="the worker's name, as the runner wants it back"
    )
    parser.add_argument("--provision_endpoint", required=True, help="who knows everything else")
    given, _ = parser.parse_known_args(arguments)  # which runners add others to
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    worker_id = given.id.strip("'\"")  # Prism puts quotes around it
    os.environ.update(settings_of(provision(given.provision_endpoint, worker_id), worker_id))

    from apache_beam.runners.worker import sdk_worker_main

    import transforms  # noqa: F401 - decides where compiled kernels are kept, before numba is imported

    sdk_worker_main.main([])
    return 0


def provision(endpoint: str, worker_id: str) -> Any:
    """What the service has for a worker, Beam's ``ProvisionInfo``."""
    import grpc  # type: ignore[import-untyped]
    from apache_beam.portability.api import beam_provision_api_pb2 as messages
    from apache_beam.portability.api import beam_provision_api_pb2_grpc as services

    with grpc.insecure_channel(endpoint) as channel:
        service = services.ProvisionServiceStub(channel)
        return service.GetProvisionInfo(
            messages.GetProvisionInfoRequest(),
            metadata=[("worker_id", worker_id)],
            timeout=_PATIENCE,
            wait_for_ready=True,
        ).info


def settings_of(info: Any, worker_id: str) -> dict[str, str]:
    """The environment variables that Beam's worker reads, of a ``ProvisionInfo``."""
    from google.protobuf import json_format, text_format

    settings = {
        "WORKER_ID": worker_id,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    for field, name in _ENDPOINTS.items():
        if info.HasField(field):
            settings[name] = text_format.MessageToString(getattr(info, field))
    return settings


def _end_with(runner: int) -> None:
    """Ends this process when the one that started it is gone, however it went."""
    while os.getppid() == runner:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
