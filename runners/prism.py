"""Prism: Beam's runner in Go for one machine, a single binary."""

from __future__ import annotations

import os
import shutil
import urllib.request

from apache_beam.options.pipeline_options import (
    PipelineOptions,
    PortableOptions,
    PrismRunnerOptions,
)
from apache_beam.runners.portability.prism_runner import PrismJobServer

from runners.base import Runner, Submission
from runners.environments import environment_flags
from schemas.errors import ConfigError

__all__ = ["Prism"]

#: What the binary is called where it was installed, by ``go install`` for one.
_BINARY = "prism"

_SECONDS = 20.0


class Prism(Runner):
    """Workers are threads of this process; with ``--environment_type=PROCESS`` processes of their own."""

    name = "prism"
    beams_name = "PrismRunner"

    def defaults(self, given: PipelineOptions, submission: Submission) -> list[str]:
        flags = environment_flags(given, here=True)
        prism = given.view_as(PrismRunnerOptions)
        if not prism.prism_location and (found := shutil.which(_BINARY)):
            flags.append(f"--prism_location={found}")
        return flags

    def check(self, options: PipelineOptions, submission: Submission) -> None:
        super().check(options, submission)
        if not options.view_as(PortableOptions).job_endpoint:
            _check_binary(options)

    def is_here(self, options: PipelineOptions) -> bool:
        return not options.view_as(PortableOptions).job_endpoint


def _check_binary(options: PipelineOptions) -> None:
    """``ConfigError`` if Prism is not here, and cannot be fetched either."""
    location = options.view_as(PrismRunnerOptions).prism_location
    if location and "://" not in location:
        if not os.access(location, os.X_OK) or os.path.isdir(location):
            raise ConfigError("prism_location", location, "no such program; give Prism's binary")
        return
    try:
        source = PrismJobServer(options).path_to_binary()
        fetched = os.path.join(PrismJobServer.BIN_CACHE, os.path.basename(source))
        if os.path.exists(source) or (not location and os.path.exists(fetched)):
            return
        request = urllib.request.Request(source, method="HEAD")
        with urllib.request.urlopen(request, timeout=_SECONDS):
            return
    except (OSError, ValueError) as error:
        raise ConfigError(
            "prism_location",
            location,
            f"Prism is not in PATH and cannot be downloaded ({error}); download it elsewhere, or build it "
            "with go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0, and name it",
        ) from None
