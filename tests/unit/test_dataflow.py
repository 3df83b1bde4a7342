"""What Dataflow's flags come to, and what is refused before anything is submitted."""

from __future__ import annotations

import importlib.util
import io

import pytest

from runners.base import Submission
from runners.dataflow import Dataflow, require_client
from runners.interrupts import InterruptedBuildError
from runners.remote import RemoteRun, _stop
from runners.wheels import DISTRIBUTION, write_wheel
from schemas.errors import BuildError, ConfigError
from tests.builds import ROOT
from tests.unit.test_runner_checks import CORPUS, refused

GIVEN = ["--project=my-project", "--region=europe-west4", "--temp_location=gs://bucket/tmp"]
SUBMISSION = Submission("bert-data-0123", {"output": ["gs://bucket/out"]}, blocks=100)


def options(*flags, **changes):
    pytest.importorskip("google.cloud.dataflow")
    submission = Submission(**{**vars(SUBMISSION), **changes})
    return Dataflow().options([*GIVEN, *flags], submission).get_all_options(drop_default=True)


def test_defaults_are_below_what_is_given():
    found = options("--machine_type=n1-highmem-2", "--disk_size_gb=77", "--labels=team=nlp")
    assert found["machine_type"] == "n1-highmem-2"
    assert found["disk_size_gb"] == 77
    assert found["labels"] == ["bert-data=0-1-0", "team=nlp"]


@pytest.mark.parametrize(
    ("flags", "changes", "initial", "most"),
    [
        ([], {}, None, 25),  # four blocks a machine
        ([], {"blocks": 3}, None, 1),
        ([], {"blocks": 90_000}, None, 50),
        ([], {"num_workers": 80}, 80, 80),
        (["--max_num_workers=9"], {}, None, 9),
        (["--max_num_workers=9"], {"num_workers": 5}, 5, 9),
    ],
)
def test_machines(flags, changes, initial, most):
    found = options(*flags, **changes)
    assert (found.get("num_workers"), found["max_num_workers"]) == (initial, most)


def test_a_job_has_a_name_of_its_own_for_each_output():
    names = {
        options(paths={"output": [path]})["job_name"]
        for path in ("gs://bucket/a", "gs://bucket/b", "gs://bucket/a")
    }
    assert len(names) == 2
    assert all(name.startswith("bert-data-0123-") for name in names)
    assert options("--job_name=mine")["job_name"] == "mine"


