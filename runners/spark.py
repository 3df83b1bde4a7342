"""Spark: inside the job server, or a cluster that is there."""

from __future__ import annotations

import os
import re
import socket

from apache_beam.options.pipeline_options import (
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
)
from apache_beam.runners.portability.spark_runner import LOCAL_MASTER_PATTERN

from runners.base import Runner, Submission
from runners.environments import environment_flags
from runners.java import check_jar, check_java
from schemas.errors import ConfigError

__all__ = ["Spark"]

#: What Beam's job server of Spark 3 is called where Beam finds it.
_TARGET = ":runners:spark:3:job-server:shadowJar"

_SECONDS = 5.0


class Spark(Runner):
    """Inside the job server unless ``--spark_master_url`` names a cluster, whose workers run ours."""

    name = "spark"
    beams_name = "SparkRunner"

    def defaults(self, given: PipelineOptions, submission: Submission) -> list[str]:
        flags = []
        master = given.get_all_options(drop_default=True).get("spark_master_url")
        if master is None:
            workers = min(submission.num_workers or os.cpu_count() or 1, submission.blocks)
            master = f"local[{max(1, workers)}]"
            flags.append(f"--spark_master_url={master}")
        here = re.match(LOCAL_MASTER_PATTERN, master) is not None
        return flags + environment_flags(given, here=here)

    def check(self, options: PipelineOptions, submission: Submission) -> None:
        super().check(options, submission)
        portable = options.view_as(PortableOptions)
        spark = options.view_as(SparkRunnerOptions)
        _check_master(spark.spark_master_url)
        if spark.spark_submit_uber_jar and not spark.spark_rest_url:
            raise ConfigError(
                "spark_submit_uber_jar", True, "needs --spark_rest_url, the master's REST endpoint"
            )
        if not portable.job_endpoint:
            if not spark.spark_submit_uber_jar:
                check_java(options)
            check_jar("spark_job_server_jar", spark.spark_job_server_jar, target=_TARGET)

    def is_here(self, options: PipelineOptions) -> bool:
        master = options.view_as(SparkRunnerOptions).spark_master_url
        own = not options.view_as(PortableOptions).job_endpoint
        return own and re.match(LOCAL_MASTER_PATTERN, master) is not None

    def outlives_the_command(self, options: PipelineOptions) -> bool:
        # The driver of a job is in the job server.
        portable = options.view_as(PortableOptions)
        elsewhere = (
            portable.job_endpoint or options.view_as(SparkRunnerOptions).spark_submit_uber_jar
        )
        return bool(elsewhere) and portable.environment_type != "LOOPBACK"


def _check_master(master: str) -> None:
    """``ConfigError`` for a master that is none, or does not answer."""
    if re.match(LOCAL_MASTER_PATTERN, master):
        return
    found = re.fullmatch(r"spark://((?:[^:,/\s]+:\d+)(?:,[^:,/\s]+:\d+)*)", master)
    if not found:
        if re.match(r"(yarn$|k8s://|mesos://)", master):  # for a job server or spark-submit to know
            return
        raise ConfigError(
            "spark_master_url", master, "is no master; give local, local[N] or spark://HOST:PORT"
        )
    errors = []
    for address in found[1].split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=_SECONDS):
                return
        except (OSError, OverflowError) as error:
            errors.append(str(error))
    raise ConfigError(
        "spark_master_url", master, f"does not answer ({errors[0]}); start it, or name another one"
    )
