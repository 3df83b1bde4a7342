"""Flink: embedded in the job server, or a cluster that is there."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
)
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES
from apache_beam.runners.runner import PipelineResult, PipelineState

from runners import flink_checks
from runners.base import AMOUNTS, Runner, Submission
from runners.environments import environment_flags
from runners.flink_rest import ENDED, FlinkRest
from runners.java import check_jar, check_java
from schemas.errors import BuildError, ConfigError

__all__ = ["Flink"]

_LOGGER = logging.getLogger(__name__)

#: Seconds from the job's submission until the cluster knows it; until a cancelled one has ended.
_APPEARS = 120.0
_ENDS = 30.0


class Flink(Runner):
    """Embedded unless ``--flink_master`` names a cluster, on which every worker runs our command."""

    name = "flink"
    beams_name = "FlinkRunner"

    def __init__(self) -> None:
        self._job: str | None = None
        self._wait = True

    def defaults(self, given: PipelineOptions, submission: Submission) -> list[str]:
        master = master_of(given)
        flags = [] if master else ["--flink_master=[local]"]
        if not given.view_as(GoogleCloudOptions).job_name:
            # Of its own, so that it is found among the cluster's jobs.
            flags.append(f"--job_name={submission.name}-{secrets.token_hex(4)}")
        flags += environment_flags(given, here=not master)
        if master:
            return flags + self._of_cluster(given, FlinkRest(master), submission)
        if given.view_as(FlinkRunnerOptions).parallelism == -1:
            workers = submission.num_workers or os.cpu_count() or 1
            flags.append(f"--parallelism={max(1, min(workers, submission.blocks))}")
        return flags

    def _of_cluster(
        self, given: PipelineOptions, cluster: FlinkRest, submission: Submission
    ) -> list[str]:
        """Flags that hang on what the cluster is."""
        flink, portable = given.view_as(FlinkRunnerOptions), given.view_as(PortableOptions)
        with flink_checks.answering(flink.flink_master):
            version, slots = cluster.version(), cluster.slots()
            most = max((each.slots for each in cluster.task_managers()), default=1)
        # Else the job server runs already, somewhere, and its version is known there.
        flags = [] if portable.job_endpoint else flink_checks.version_flags(given, version)
        parallelism = flink.parallelism
        if parallelism == -1:
            parallelism = max(1, min(submission.num_workers or slots.free, submission.blocks))
            flags.append(f"--parallelism={parallelism}")
        if int(portable.sdk_worker_parallelism) == 1:
            # A Python process for every task that a task manager may have at once.
            flags.append(f"--sdk_worker_parallelism={min(parallelism, most)}")
        return flags

    def check(self, options: PipelineOptions, submission: Submission) -> None:
        super().check(options, submission)
        self._wait = submission.wait
        flink, master = options.view_as(FlinkRunnerOptions), master_of(options)
        if flink.parallelism < 1:
            raise ConfigError(
                "parallelism",
                flink.parallelism,
                "must be at least 1; leave it out for as many as there are free slots",
            )
        # Else the job server runs already, somewhere.
        ours = options.view_as(PortableOptions).job_endpoint is None
        if ours and not (master and flink.flink_submit_uber_jar):
            check_java(options)
        if ours:
            target = f":runners:flink:{flink.flink_version}:job-server:shadowJar"
            check_jar("flink_job_server_jar", flink.flink_job_server_jar, target=target)
        if master:
            cluster = FlinkRest(master)
            with flink_checks.answering(flink.flink_master):
                if ours:
                    flink_checks.check_version(options, cluster)
                flink_checks.check_slots(options, cluster, submission)
                flink_checks.check_workers(options, cluster)

    def package(self, options: PipelineOptions, submission: Submission) -> PipelineOptions:
        """The same; says so where a lost machine would be the end of the job."""
        if master := master_of(options):
            with contextlib.suppress(OSError, ValueError):
                if not FlinkRest(master).has_restarts():
                    _LOGGER.warning(
                        "%s has no restart-strategy.type in its configuration: if it loses a task manager "
                        "the job fails, and --resume goes on with it",
                        master,
                    )
        return options

    def is_here(self, options: PipelineOptions) -> bool:
        return not (master_of(options) or options.view_as(PortableOptions).job_endpoint)

    def outlives_the_command(self, options: PipelineOptions) -> bool:
        return bool(master_of(options)) and not self.sees_this_machine(options)

    def page(self, options: PipelineOptions, result: PipelineResult) -> str | None:
        """The job's page of the web interface, once the cluster has it.

        Raises:
          BuildError: it never came, and the command does not stay, with which the job server ends.
        """
        master = master_of(options)
        if not master:
            return None
        last = time.monotonic() + _APPEARS
        try:
            while self._find_job(options) is None and time.monotonic() < last:
                if PipelineState.is_terminal(result.state):
                    break
                time.sleep(0.5)
        except KeyboardInterrupt:  # the command is told to stop
            self.cancel(options, result)
            raise
        if self._job is not None:
            return f"{FlinkRest(master).url}/#/job/{self._job}/overview"
        if not self._wait:
            raise BuildError(f"the job never came to {master}; leave out --no-wait to see why")
        return None

    def _find_job(self, options: PipelineOptions) -> str | None:
        if self._job is None:
            name = options.view_as(GoogleCloudOptions).job_name
            with contextlib.suppress(OSError, ValueError):
                self._job = FlinkRest(master_of(options) or "").find_job(name)
        return self._job

    def state(self, options: PipelineOptions, result: PipelineResult) -> str:
        """The cluster's own word, if one has the job: the job server has none for ``restarting``."""
        master = master_of(options)
        if master and (job := self._find_job(options)) is not None:
            return FlinkRest(master).state(job).lower()
        return super().state(options, result)

    def amounts(self, options: PipelineOptions, result: PipelineResult) -> dict[str, int]:
        """From the cluster: Beam's job server knows nothing before the end. Embedded, nothing."""
        master = master_of(options)
        if not master or (job := self._find_job(options)) is None:
            return {}
        counters = FlinkRest(master).counters(job)
        return {name: counters.get((step, counter), 0) for name, step, counter in AMOUNTS}

    def lost(self, options: PipelineOptions) -> str | None:
        """That the cluster does not answer any more, if it does not."""
        if master := master_of(options):
            cluster = FlinkRest(master)
            try:
                cluster.version()
            except (OSError, ValueError) as error:
                return f"the cluster {cluster.url} does not answer any more ({error})"
        return None

    def cancel(self, options: PipelineOptions, result: PipelineResult) -> None:
        """Beam's own way leaves the job where it is, so the cluster is told as well, and waited for."""
        with contextlib.suppress(Exception):
            result.cancel()
        master = master_of(options)
        if not master or self._find_job(options) is None:
            return
        cluster, job, last = FlinkRest(master), self._job or "", time.monotonic() + _ENDS
        cluster.cancel(job)
        while cluster.state(job) not in ENDED and time.monotonic() < last:
            time.sleep(0.2)


def master_of(options: PipelineOptions) -> str | None:
    """The cluster that ``--flink_master`` names; None for the embedded one."""
    master: str = options.view_as(FlinkRunnerOptions).flink_master.strip()
    return None if master in (*MAGIC_HOST_NAMES, "[collection]") else master
