"""What the stand-in for Dataflow does with a job: what the service and its machines would.

The pipeline and the packages come from the bucket that they were staged to, each with the digest that it
was promised. Prism runs the pipeline; its workers are processes from an environment that the packages
were installed into.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import threading
import time
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.metrics import monitoring_infos
from apache_beam.portability import common_urns
from apache_beam.portability.api import (
    beam_artifact_api_pb2_grpc,
    beam_job_api_pb2,
    beam_runner_api_pb2,
)
from apache_beam.runners.portability import artifact_service
from google.cloud import dataflow
from google.protobuf import struct_pb2

from tests.clusters.dataflow_workplace import Workplace

_BOOT = Path(__file__).with_name("dataflow_boot.py")
_SECONDS = 600.0

_STATES = {
    beam_job_api_pb2.JobState.DONE: dataflow.JobState.JOB_STATE_DONE,
    beam_job_api_pb2.JobState.FAILED: dataflow.JobState.JOB_STATE_FAILED,
    beam_job_api_pb2.JobState.CANCELLED: dataflow.JobState.JOB_STATE_CANCELLED,
}
_ENDED = set(_STATES.values())


class RunningJob:
    """A job, from its request to its end.

    Attributes:
      request: what was asked for.
      staged: names of the files that were staged, with the paths they were fetched to.
      modules: what the first worker said of where the project's modules are.
    """

    def __init__(self, job_id: str, request: Any, project: str, location: str, place: Workplace):
        self.id, self.request, self.project, self.location = job_id, request, project, location
        self.staged: dict[str, Path] = {}
        self._place = place
        self._folder = place.folder / job_id
        self._state: Any = dataflow.JobState.JOB_STATE_PENDING
        self._messages: list[Any] = []
        self._cancelled = False
        self._prism_id = ""
        self._stub: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def has_ended(self) -> bool:
        return self._state in _ENDED

    @property
    def has_worker(self) -> bool:
        """Whether a worker has imported the project's modules."""
        path = self._folder / "modules.json"
        return path.exists() and path.stat().st_size > 0

    @property
    def modules(self) -> dict[str, str]:
        found = json.loads((self._folder / "modules.json").read_text())
        assert isinstance(found, dict)
        return found

    def start(self) -> None:
        self._folder.mkdir()
        self._thread.start()

    def wait(self) -> None:
        self._thread.join(_SECONDS)

    def cancel(self) -> None:
        if self.has_ended:
            return
        self._cancelled = True
        self._state = dataflow.JobState.JOB_STATE_CANCELLING
        if self._prism_id:
            with contextlib.suppress(grpc.RpcError):
                self._stub.Cancel(beam_job_api_pb2.CancelJobRequest(job_id=self._prism_id))

    def message(self) -> Any:
        """The job as the service describes it."""
        described = dataflow.Job(self.request)
        described.id, described.project_id, described.location = (
            self.id,
            self.project,
            self.location,
        )
        described.current_state = self._state
        return described

    def messages_since(self, start: str | None, pageToken: str | None = None) -> Any:  # noqa: N803
        """In pages of two, so that the client has to turn them."""
        found = [m for m in self._messages if start is None or m.time.rfc3339() >= start]
        first = int(pageToken or 0)
        more = str(first + 2) if first + 2 < len(found) else ""
        return dataflow.ListJobMessagesResponse(
            job_messages=found[first : first + 2], next_page_token=more
        )

    def metrics(self) -> Any:
        """The counters of Prism's, under the names that the service has for them."""
        updates: list[Any] = []
        if self._prism_id:
            request = beam_job_api_pb2.GetJobMetricsRequest(job_id=self._prism_id)
            with contextlib.suppress(grpc.RpcError):
                for info in self._stub.GetJobMetrics(request).metrics.attempted:
                    if _is_users(info):
                        updates += _updates(info)
        return dataflow.JobMetrics(metrics=updates)

    def _run(self) -> None:
        try:
            pipeline = self._fetch()
            worker = self._install()
            self._say("Starting 1 workers in " + self.location)
            self._submit(pipeline, worker)
        except Exception as error:  # whatever it is, the job has failed
            self._say(f"Workflow failed. Causes: {error!r}", error=True)
            self._state = dataflow.JobState.JOB_STATE_FAILED

    def _fetch(self) -> beam_runner_api_pb2.Pipeline:
        """The pipeline and what is staged with it, each with the digest that was promised."""
        options = dict(self.request.environment.sdk_pipeline_options)["options"]
        data = self._place.bucket(options["pipelineUrl"]).download_as_bytes()
        assert hashlib.sha256(data).hexdigest() == options["pipelineProtoHash"]
        pipeline = beam_runner_api_pb2.Pipeline.FromString(data)
        (environment,) = pipeline.components.environments.values()
        assert environment.urn == common_urns.environments.DOCKER.urn
        for dependency in environment.dependencies:
            assert dependency.type_urn == common_urns.artifact_types.URL.urn
            file = beam_runner_api_pb2.ArtifactUrlPayload.FromString(dependency.type_payload)
            role = beam_runner_api_pb2.ArtifactStagingToRolePayload
            name = role.FromString(dependency.role_payload).staged_name
            path = self._folder / name
            path.write_bytes(self._place.bucket(file.url).download_as_bytes())
            assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
            self.staged[name] = path
        listed = {package.name: package.location for package in self._pool.packages}
        assert set(listed) == set(self.staged), listed
        return pipeline

    @property
    def _pool(self) -> Any:
        (pool,) = self.request.environment.worker_pools
        return pool

    def _install(self) -> Path:
        """What Prism is to start as a worker."""
        names = [n for n in ("workflow.tar.gz",) if n in self.staged]
        if "extra_packages.txt" in self.staged:
            names += self.staged["extra_packages.txt"].read_text().split()
        python = self._place.python([self.staged[name] for name in names])
        command = self._folder / "worker"
        command.write_text(f'#!/bin/sh\ncd {self._folder}\nexec {python} {_BOOT} "$@"\n')
        command.chmod(0o755)
        return command

    def _submit(self, pipeline: beam_runner_api_pb2.Pipeline, worker: Path) -> None:
        (environment,) = pipeline.components.environments.values()
        environment.urn = common_urns.environments.PROCESS.urn
        environment.payload = beam_runner_api_pb2.ProcessPayload(
            command=str(worker), env={"MODULES_FILE": str(self._folder / "modules.json")}
        ).SerializeToString()
        del environment.dependencies[:]
        options = struct_pb2.Struct()
        passed = _plain(dict(self.request.environment.sdk_pipeline_options)["options"])
        options.update({f"beam:option:{name}:v1": value for name, value in passed.items()})
        self._stub = self._place.jobs()
        prepared = self._stub.Prepare(
            beam_job_api_pb2.PrepareJobRequest(
                job_name=self.request.name, pipeline=pipeline, pipeline_options=options
            )
        )
        artifact_service.offer_artifacts(
            beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(
                grpc.insecure_channel(prepared.artifact_staging_endpoint.url)
            ),
            artifact_service.ArtifactRetrievalService(None),
            prepared.staging_session_token,
        )
        started = self._stub.Run(
            beam_job_api_pb2.RunJobRequest(preparation_id=prepared.preparation_id)
        )
        self._prism_id = started.job_id
        if not self._cancelled:
            self._state = dataflow.JobState.JOB_STATE_RUNNING
        else:
            self._stub.Cancel(beam_job_api_pb2.CancelJobRequest(job_id=self._prism_id))
        self._follow()

    def _follow(self) -> None:
        ended: Any = dataflow.JobState.JOB_STATE_FAILED
        request = beam_job_api_pb2.JobMessagesRequest(job_id=self._prism_id)
        for event in self._stub.GetMessageStream(request):
            if event.HasField("message_response"):
                text = event.message_response.message_text
                level = beam_job_api_pb2.JobMessage.JOB_MESSAGE_ERROR
                failed = event.message_response.importance == level or "Traceback" in text
                self._say(text, error=failed)
            elif event.state_response.state in _STATES:
                ended = _STATES[event.state_response.state]
        # With the stream: what went wrong may be said behind the state.
        self._state = dataflow.JobState.JOB_STATE_CANCELLED if self._cancelled else ended

    def _say(self, text: str, *, error: bool = False) -> None:
        levels = dataflow.JobMessageImportance
        self._messages.append(
            dataflow.JobMessage(
                id=f"m{len(self._messages)}",
                time=datetime.datetime.now(datetime.UTC),
                message_text=text,
                message_importance=levels.JOB_MESSAGE_ERROR if error else levels.JOB_MESSAGE_BASIC,
            )
        )


def _is_users(info: Any) -> bool:
    counter: bool = monitoring_infos.is_counter(info)
    return counter and info.urn == monitoring_infos.USER_COUNTER_URN


def _updates(info: Any) -> list[Any]:
    """A counter twice, tentative and not, as the service gives it."""
    namespace, name = monitoring_infos.parse_namespace_and_name(info)
    value = monitoring_infos.extract_counter_value(info)
    context = {"namespace": namespace, "step": info.labels.get("PTRANSFORM", "")}
    return [
        dataflow.MetricUpdate(
            name=dataflow.MetricStructuredName(origin="user", name=name, context=context | more),
            scalar=value,
        )
        for more in ({}, {"tentative": "true"})
    ]


def _plain(value: Any) -> Any:
    """Protobuf's maps and lists as Python's."""
    if hasattr(value, "items"):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a Struct has no whole numbers, and a flag of those takes no 1.0
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return value
    return [_plain(each) for each in value]


def wait_for(condition: Any, *, seconds: float = _SECONDS) -> None:
    """Until it is true.

    Raises:
      TimeoutError: it has not become so.
    """
    last = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > last:
            raise TimeoutError(condition)
        time.sleep(0.1)
