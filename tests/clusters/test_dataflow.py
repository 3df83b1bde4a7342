"""Builds through the stand-in for Dataflow: what is tested is what would be submitted."""

from __future__ import annotations

import functools
import io
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from tests.builds import DATA, ROOT, VOCAB, build_here, digests

pytest.importorskip("google.cloud.dataflow", reason='needs pip install -e ".[gcp]"')
pytest.importorskip("gcp_storage_emulator", reason='needs pip install -e ".[test]"')

from tests.clusters.dataflow_jobs import wait_for
from tests.clusters.dataflow_service import DataflowService
from tests.clusters.test_portable_runners import ENCYCLOPEDIA
from tests.stores import running_store

pytestmark = [
    pytest.mark.runners,
    pytest.mark.timeout(1500),  # the kernels are compiled, unless there are some to be lent
]

PROJECT = ["--project=my-project", "--region=europe-west4", "--no_auth"]


@pytest.fixture(scope="module")
def store():
    with running_store("gs") as store:
        store.put_file(DATA / "documents.jsonl", "in/documents.jsonl")
        yield store


@pytest.fixture(scope="module")
def service(store, runners, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataflow")
    host = store.environment["STORAGE_EMULATOR_HOST"]
    with DataflowService(folder, prism=runners / "prism", storage=host) as service:
        yield service


@pytest.fixture
def command(store, service, request):
    """A build's command line; what is wrong with a request fails the test."""
    service.on_create = None
    vocab = store.put_file(VOCAB, "in/vocab.txt")
    output = f"{store.root}/{request.node.name}"
    yield [
        *(sys.executable, "-m", "pipeline", "build", f"{store.root}/in/documents.jsonl"),
        *("--vocab_file", vocab, "--output", output, "--num_shards=3", "--runner=dataflow"),
        *PROJECT,
        f"--temp_location={store.root}/tmp",
        f"--dataflow_endpoint={service.endpoint}",
    ]
    for job in service.jobs.values():
        job.cancel()
    assert service.refused == []


def run(command, *flags, **keywords):
    return subprocess.run(
        [*command, *flags], cwd=ROOT, capture_output=True, text=True, timeout=1200, **keywords
    )


def start(command, **streams):
    """Ctrl-C is its own affair, also where the tests were started in the background, without it."""
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, cwd=ROOT, preexec_fn=heed, **streams)


def test_the_rows_are_those_of_the_local_runner(command, store, service, tmp_path, request):
    # Before a worker starts the vocabulary is gone: it travels in the pipeline.
    vocab = command[command.index("--vocab_file") + 1]
    service.on_create = lambda job: remove_one(vocab)
    done = run(command)
    assert done.returncode == 0, done.stderr
    (job,) = service.jobs.values()
    assert f"dataflow/jobs/europe-west4/{job.id}?project=my-project" in done.stdout
    build_here(DATA / "documents.jsonl", output=tmp_path / "local", num_shards=3)
    manifest = json.loads(store.read(f"{request.node.name}/manifest.json"))
    there = {shard["path"]: shard["sha256"] for d in manifest["data_sets"] for shard in d["shards"]}
    assert there == digests(tmp_path / "local")
    # The workers ran what was staged, not this checkout.
    assert set(job.modules) == {"pipeline", "runners", "schemas", "transforms"}
    for name, path in job.modules.items():
        assert "/venv-bert_data-" in path
        assert path.endswith(f"/site-packages/{name}/__init__.py")
    _check_request(job, manifest)


def test_text_in_three_languages_has_the_same_shards(command, store, shared, tmp_path, request):
    names = ["handbook.de-DE.jsonl", "handbook.ru-RU.jsonl", ENCYCLOPEDIA]
    paths = [shared / "data" / "corpora" / name for name in names]
    command[4:5] = [store.put_file(path, f"in/{path.name}") for path in paths]
    done = run(command, "--dupe_factor=1")
    assert done.returncode == 0, done.stderr
    build_here(*paths, output=tmp_path / "local", num_shards=3, dupe_factor=1)
    assert digests(f"{store.root}/{request.node.name}") == digests(tmp_path / "local")


def remove_one(url):
    from schemas.stores import remove

    remove([url])


def _check_request(job, manifest):
    """What was asked of the service, beyond what it asks itself."""
    pool = job.request.environment.worker_pools[0]
    assert job.request.name.startswith(f"bert-data-{manifest['fingerprint'][:12]}-")
    assert dict(job.request.labels) == {"bert-data": "0-1-0"}
    assert (pool.machine_type, pool.disk_size_gb) == ("n2-standard-4", 50)
    assert pool.num_threads_per_worker == 1
    assert pool.autoscaling_settings.max_num_workers == 1  # 3 blocks, 4 cores
    assert pool.autoscaling_settings.algorithm.name == "AUTOSCALING_ALGORITHM_BASIC"
    assert {"use_runner_v2", "use_multiple_sdk_containers"} <= set(
        job.request.environment.experiments
    )
    (wheel,) = (name for name in job.staged if name.endswith(".whl"))
    assert set(job.staged) == {
        "extra_packages.txt",
        wheel,
        "submission_environment_dependencies.txt",
    }
    with zipfile.ZipFile(job.staged[wheel]) as file:
        for name in ("transforms/masking.py", "schemas/document.avsc"):
            assert file.read(name) == (ROOT / name).read_bytes()
        assert not [name for name in file.namelist() if name.startswith(("train/", "tests/"))]


