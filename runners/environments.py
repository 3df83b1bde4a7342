"""Where the workers of a portable runner come from: this process, or our command."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import sys
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from schemas.errors import ConfigError

__all__ = [
    "check_command",
    "check_endpoint",
    "check_kind",
    "check_pool",
    "check_process",
    "check_workers_here",
    "environment_flags",
    "pool_address",
]

_COMMAND = "bert-data-worker"

#: Where workers come from.
_KINDS = ("LOOPBACK", "PROCESS", "EXTERNAL", "DOCKER")

#: Seconds for a connection.
_PATIENCE = 10.0

#: Milliseconds that workers wait for the next stage, where the runner heeds it: Flink does not.
_KEEP_WORKERS = 60_000


def environment_flags(given: PipelineOptions, *, here: bool) -> list[str]:
    """Flags for the workers' environment, as far as none were given.

    Args:
      given: the user's.
      here: whether the runner is on this machine and no more, so that threads of this process will do.
    """
    portable, flags = given.view_as(PortableOptions), []
    kind = portable.environment_type
    if not kind:
        kind = "LOOPBACK" if here else "PROCESS"
        flags.append(f"--environment_type={kind}")
    if kind != "PROCESS":
        return flags
    told = portable.environment_config or portable.environment_options
    if not told and (command := _worker_command()):
        flags.append(f"--environment_config={json.dumps({'command': command})}")
    if not int(portable.environment_cache_millis):
        flags.append(f"--environment_cache_millis={_KEEP_WORKERS}")
    return flags


def check_kind(options: PipelineOptions) -> None:
    """``ConfigError`` if Beam has no such environment."""
    kind = options.view_as(PortableOptions).environment_type
    if kind and kind not in _KINDS and not kind.startswith("beam:env:"):
        known = ", ".join(_KINDS)
        raise ConfigError("environment_type", kind, f"is none that Beam knows; there are {known}")


def check_endpoint(endpoint: str) -> None:
    """``ConfigError`` if no job server answers where ``--job_endpoint`` says: Beam would wait for ever."""
    if (address := _host_and_port(endpoint)) is None:
        raise ConfigError("job_endpoint", endpoint, "is no HOST:PORT of a job server")
    try:
        socket.create_connection(address, timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            "job_endpoint",
            endpoint,
            f"no job server answers there ({error}); start it, or leave this out to have one started",
        ) from None


def _host_and_port(text: str) -> tuple[str, int] | None:
    host, _, port = text.rpartition(":")
    return (host, int(port)) if host and port.isdigit() else None


def check_process(options: PipelineOptions) -> None:
    """``ConfigError`` if workers are to be processes, and nothing says what to start."""
    portable = options.view_as(PortableOptions)
    told = portable.environment_config or portable.environment_options
    if portable.environment_type == "PROCESS" and not told:
        raise ConfigError(
            "environment_type",
            "PROCESS",
            f"there is no {_COMMAND} in {Path(sys.executable).parent}, which pip makes; install the "
            "package, or name the machines' own: "
            f'--environment_config=\'{{"command": "/path/of/{_COMMAND}"}}\'',
        )


def check_workers_here(options: PipelineOptions) -> None:
    """``ConfigError`` if workers are on this machine and would never come; a job would wait for ever."""
    portable = options.view_as(PortableOptions)
    if portable.environment_type == "PROCESS":
        check_command(portable)
    elif portable.environment_type == "EXTERNAL":
        check_pool(*pool_address(portable))


def check_command(portable: PortableOptions) -> None:
    """``ConfigError`` if this machine has not the program that its workers are."""
    config = portable.environment_config or "{}"
    try:
        command = json.loads(config).get("command") or portable.lookup_environment_option(
            "process_command"
        )
    except (ValueError, AttributeError):
        raise ConfigError(
            "environment_config", config, 'is not of the form {"command": "/path"}'
        ) from None
    if not command or shutil.which(str(command)) is None:
        raise ConfigError(
            "environment_config",
            config,
            f"there is no such program; give the path of {_COMMAND}",
        )


def pool_address(portable: PortableOptions) -> tuple[str, int]:
    """Host and port of the pool of workers that the options name.

    Raises:
      ConfigError: they name none.
    """
    given = portable.environment_config or portable.lookup_environment_option(
        "external_service_address"
    )
    address = str(given or "")
    if address.startswith("{"):
        with contextlib.suppress(ValueError):
            address = json.loads(address).get("url", "")
    if (found := _host_and_port(address)) is None:
        raise ConfigError(
            "environment_config",
            given,
            "is no HOST:PORT of a pool of workers, such as localhost:50000",
        )
    return found


def check_pool(host: str, port: int) -> None:
    """``ConfigError`` if no pool of workers answers there, for which Beam waits for ever."""
    try:
        socket.create_connection((host, port), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            "environment_config",
            f"{host}:{port}",
            f"no pool of workers answers there ({error}), for which a job would wait for ever; start it "
            "where the tasks run (python -m apache_beam.runners.worker.worker_pool_main "
            f"--service_port={port} --container_executable={_COMMAND})",
        ) from None


def _worker_command() -> str | None:
    """The path of our command, beside the Python that runs before all others."""
    beside = str(Path(sys.executable).parent)
    return shutil.which(_COMMAND, path=beside) or shutil.which(_COMMAND)
