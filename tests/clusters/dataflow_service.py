"""A stand-in for Dataflow: the part of its REST interface that Beam's client uses, on localhost.

What a request says is held to the messages of the client library, which are those of the service, and
to what the service asks of them. What becomes of a job is in ``dataflow_jobs``.
"""

from __future__ import annotations

import datetime
import json
import re
import threading
import urllib.parse
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.cloud import dataflow
from google.protobuf import json_format

from tests.clusters.dataflow_jobs import RunningJob
from tests.clusters.dataflow_workplace import Workplace

#: Queries that say how an answer is to be written.
_FORM = {"$alt": "json;enum-encoding=int", "alt": "json"}

_LABEL = re.compile(r"[a-z0-9_-]{0,63}")
_JOBS = r"/v1b3/projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/jobs"


class RefusedError(ValueError):
    """A request that the service would answer with an error of the client's."""


class DataflowService:
    """A context: the service, with what it was asked for.

    Attributes:
      jobs: by id, in the order in which they were made.
      on_create: called with each new job before it runs.
      refused: what was wrong with requests.
    """

    def __init__(self, folder: Path, *, prism: Path, storage: str):
        self.jobs: dict[str, RunningJob] = {}
        self.on_create: Callable[[RunningJob], None] | None = None
        self.refused: list[str] = []
        self._workplace = Workplace(folder, prism=prism, storage=storage)
        self._server = ThreadingHTTPServer(("localhost", 0), _handler(self))

    @property
    def endpoint(self) -> str:
        return f"http://localhost:{self._server.server_address[1]}/"

    def __enter__(self) -> DataflowService:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *unused: object) -> None:
        for job in self.jobs.values():
            job.cancel()
        self._server.shutdown()
        self._server.server_close()
        self._workplace.close()

    def create(self, project: str, location: str, body: bytes) -> Any:
        """``projects.locations.jobs.create``."""
        message = dataflow.Job.pb(dataflow.Job())
        try:
            json_format.Parse(body, message, ignore_unknown_fields=False)
        except json_format.ParseError as error:
            raise RefusedError(str(error)) from error
        request = dataflow.Job.wrap(message)
        check_request(request)
        active = [j for j in self.jobs.values() if not j.has_ended]
        if any(j.request.name == request.name for j in active):
            return next(j for j in active if j.request.name == request.name).message()
        now = datetime.datetime.now(datetime.UTC)
        job_id = f"{now:%Y-%m-%d_%H_%M_%S}-{uuid.uuid4().int % 10**19}"
        job = RunningJob(job_id, request, project, location, self._workplace)
        self.jobs[job_id] = job
        if self.on_create:
            self.on_create(job)
        job.start()
        return job.message()

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> Any:
        """The message that a request is answered with."""
        others = {k: v for k, v in query.items() if _FORM.get(k) != v}
        if match := re.fullmatch(_JOBS, path):
            if method == "POST" and not others:
                return self.create(match["project"], match["location"], body)
            raise RefusedError(f"{method} {path} {others}")
        match = re.fullmatch(_JOBS + r"/(?P<id>[^/]+)(?P<what>/messages|/metrics)?", path)
        job = self.jobs.get(match["id"]) if match else None
        if match is None or job is None:
            raise KeyError(path)
        if (match["project"], match["location"]) != (job.project, job.location):
            raise KeyError(path)
        if match["what"] == "/messages" and method == "GET":
            return job.messages_since(others.pop("startTime", None), **others)
        if match["what"] == "/metrics" and method == "GET":
            return job.metrics()
        if match["what"] is None and method == "PUT":
            asked = dataflow.Job.pb(dataflow.Job())
            json_format.Parse(body, asked, ignore_unknown_fields=False)
            if asked.requested_state != dataflow.JobState.JOB_STATE_CANCELLED:
                raise RefusedError(f"requested_state {asked.requested_state}")
            job.cancel()
            return job.message()
        if match["what"] is None and method == "GET":
            return job.message()
        raise RefusedError(f"{method} {path}")


def check_request(job: Any) -> None:
    """What the service asks of a batch job of Beam's Python, and what this project promises.

    Raises:
      RefusedError: something is missing or malformed.
    """
    environment, pools = job.environment, list(job.environment.worker_pools)
    options = dict(environment.sdk_pipeline_options or {}).get("options") or {}
    pool = pools[0] if pools else dataflow.WorkerPool()
    images = list(pool.sdk_harness_container_images)
    wanted = {
        "name": re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", job.name),
        "type": job.type_ == dataflow.JobType.JOB_TYPE_BATCH,
        "client_request_id": job.client_request_id,
        "no id, state or steps yet": not (job.id or job.current_state or job.steps),
        "labels": all(
            re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key) and _LABEL.fullmatch(value)
            for key, value in job.labels.items()
        ),
        "a pool": len(pools) == 1,
        "environment.version": dict(environment.version or {}).get("job_type") == "FNAPI_BATCH",
        "environment.user_agent": "Python" in dict(environment.user_agent or {}).get("name", ""),
        "environment.temp_storage_prefix": environment.temp_storage_prefix.startswith(
            "storage.googleapis.com/"
        ),
        "experiment use_runner_v2": "use_runner_v2" in environment.experiments,
        "pool.machine_type": pool.machine_type,
        "pool.disk_size_gb": pool.disk_size_gb >= 25,
        "pool.num_threads_per_worker": pool.num_threads_per_worker > 0,
        "pool.max_num_workers": pool.autoscaling_settings.max_num_workers > 0,
        "an image": len(images) == 1 and images[0].container_image,
        "an image of the pool": pool.worker_harness_container_image == images[0].container_image
        if images
        else False,
        "pipelineUrl": str(options.get("pipelineUrl", "")).startswith("gs://"),
        "pipelineProtoHash": re.fullmatch(
            "[0-9a-f]{64}", str(options.get("pipelineProtoHash", ""))
        ),
    }
    if missing := [name for name, there in wanted.items() if not there]:
        raise RefusedError(f"wrong or missing: {', '.join(missing)}")


def _handler(service: DataflowService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            try:
                message = service.answer(self.command, url.path, query, body)
                code, text = 200, type(message).to_json(message, use_integers_for_enums=True)
            except RefusedError as error:
                service.refused.append(str(error))
                code, text = 400, json.dumps({"error": {"code": 400, "message": str(error)}})
            except KeyError as error:
                code, text = 404, json.dumps({"error": {"code": 404, "message": str(error)}})
            data = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _handle  # noqa: N815 - the names of http.server

        def log_message(self, *unused: object) -> None:
            pass

    return Handler
