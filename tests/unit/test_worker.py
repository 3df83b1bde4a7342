"""``bert-data-worker``: what it asks the runner for, what it makes of it, and that it ends with it."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import time

import grpc  # type: ignore[import-untyped]
import pytest
from apache_beam.portability.api import beam_provision_api_pb2 as messages
from apache_beam.portability.api import beam_provision_api_pb2_grpc as services
from apache_beam.portability.api import endpoints_pb2
from apache_beam.runners.worker import sdk_worker_main
from google.protobuf import text_format

from runners import worker
from tests.builds import ROOT
from tests.end_to_end.commands import is_alive


class Provision(services.ProvisionServiceServicer):
    """Knows a job; remembers who asked."""

    def __init__(self):
        self.asked: list[str] = []

    def GetProvisionInfo(self, request, context):  # noqa: N802 - Beam's name
        self.asked += [value for key, value in context.invocation_metadata() if key == "worker_id"]
        info = messages.ProvisionInfo(runner_capabilities=["a", "b"])
        info.pipeline_options.update({"beam:option:job_name:v1": "a job"})
        info.control_endpoint.url = "localhost:1"
        info.logging_endpoint.url = "localhost:2"
        return messages.GetProvisionInfoResponse(info=info)


@pytest.fixture
def provision():
    service = Provision()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    services.add_ProvisionServiceServicer_to_server(service, server)
    service.endpoint = f"localhost:{server.add_insecure_port('localhost:0')}"
    server.start()
    yield service
    server.stop(None)


@pytest.mark.parametrize("name", ["1-1", '"1-1"'])
def test_it_becomes_beams_worker_with_what_the_runner_says(provision, monkeypatch, name):
    seen: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(worker, "_end_with", lambda runner: None)
    monkeypatch.setattr(sdk_worker_main, "main", lambda arguments: seen.update(os.environ))
    flags = [f"--id={name}", f"--provision_endpoint={provision.endpoint}", "--semi_persist_dir=/a"]
    assert worker.main(flags) == 0
    assert provision.asked == ["1-1"]
    assert seen["WORKER_ID"] == "1-1"
    assert json.loads(seen["PIPELINE_OPTIONS"]) == {"beam:option:job_name:v1": "a job"}
    assert seen["RUNNER_CAPABILITIES"] == "a b"
    for kind, url in [("CONTROL", "localhost:1"), ("LOGGING", "localhost:2")]:
        descriptor = endpoints_pb2.ApiServiceDescriptor()
        text_format.Merge(seen[f"{kind}_API_SERVICE_DESCRIPTOR"], descriptor)
        assert descriptor.url == url
    assert "STATUS_API_SERVICE_DESCRIPTOR" not in seen


def test_it_ends_with_the_one_that_started_it():
    with socket.socket() as silent:  # takes connections and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        start = (
            "import subprocess, sys, time\n"
            f"flags = ['-m', 'runners.worker', '--id=1', '--provision_endpoint={endpoint}']\n"
            "print(subprocess.Popen([sys.executable, *flags]).pid, flush=True)\n"
            "time.sleep(600)"
        )
        command = [sys.executable, "-c", start]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as runner:
            assert runner.stdout
            started = int(runner.stdout.readline())
            silent.settimeout(120)
            connection, _ = silent.accept()  # it is asking
            assert is_alive(started)
            runner.send_signal(signal.SIGKILL)
        last = time.monotonic() + 60
        while is_alive(started):
            assert time.monotonic() < last
            time.sleep(0.05)
        connection.close()