def test_a_job_that_is_not_waited_for_ends_by_itself(command, store, service, request):
    done = run(command, "--no-wait", "--num_workers=7", "--labels=team=nlp")
    assert done.returncode == 0, done.stderr
    name = request.node.name
    assert f"Not waited for: {store.root}/{name}/manifest.json" in done.stdout
    job = list(service.jobs.values())[-1]
    assert not job.has_ended
    pool = job.request.environment.worker_pools[0]
    assert (pool.num_workers, pool.autoscaling_settings.max_num_workers) == (7, 7)
    assert dict(job.request.labels) == {"bert-data": "0-1-0", "team": "nlp"}
    wait_for(lambda: job.has_ended)
    assert "manifest.json" in store.names(name)


def test_a_workers_error_is_the_last_line(command, store, service):
    store.put("in/bad.jsonl", b'{"text": "One. Two."}\n{"words": "x"}\n')
    command[4] = f"{store.root}/in/bad.jsonl"
    done = run(command)
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("bert-data: error: 1 of 2 records were refused")


def test_an_interrupted_command_leaves_the_job_running_where_nobody_can_be_asked(
    command, store, service, request
):
    before = set(service.jobs)
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    while line and not line.startswith("The job: "):
        line = process.stdout.readline()
    time.sleep(1.0)  # until it waits
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=600)
    (job_id,) = set(service.jobs) - before
    assert process.returncode == 130
    cancel = f"gcloud dataflow jobs cancel {job_id} --region=europe-west4 --project=my-project"
    assert cancel in said
    assert said.splitlines()[-1].endswith("interrupted; the job goes on without the command")
    wait_for(lambda: service.jobs[job_id].has_ended)
    assert "manifest.json" in store.names(request.node.name)


def test_on_a_terminal_it_asks_and_cancels(command, service):
    before = set(service.jobs)
    ours, theirs = pty.openpty()
    process = start(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = _read_until(ours, "The job: ")
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    shown += _read_until(ours, "[y/N] ")
    os.write(ours, b"y\n")
    assert process.wait(600) == 130
    os.close(ours)
    (job_id,) = set(service.jobs) - before
    wait_for(lambda: service.jobs[job_id].has_ended)
    assert service.jobs[job_id].message().current_state.name == "JOB_STATE_CANCELLED"


def _read_until(descriptor, text):
    shown = b""
    while text.encode() not in shown:
        shown += os.read(descriptor, 4096)
    return shown


def test_a_job_cancelled_elsewhere_is_said(command, service):
    service.on_create = lambda job: job.cancel()
    done = run(command)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "bert-data: error: the job was cancelled; go on with --resume"
    )


def test_a_template_describes_a_job_that_runs(command, store, service, request):
    """As Google's launcher runs it; then the service makes a job of the description."""
    before = set(service.jobs)
    name = f"templates/{request.node.name}.json"
    given = [f"--input={command[4]}", f"--vocab_file={command[6]}", f"--output={command[8]}"]
    given += [flag for flag in command[9:] if not flag.startswith("--runner")]
    given += ["--runner=DataflowRunner", f"--template_location={store.root}/{name}"]
    launcher = [sys.executable, str(ROOT / "runners" / "images" / "launch.py")]
    done = run(launcher, *given, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert set(service.jobs) == before
    made = service.create("my-project", "europe-west4", store.read(name))
    job = service.jobs[made.id]
    wait_for(lambda: job.has_ended)
    assert job.message().current_state.name == "JOB_STATE_DONE"
    assert "manifest.json" in store.names(request.node.name)


def test_a_setup_file_is_staged_instead_of_a_wheel(command, service):
    pytest.importorskip("setuptools")
    done = run(command, f"--setup_file={ROOT}/setup.py", "--no-wait")
    assert done.returncode == 0, done.stderr
    job = list(service.jobs.values())[-1]
    wait_for(lambda: job.has_worker or job.has_ended)
    assert "workflow.tar.gz" in job.staged
    assert not [name for name in job.staged if name.endswith(".whl")]
    # Whole, as pip has installed it. To compile its kernels as well would take longer than all of this.
    assert "/venv-workflow.tar.gz" in job.modules["transforms"]
    installed = pathlib.Path(job.modules["transforms"]).parents[1]
    names = {str(p.relative_to(ROOT)) for p in files_of_the_package()}
    assert names == {name for name in names if (installed / name).is_file()}


def test_an_image_has_the_package(command, service):
    image = "europe-docker.pkg.dev/my-project/images/bert-data:1"
    service.on_create = lambda job: job.cancel()
    done = run(command, f"--sdk_container_image={image}", "--no-wait")
    assert done.returncode == 0, done.stderr
    job = list(service.jobs.values())[-1]
    wait_for(lambda: job.staged)
    assert not [name for name in job.staged if name.endswith((".whl", ".tar.gz"))]
    pool = job.request.environment.worker_pools[0]
    assert pool.worker_harness_container_image == image


def files_of_the_package():
    """What runs on a worker: modules, and what ``setup.py`` has beside them."""
    for folder in ("pipeline", "runners", "schemas", "transforms"):
        for path in (ROOT / folder).rglob("*"):
            wanted = path.suffix == ".py" and path.parent.name != "images"
            if wanted or path.name.endswith((".avsc", ".schema.json")):
                yield path


def test_the_wheel_is_a_whole_package(tmp_path):
    from runners.wheels import write_wheel

    data = write_wheel(tmp_path, runner="dataflow").read_bytes()
    assert data == write_wheel(tmp_path, runner="dataflow").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        metadata = file.read(next(n for n in file.namelist() if n.endswith("METADATA"))).decode()
        names = {n for n in file.namelist() if ".dist-info" not in n}
    assert names >= {str(p.relative_to(ROOT)) for p in files_of_the_package()}
    import numba

    assert f"Requires-Dist: numba=={numba.__version__}\n" in metadata
    assert "torch" not in metadata