@pytest.mark.parametrize("missing", ["project", "region", "temp_location"])
def test_what_is_missing_is_one_line(missing):
    pytest.importorskip("google.cloud.dataflow")
    flags = [flag for flag in GIVEN if not flag.startswith(f"--{missing}")]
    runner = Dataflow()
    with pytest.raises(ConfigError, match=f"--{missing}=None: Dataflow needs it: .+--{missing}="):
        runner.check(runner.options(flags, SUBMISSION), SUBMISSION)


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        (
            "--project=123",
            "--project='123': Invalid Project ID (123). Please make sure you specified the Project ID, "
            "not project number.",
        ),
        (
            "--temp_location=gs://bucket",
            "--temp_location='gs://bucket': must be a folder in a bucket, as gs://my-bucket/tmp",
        ),
        (
            "--temp_location=/tmp",
            "--temp_location='/tmp': must be a folder in a bucket, as gs://my-bucket/tmp",
        ),
        (
            "--job_name=No_Name",
            "--job_name='No_Name': Invalid job_name (No_Name); the name must consist of only the "
            "characters [-a-z0-9], starting with a letter and ending with a letter or number",
        ),
        (
            "--num_workers=0",
            "--num_workers=0: Invalid value (0) for option: num_workers. Value needs to be positive.",
        ),
        (
            "--setup_file=setup.py",
            "--setup_file='setup.py': must be the absolute path of a setup.py; left out, workers get a "
            "wheel of what runs here",
        ),
        (
            "--template_location=gs://bucket/t",
            "--template_location='gs://bucket/t': only describes a job, so that there is none to wait "
            "for; say --no-wait",
        ),
    ],
)
def test_what_is_wrong_is_one_line(flag, line):
    pytest.importorskip("google.cloud.dataflow")
    runner = Dataflow()
    with pytest.raises(ConfigError) as error:
        runner.check(runner.options([*GIVEN, flag], SUBMISSION), SUBMISSION)
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            ["--region=x"],
            "--project=None: Dataflow needs it: the project that pays; gcloud projects list, as "
            "--project=my-project",
        ),
        (
            ["--project=my-project"],
            "--region=None: Dataflow needs it: where the machines and, best, the buckets are, as "
            "--region=europe-west4",
        ),
        (
            ["--project=my-project", "--region=x"],
            "--temp_location=None: Dataflow needs it: a folder for what is staged, as "
            "--temp_location=gs://my-bucket/tmp",
        ),
        (
            [*GIVEN, "--shared_files"],
            f"--input='{CORPUS}': is on this machine, and the workers of --runner=dataflow may be on "
            "others; give a gs:// path",
        ),
    ],
    ids=["project", "region", "temp_location", "a local path"],
)
def test_build_and_plan_say_it_in_a_line_with_code_2(capsys, tmp_path, flags, line):
    pytest.importorskip("google.cloud.dataflow")
    assert refused(capsys, tmp_path, ["--runner=dataflow", *flags]) == line


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (
            "NotFound",
            "there is no such bucket; gcloud storage buckets create gs://bucket --location=europe-west4 "
            "makes it",
        ),
        (
            "Forbidden",
            "may not be used (403 no); gcloud auth application-default login says who you are, "
            "docs/dataflow.md which roles that needs",
        ),
        ("ServiceUnavailable", "cannot be reached: 503 no"),
    ],
)
def test_the_bucket_is_asked_for(monkeypatch, kind, line):
    pytest.importorskip("google.cloud.dataflow")
    from apache_beam.io.gcp import gcsio
    from google.api_core import exceptions

    class Client:
        def list_blobs(self, bucket, **unused):
            raise getattr(exceptions, kind)("no")

    monkeypatch.setattr(gcsio, "create_storage_client", lambda *unused: Client())
    runner = Dataflow()
    with pytest.raises(ConfigError) as error:
        runner.check(runner.options(GIVEN, SUBMISSION), SUBMISSION)
    assert str(error.value) == f"--temp_location='gs://bucket/tmp': {line}"


def test_without_googles_client_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda *unused: None)
    with pytest.raises(ConfigError, match='pip install "bert-data\\[gcp\\]"'):
        require_client()


def test_without_an_installed_package_there_is_no_wheel(monkeypatch, tmp_path):
    import importlib.metadata

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(ConfigError, match="its workers need a wheel of bert-data"):
        write_wheel(tmp_path, runner="dataflow")


@pytest.mark.parametrize(
    "flag",
    [
        "--sdk_container_image=example.org/image",
        f"--setup_file={ROOT}/setup.py",
        f"--extra_package=/wheels/{DISTRIBUTION.replace('-', '_')}-9-py3-none-any.whl",
    ],
)
def test_what_the_user_packs_is_not_packed_again(flag):
    pytest.importorskip("google.cloud.dataflow")
    runner = Dataflow()
    given = runner.options([*GIVEN, flag], SUBMISSION)
    before = given.get_all_options()["extra_packages"]
    packed = runner.package(given, SUBMISSION).get_all_options()["extra_packages"]
    assert packed == before


def test_other_packages_come_beside_the_wheel():
    pytest.importorskip("google.cloud.dataflow")
    runner = Dataflow()
    given = runner.options([*GIVEN, "--extra_package=/wheels/other-1-py3-none-any.whl"], SUBMISSION)
    other, ours = runner.package(given, SUBMISSION).get_all_options()["extra_packages"]
    assert other == "/wheels/other-1-py3-none-any.whl"
    assert ours.endswith("-py3-none-any.whl")
    assert "/bert_data-0.1.0+" in ours


