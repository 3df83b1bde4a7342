"""A job server of each portable runner, for many jobs: Java takes longer to start than a job to run."""

from __future__ import annotations

import contextlib
import shutil

import pytest
from apache_beam.options.pipeline_options import PortableOptions

from runners.base import Submission
from runners.job_server import serving
from runners.registry import find_runner
from tests.conftest import without

__all__ = ["RUNNERS", "flags_of", "job_flags"]

#: The runner, the flag that names what was fetched, its name.
_PIECES = {
    "prism": ("prism_location", "prism"),
    "flink": ("flink_job_server_jar", "flink-job-server.jar"),
    "spark": ("spark_job_server_jar", "spark-job-server.jar"),
}

RUNNERS = tuple(_PIECES)


def flags_of(name: str, folder) -> list[str]:
    """The flags with which a build runs there, on a job server of its own."""
    if name != "prism" and shutil.which("java") is None:
        without("needs Java")
    flag, piece = _PIECES[name]
    return [f"--runner={name}", f"--{flag}={folder / piece}"]


@pytest.fixture(scope="session")
def job_flags(runners):
    """Makes the flags with which a build runs there, on a job server that has started already."""
    with contextlib.ExitStack() as stack:
        known: dict[str, list[str]] = {}

        def flags(name: str) -> list[str]:
            if name not in known:
                given, runner = flags_of(name, runners), find_runner(name)
                options = runner.options(given[1:], Submission(name="tests", paths={}, blocks=2))
                stack.enter_context(serving(options, runner.beams_name))
                endpoint = options.view_as(PortableOptions).job_endpoint
                known[name] = [*given, f"--job_endpoint={endpoint}"]
            return known[name]

        yield flags
