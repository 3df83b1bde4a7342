"""What a Flink cluster says of itself and of its jobs, over REST."""

from __future__ import annotations

import base64
import dataclasses
import http.client
import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

__all__ = ["ENDED", "FlinkRest", "Slots", "TaskManager"]

#: Seconds for an answer.
_PATIENCE = 10.0

#: States of a job that does nothing any more.
ENDED = ("FINISHED", "FAILED", "CANCELED")

#: Keys of a cluster's configuration where it starts task managers itself, as jobs need them.
_ELASTIC = ("kubernetes.cluster-id", "yarn.application.", "$internal.yarn.")

#: Flink's own default for batch jobs, and its names.
_NO_RESTART = (None, "none", "off", "disable")

#: Beam's name for a counter of a step.
_COUNTER = "beam:metric:user:sum_int64:v1"


@dataclasses.dataclass(frozen=True)
class TaskManager:
    """A process of the cluster that runs tasks: the host it is at, and its slots."""

    host: str
    slots: int


@dataclasses.dataclass(frozen=True)
class Slots:
    """How many tasks of a kind can run at once, and how many more than do now."""

    total: int
    free: int


class FlinkRest:
    """A cluster.

    Everything raises ``OSError`` or ``ValueError`` where nobody answers, or somebody else.

    Args:
      master: as ``--flink_master`` has it, with or without ``http://``.
    """

    def __init__(self, master: str):
        self.url = (master if "://" in master else f"http://{master}").rstrip("/")
        # A proxy of the environment has no way to this machine itself.
        here = urllib.parse.urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")
        handlers = [urllib.request.ProxyHandler({})] if here else []
        self._opener = urllib.request.build_opener(*handlers)

    def version(self) -> str:
        """Of Flink, ``1.19.3``."""
        return str(self._ask("/config")["flink-version"])

    def slots(self) -> Slots:
        """Of all task managers."""
        answer = self._ask("/overview")
        return Slots(int(answer["slots-total"]), int(answer["slots-available"]))

    def task_managers(self) -> list[TaskManager]:
        """Those that have registered."""
        return [
            TaskManager(_host(each["path"]), int(each["slotsNumber"]))
            for each in self._ask("/taskmanagers")["taskmanagers"]
        ]

    def is_elastic(self) -> bool:
        """Whether it starts task managers as jobs need them."""
        return any(key.startswith(_ELASTIC) for key in self._configuration())

    def has_restarts(self) -> bool:
        """Whether a job that fails is tried again; not an option of a job in Beam's batch mode."""
        settings = self._configuration()
        return (
            settings.get("restart-strategy.type", settings.get("restart-strategy"))
            not in _NO_RESTART
        )

    def _configuration(self) -> dict[str, str]:
        """What somebody has set."""
        return {str(each["key"]): str(each["value"]) for each in self._ask("/jobmanager/config")}

    def find_job(self, name: str) -> str | None:
        """The id of the newest job of a name; None if there is none."""
        jobs = [job for job in self._ask("/jobs/overview")["jobs"] if job["name"] == name]
        newest = max(jobs, key=lambda job: int(job["start-time"]), default=None)
        return None if newest is None else str(newest["jid"])

    def state(self, job: str) -> str:
        """Of a job: ``RUNNING``, or one of ``ENDED``, or another."""
        return str(self._ask(f"/jobs/{job}/status")["status"])

    def counters(self, job: str) -> dict[tuple[str, str], int]:
        """The steps' counters so far, by namespace and name; as old as the last heartbeat."""
        found: dict[tuple[str, str], int] = {}
        for accumulator in self._ask(f"/jobs/{job}/accumulators")["user-task-accumulators"]:
            if accumulator["type"] == "MetricsAccumulator":
                for key, value in _counters_of(json.loads(accumulator["value"])).items():
                    found[key] = found.get(key, 0) + value
        return found

    def cancel(self, job: str) -> None:
        """Tells the cluster to end a job; does not wait for it."""
        self._open(f"/jobs/{job}?mode=cancel", method="PATCH")

    def _ask(self, path: str) -> Any:
        return json.loads(self._open(path))

    def _open(self, path: str, *, method: str = "GET") -> bytes:
        request = urllib.request.Request(self.url + path, method=method)
        try:
            with self._opener.open(request, timeout=_PATIENCE) as answer:
                return bytes(answer.read())
        except http.client.HTTPException as error:  # somebody speaks, but not HTTP
            raise OSError(f"no HTTP: {error!r}") from error


def _host(path: str) -> str:
    """``HOST`` of ``pekko.tcp://flink@HOST:PORT/user/rpc/taskmanager_0``."""
    return urllib.parse.urlsplit(path).hostname or path


def _counters_of(metrics: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Beam's monitoring infos, as JSON, to the sums of its users' counters."""
    sums: dict[tuple[str, str], int] = {}
    for info in metrics.get("metrics", metrics).get("attempted", ()):
        if info["urn"] == _COUNTER:
            labels = info["labels"]
            key = labels["NAMESPACE"], labels["NAME"]
            sums[key] = sums.get(key, 0) + _varint(base64.b64decode(info["payload"]))
    return sums


def _varint(data: bytes) -> int:
    """A number as Beam encodes it: seven bits a byte, the lowest first."""
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data))
