"""What the runners in Java have in common: Java itself, and a job server from a jar."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
import zipfile
from pathlib import Path

from apache_beam.options.pipeline_options import JobServerOptions, PipelineOptions
from apache_beam.utils.subprocess_server import JavaJarServer

from schemas.errors import ConfigError

__all__ = ["check_jar", "check_java"]

#: What Beam's job servers are compiled for.
_OLDEST_JAVA = 11

_SECONDS = 20.0


def check_java(options: PipelineOptions) -> None:
    """``ConfigError`` if ``--job_server_java_launcher`` is no Java, or one that is too old."""
    launcher = options.view_as(JobServerOptions).job_server_java_launcher
    remedy = f"install Java {_OLDEST_JAVA} or newer, or name its java here"
    if shutil.which(launcher) is None:
        raise ConfigError("job_server_java_launcher", launcher, f"no such program; {remedy}")
    try:
        done = subprocess.run(
            [launcher, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError("job_server_java_launcher", launcher, f"{error}; {remedy}") from None
    # "1.8.0_392", "11.0.2", "17"
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if done.returncode or not found:
        raise ConfigError("job_server_java_launcher", launcher, f"does not answer; {remedy}")
    if int(found[1]) < _OLDEST_JAVA:
        raise ConfigError("job_server_java_launcher", launcher, f"is Java {found[1]}; {remedy}")


def check_jar(flag: str, jar: str | None, *, target: str) -> None:
    """``ConfigError`` if the job server's jar is not here, and cannot be fetched either.

    Args:
      flag: that names it.
      jar: a path or a URL; None for Beam's own.
      target: what Beam calls its own, ``:runners:flink:1.19:job-server:shadowJar``.
    """
    url = jar or JavaJarServer.path_to_beam_jar(target)
    if os.path.exists(url):
        if jar and not zipfile.is_zipfile(url):
            raise ConfigError(flag, jar, "is no jar; give the job server's, or leave it out")
        return
    if "://" not in url:
        raise ConfigError(flag, url, "no such file; give the job server's jar, or leave it out")
    cached = Path(JavaJarServer.JAR_CACHE, os.path.basename(url))
    if cached.exists():
        return
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=_SECONDS):
            return
    except (OSError, ValueError) as error:
        raise ConfigError(
            flag,
            jar,
            f"the job server {url} cannot be had ({error}); download it elsewhere and name it",
        ) from None
