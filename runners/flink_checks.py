"""What would keep a job from running on a Flink cluster, found out before it is submitted."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import urllib.error
import zipfile
from collections import Counter
from collections.abc import Iterator

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
)

from runners.base import Submission
from runners.environments import check_command, check_pool, pool_address
from runners.flink_rest import FlinkRest, TaskManager
from schemas.errors import ConfigError

__all__ = [
    "answering",
    "check_slots",
    "check_version",
    "check_workers",
    "jar_version",
    "version_flags",
]

_PUBLISHED = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS


@contextlib.contextmanager
def answering(master: str) -> Iterator[None]:
    """A context that asks a cluster; ``ConfigError`` if it does not answer, or not as Flink does."""
    remedy = "give HOST:PORT of its REST interface, or leave it out for the embedded Flink"
    try:
        yield
    except ConfigError:  # which is a ValueError itself
        raise
    except urllib.error.HTTPError as error:
        raise ConfigError("flink_master", master, f"answers {error}; {remedy}") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise ConfigError("flink_master", master, f"does not answer ({reason}); {remedy}") from None
    except (KeyError, TypeError, ValueError):
        raise ConfigError("flink_master", master, f"answers, but is no Flink; {remedy}") from None


def version_flags(given: PipelineOptions, version: str) -> list[str]:
    """The flag for the job server of a cluster's Flink, where the user has not named one."""
    minor = _minor(version)
    flink = given.view_as(FlinkRunnerOptions)
    # What was given comes after it, and overrules it. Of a jar the version is its own affair.
    if minor in _PUBLISHED or flink.flink_job_server_jar:
        return [f"--flink_version={minor}"] if minor in _PUBLISHED else []
    raise ConfigError(
        "flink_master",
        flink.flink_master,
        f"runs Flink {version}, for which this Beam has no job server (it has {', '.join(_PUBLISHED)}); "
        "name one of an earlier Beam with --flink_job_server_jar",
    )


def check_version(options: PipelineOptions, cluster: FlinkRest) -> None:
    """``ConfigError`` if the job server was made for another Flink than the cluster's."""
    version, flink = cluster.version(), options.view_as(FlinkRunnerOptions)
    jar = flink.flink_job_server_jar
    ours = jar_version(jar) if jar else flink.flink_version
    if ours is None or ours == _minor(version):
        return
    field, value = ("flink_job_server_jar", jar) if jar else ("flink_version", ours)
    raise ConfigError(
        field,
        value,
        f"is for Flink {ours}, and {flink.flink_master} runs {version}; "
        + (f"give one for {_minor(version)}, or leave it out" if jar else "leave it out"),
    )


def jar_version(jar: str) -> str | None:
    """The minor version of Flink that a job server is for, from its name or what is in it; or None."""
    if found := re.search(r"flink-(\d+\.\d+)-job-server", jar):
        return found[1]
    try:
        with zipfile.ZipFile(jar) as archive:
            names = archive.namelist()
            if ".flink-runtime.version.properties" in names:
                text = archive.read(".flink-runtime.version.properties").decode()
                found = re.search(r"^project\.version=(\d+\.\d+)", text, re.MULTILINE)
            else:  # it may name others, in lines that go on behind a blank
                text = archive.read("META-INF/MANIFEST.MF").decode()
                text = re.sub(r"\r?\n ", "", text)
                found = re.search(r"flink-runtime-(\d+\.\d+)", text)
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    return found[1] if found else None


def check_slots(options: PipelineOptions, cluster: FlinkRest, submission: Submission) -> None:
    """``ConfigError`` if the job would wait for slots that nobody frees."""
    wanted, slots = options.view_as(FlinkRunnerOptions).parallelism, cluster.slots()
    if wanted <= slots.free or cluster.is_elastic():
        return
    master = options.view_as(FlinkRunnerOptions).flink_master
    if not slots.free:
        what = f"none of its {slots.total} slots is free" if slots.total else "has no task managers"
        remedy = "cancel what runs there" if slots.total else "start some"
        raise ConfigError("flink_master", master, f"{what}, for which a job would wait; {remedy}")
    field = "num_workers" if submission.num_workers == wanted else "parallelism"
    raise ConfigError(
        field,
        wanted,
        f"{master} has {slots.free} free slots of {slots.total}, and a job would wait for more; "
        f"give at most {slots.free}, or leave it out",
    )


def check_workers(options: PipelineOptions, cluster: FlinkRest) -> None:
    """``ConfigError`` if a worker would never come."""
    portable, managers = options.view_as(PortableOptions), cluster.task_managers()
    if portable.environment_type == "EXTERNAL":
        _check_pool(*pool_address(portable), managers)
    # Where the task managers are on this machine, their command has to be, too.
    elif (
        portable.environment_type == "PROCESS"
        and managers
        and all(_is_here(manager.host) for manager in managers)
    ):
        check_command(portable)


def _check_pool(host: str, port: int, managers: list[TaskManager]) -> None:
    """The address is one of each task manager's machine, and not always one of this one."""
    hosts = Counter(manager.host for manager in managers)
    machine, several = hosts.most_common(1)[0] if hosts else ("", 0)
    try:
        is_beside = ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except OSError:
        return  # a name that the task managers' machines know, and this one does not
    if (several if is_beside else len(managers)) > 1:
        raise ConfigError(
            "environment_config",
            f"{host}:{port}",
            f"is one pool for {several if is_beside else len(managers)} task managers"
            f"{f' on {machine}' if is_beside else ''}, which would wait for ever; give each a pool "
            "of its own at an address that is the same for all, such as localhost:50000",
        )
    if not is_beside or all(map(_is_here, hosts)):
        check_pool(host, port)


def _is_here(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        address = socket.gethostbyname(host)
        own = socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        return False
    return ipaddress.ip_address(address).is_loopback or address in own


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
