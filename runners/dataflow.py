"""Google's Dataflow: a service that starts machines for a job, and stops them after it.

The job is the service's, not the command's: it goes on when the command ends, and is cancelled only by
someone who says so.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    WorkerOptions,
)
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners.runner import PipelineResult, PipelineState

from runners.base import Runner, Submission, amounts_of, refuse_local_paths
from runners.wheels import DISTRIBUTION, write_wheel
from schemas.errors import BuildError, ConfigError

__all__ = ["Dataflow"]

#: Four cores with 4 GB each. A block of 64 MB of text, the largest that is made without being asked for,
#: is worked on by each at a time.
_MACHINE, _CORES = "n2-standard-4", 4
#: Beam's image, the packages and their installation; the shuffle is the service's.
_DISK_GB = 50
#: A bundle at a time in each process, of which there is one a core: Beam's own default of 12 would hold
#: 12 blocks.
_THREADS = 1
#: Machines that are started at most if nobody said how many: what a mistake may cost.
_MOST_MACHINES = 50

#: What has to be said, an example, and where that comes from.
_REQUIRED = {
    "project": ("my-project", "the project that pays; gcloud projects list"),
    "region": ("europe-west4", "where the machines and, best, the buckets are"),
    "temp_location": ("gs://my-bucket/tmp", "a folder for what is staged"),
}

#: Words of Beam's errors about options, and the flags that those are about.
_OPTION_OF_ERROR = {
    "Project ID": "project",
    "job_name": "job_name",
    "temp_location": "temp_location",
    "staging_location": "staging_location",
    "num_workers": "num_workers",
}


class Dataflow(Runner):
    """A job of the service's, with this package in a wheel unless an image has it."""

    name = "dataflow"
    beams_name = "DataflowRunner"

    def options(self, beam_args: Sequence[str], submission: Submission) -> PipelineOptions:
        """See ``Runner``; the service's client has to be there first.

        Raises:
          ConfigError: it is not installed.
        """
        require_client()
        return super().options(beam_args, submission)

    def defaults(self, given: PipelineOptions, submission: Submission) -> list[str]:
        cloud, worker = given.view_as(GoogleCloudOptions), given.view_as(WorkerOptions)
        flags = [f"--labels=bert-data={_label()}"]
        if not cloud.job_name:
            flags.append(f"--job_name={_job_name(submission)}")
        if not worker.machine_type:
            flags.append(f"--machine_type={_MACHINE}")
        if not worker.disk_size_gb:
            flags.append(f"--disk_size_gb={_DISK_GB}")
        if not given.view_as(DebugOptions).number_of_worker_harness_threads:
            flags.append(f"--number_of_worker_harness_threads={_THREADS}")
        if not worker.autoscaling_algorithm:
            flags.append("--autoscaling_algorithm=THROUGHPUT_BASED")
        if submission.num_workers and not worker.num_workers:
            flags.append(f"--num_workers={submission.num_workers}")
        if not worker.max_num_workers:
            busy = -(-submission.blocks // _CORES)
            most = submission.num_workers or worker.num_workers or min(busy, _MOST_MACHINES)
            flags.append(f"--max_num_workers={most}")
        return flags

    def check(self, options: PipelineOptions, submission: Submission) -> None:
        cloud = options.view_as(GoogleCloudOptions)
        for flag, (example, what) in _REQUIRED.items():
            if not getattr(cloud, flag):
                raise ConfigError(flag, None, f"Dataflow needs it: {what}, as --{flag}={example}")
        if cloud.template_location and submission.wait:
            raise ConfigError(
                "template_location",
                cloud.template_location,
                "only describes a job, so that there is none to wait for; say --no-wait",
            )
        # Whatever machines share among themselves, the service's are not among them.
        refuse_local_paths(submission, self.name, remedy="give a gs:// path")
        super().check(options, submission)
        _check_values(options)
        _check_setup_file(options.view_as(SetupOptions).setup_file)
        _check_bucket(options)

    def package(self, options: PipelineOptions, submission: Submission) -> PipelineOptions:
        setup, worker = options.view_as(SetupOptions), options.view_as(WorkerOptions)
        packages = setup.extra_packages or []
        named = DISTRIBUTION.replace("-", "[-_.]")
        ours = [each for each in packages if re.match(named, os.path.basename(each))]
        if worker.sdk_container_image or setup.setup_file or ours:
            return options
        folder = tempfile.TemporaryDirectory(prefix="bert-data-wheel-")
        setup.extra_packages = [*packages, str(write_wheel(Path(folder.name), runner=self.name))]
        self._folder = folder  # until the runner is gone: it is read when the job is submitted
        return options

    def outlives_the_command(self, options: PipelineOptions) -> bool:
        return True

    def page(self, options: PipelineOptions, result: PipelineResult) -> str | None:
        if not result.has_job:  # only described, for a template
            return None
        cloud = options.view_as(GoogleCloudOptions)
        return (
            f"https://console.cloud.google.com/dataflow/jobs/{cloud.region}/{result.job_id()}"
            f"?project={cloud.project}"
        )

    def amounts(self, options: PipelineOptions, result: PipelineResult) -> dict[str, int]:
        return amounts_of(_Snapshot(result.metrics()))

    def wait(self, options: PipelineOptions, result: PipelineResult) -> str | None:
        from apache_beam.runners.dataflow.dataflow_runner import DataflowRuntimeException

        try:
            state: str = result.wait_until_finish()
        except DataflowRuntimeException as error:
            if error.result._get_job_state() == PipelineState.FAILED and "Traceback" in str(error):
                raise RuntimeError(
                    str(error)
                ) from error  # what a worker raised is looked for in it
            raise BuildError(_failure(error, self.page(options, result))) from error
        except AssertionError as error:  # Beam's thread that asks for it has ended before the job
            raise BuildError(
                "the service does not say any more how the job is; it goes on: "
                f"{self.page(options, result)}"
            ) from error
        return state

    def keeps(self, options: PipelineOptions, result: PipelineResult) -> bool:
        """Unless someone on a terminal says that it is to be cancelled."""
        cloud = options.view_as(GoogleCloudOptions)
        command = (
            f"gcloud dataflow jobs cancel {result.job_id()} --region={cloud.region} "
            f"--project={cloud.project}"
        )
        if _asked("The command ends. Cancel the job on Dataflow as well? [y/N] "):
            return False
        print(f"The job goes on without the command; to cancel it: {command}", file=sys.stderr)
        return True


def require_client() -> None:
    """Makes sure that Beam can speak to Google's services.

    Raises:
      ConfigError: a package is not installed.
    """
    try:
        found = importlib.util.find_spec("google.cloud.dataflow")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ConfigError(
            "runner",
            Dataflow.name,
            'needs a package that is not installed: pip install "bert-data[gcp]"',
        )


def _label() -> str:
    """The version, with the characters that a label may have."""
    try:
        version = importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return re.sub(r"[^a-z0-9_-]", "-", version.lower())[:63]


def _job_name(submission: Submission) -> str:
    """The same for the same build into the same folder: the service has one job of a name at a time."""
    where = "\n".join(submission.paths.get("output", ()))
    return f"{submission.name}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def _check_values(options: PipelineOptions) -> None:
    """``ConfigError`` for what Beam would refuse, or mend by making a bucket of its own."""
    cloud = options.view_as(GoogleCloudOptions)
    for flag in ("temp_location", "staging_location"):
        path = getattr(cloud, flag)
        if path and not re.fullmatch(r"gs://[a-z0-9][-_a-z0-9.]+[a-z0-9]/.*", path):
            raise ConfigError(flag, path, "must be a folder in a bucket, as gs://my-bucket/tmp")
    validator = PipelineOptionsValidator(options, None)
    worker = options.view_as(WorkerOptions)
    errors = [*validator.validate_cloud_options(cloud), *validator.validate_num_workers(worker)]
    for error in errors:
        if "endpoint" in error:  # it takes none on this machine
            continue
        flag = next((f for words, f in _OPTION_OF_ERROR.items() if words in error), "runner")
        value = options.get_all_options().get(flag)
        raise ConfigError(flag, value, " ".join(error.split()))


def _check_setup_file(path: str | None) -> None:
    if path and not (os.path.isabs(path) and os.path.isfile(path)):
        raise ConfigError(
            "setup_file",
            path,
            "must be the absolute path of a setup.py; left out, workers get a wheel of what runs here",
        )


def _check_bucket(options: PipelineOptions) -> None:
    """``ConfigError`` if there is no such bucket, or nobody to ask for it as."""
    from apache_beam.io.gcp.gcsio import create_storage_client, parse_gcs_path
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    cloud = options.view_as(GoogleCloudOptions)
    bucket, _ = parse_gcs_path(cloud.temp_location, object_optional=True)
    try:
        client = create_storage_client(options, not cloud.no_auth)
        next(iter(client.list_blobs(bucket, max_results=1, timeout=20.0)), None)
    except exceptions.NotFound:
        raise ConfigError(
            "temp_location",
            cloud.temp_location,
            f"there is no such bucket; gcloud storage buckets create gs://{bucket} "
            f"--location={cloud.region} makes it",
        ) from None
    except (exceptions.Forbidden, exceptions.Unauthorized, GoogleAuthError) as error:
        raise ConfigError(
            "temp_location",
            cloud.temp_location,
            f"may not be used ({' '.join(str(error).split())[:200]}); gcloud auth application-default "
            "login says who you are, docs/dataflow.md which roles that needs",
        ) from None
    except (exceptions.GoogleAPIError, OSError) as error:
        raise ConfigError(
            "temp_location",
            cloud.temp_location,
            f"cannot be reached: {' '.join(str(error).split())[:200]}",
        ) from None


def _failure(error: Exception, page: str | None) -> str:
    state = error.result._get_job_state()  # type: ignore[attr-defined]
    if state == PipelineState.CANCELLED:
        return "the job was cancelled; go on with --resume"
    _, _, why = str(error).partition("Error:\n")
    known = why.strip() if why.strip() not in ("", "None") else "it did not say why"
    return (
        f"the job has ended as {state}: {' '.join(known.split())[:500]}; its messages are at {page}"
    )


def _asked(question: str) -> bool:
    """Whether someone is there who says yes."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(question, end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    except (KeyboardInterrupt, OSError):  # told to stop once more
        return False


class _Snapshot:
    """One answer of the service's to several questions: each would be a request of its own."""

    def __init__(self, metrics: object):
        self._found = metrics.query()  # type: ignore[attr-defined]

    def query(self, wanted: object) -> dict[str, list[object]]:
        """As ``MetricResults``."""
        from apache_beam.metrics.metric import MetricResults

        counters = [c for c in self._found["counters"] if MetricResults.matches(wanted, c.key)]
        return {"counters": counters}