class Job:
    """A result of Beam's that has ended in some state, with what the service said last."""

    has_job = True

    def __init__(self, state="", said=None):
        self.state, self.said, self.cancelled = state, said, False

    def job_id(self):
        return "2026-01-01_00_00_00-1"

    def _get_job_state(self):
        return self.state

    def cancel(self):
        self.cancelled = True

    def wait_until_finish(self):
        from apache_beam.runners.dataflow.dataflow_runner import DataflowRuntimeException

        if self.state == "DONE":
            return self.state
        text = f"Dataflow pipeline failed. State: {self.state}, Error:\n{self.said}"
        raise DataflowRuntimeException(text, self)


@pytest.fixture
def runner():
    pytest.importorskip("google.cloud.dataflow")
    runner = Dataflow()
    return runner, runner.options(GIVEN, SUBMISSION)


def test_a_job_that_is_done_is_no_error(runner):
    dataflow, given = runner
    assert dataflow.wait(given, Job("DONE")) == "DONE"


def test_a_workers_traceback_is_looked_into(runner):
    from runners.errors import translated
    from schemas.errors import TooManyRejectsError

    dataflow, given = runner
    said = (
        "Traceback (most recent call last):\n  File 'x'\n"
        "schemas.errors.TooManyRejectsError: 1 of 2 [while running 'CheckInput/Check']\n"
    )
    with pytest.raises(TooManyRejectsError, match=r"^1 of 2$"), translated():
        dataflow.wait(given, Job("FAILED", said))


@pytest.mark.parametrize(
    ("state", "said", "message"),
    [
        ("CANCELLED", None, "^the job was cancelled; go on with --resume$"),
        (
            "FAILED",
            None,
            "^the job has ended as FAILED: it did not say why; its messages are at http",
        ),
        ("FAILED", "no quota\nof CPUs", "^the job has ended as FAILED: no quota of CPUs; its mess"),
    ],
)
def test_how_a_job_ended_is_one_line(runner, state, said, message):
    dataflow, given = runner
    with pytest.raises(BuildError, match=message):
        dataflow.wait(given, Job(state, said))


@pytest.mark.parametrize("signalled", [True, False])
def test_a_job_goes_on_when_the_command_is_stopped_and_not_when_something_breaks(
    runner, signalled, capsys
):
    dataflow, given = runner
    job, cause = Job(), InterruptedBuildError(2) if signalled else BuildError("a bug")
    _stop(RemoteRun(dataflow, given, SUBMISSION), job, cause)
    assert job.cancelled is not signalled
    said = capsys.readouterr().err
    command = (
        "gcloud dataflow jobs cancel 2026-01-01_00_00_00-1 --region=europe-west4 "
        "--project=my-project\n"
    )
    assert said.endswith(command) is signalled
    assert getattr(cause, "goes_on", False) is signalled


def test_someone_on_a_terminal_is_asked(runner, monkeypatch):
    dataflow, given = runner
    for answer, keeps in (("y\n", False), ("\n", True), ("n\n", True), ("", True)):
        terminal = io.StringIO(answer)
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", terminal)
        monkeypatch.setattr("sys.stderr", shown := io.StringIO())
        monkeypatch.setattr(shown, "isatty", lambda: True)
        assert dataflow.keeps(given, Job()) is keeps
        assert shown.getvalue().startswith("The command ends. Cancel the job on Dataflow as well?")


def test_a_template_has_no_page(runner):
    dataflow, given = runner
    job = Job()
    assert dataflow.page(given, job).endswith(
        "/europe-west4/2026-01-01_00_00_00-1?project=my-project"
    )
    job.has_job = False
    assert dataflow.page(given, job) is None
