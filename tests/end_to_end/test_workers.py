"""Where a local build runs: on which runner, in which processes, and with nothing but this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import DirectOptions, StandardOptions
from apache_beam.runners.direct import direct_runner
from apache_beam.runners.portability import prism_runner

from pipeline.prepare import SMALL_INPUT_BYTES, choose_workers
from schemas.errors import ConfigError
from tests.builds import DATA, ROOT, VOCAB, build_here, digests
from tests.end_to_end.commands import session_members
from tests.end_to_end.slow_corpus import FLAGS, is_writing, make_slow_corpus

CORPUS = DATA / "sentences.txt"
SETTINGS = {"dupe_factor": 1, "num_shards": 2}
SMALL = ("--dupe_factor=1", "--num_shards=2")

#: In a process: Beam's other runners, and every address but this machine's, are out of reach.
NO_OTHER_RUNNER = """
from apache_beam.runners.direct import direct_runner
from apache_beam.runners.portability import prism_runner
def refuse(*arguments, **keywords):
    raise AssertionError("another runner")
prism_runner.PrismRunner.__init__ = refuse
prism_runner.PrismJobServer.__init__ = refuse
direct_runner.SwitchingDirectRunner.run_pipeline = refuse
direct_runner.BundleBasedDirectRunner.run_pipeline = refuse
"""
NO_NETWORK = """
import socket
connect, getaddrinfo = socket.socket.connect, socket.getaddrinfo
def local(address):
    return isinstance(address, (str, bytes)) or address[0] in ("localhost", "127.0.0.1", "::1")
def connect_here(self, address):
    assert local(address), address
    return connect(self, address)
def look_up_here(host, *arguments, **keywords):
    assert local((host,)), host
    return getaddrinfo(host, *arguments, **keywords)
socket.socket.connect = socket.socket.connect_ex = connect_here
socket.getaddrinfo = look_up_here
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    output = tmp_path_factory.mktemp("expected") / "out"
    build_here(CORPUS, output=output, **SETTINGS)
    return digests(output)


def test_a_local_build_never_asks_for_another_runner(tmp_path, monkeypatch, expected):
    def refuse(*arguments, **keywords):
        pytest.fail("another runner")

    for kind, method in [
        (prism_runner.PrismRunner, "__init__"),
        (prism_runner.PrismJobServer, "__init__"),
        (direct_runner.SwitchingDirectRunner, "run_pipeline"),
        (direct_runner.BundleBasedDirectRunner, "run_pipeline"),
    ]:
        monkeypatch.setattr(kind, method, refuse)
    build_here(CORPUS, output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected


def test_no_other_runner_and_no_other_machine(commands, tmp_path, expected):
    before = NO_OTHER_RUNNER + NO_NETWORK
    flags = [*SMALL, "--num_workers=2"]
    done = commands.build(CORPUS, tmp_path / "out", *flags, before=before).wait()
    assert (done.code, done.stderr) == (0, "")
    assert digests(tmp_path / "out") == expected


def test_a_machine_without_a_network(tmp_path, expected):
    alone = ["unshare", "--map-root-user", "--net", "sh", "-c"]
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("needs unshare and ip")
    if subprocess.run([*alone, "ip link set lo up"], capture_output=True, check=False).returncode:
        pytest.skip("needs the permission to make a network namespace")
    flags = ["--vocab_file", VOCAB, "--output", tmp_path / "out", "--num_workers=2", *SMALL]
    command = [sys.executable, "-m", "pipeline", "build", CORPUS, *flags]
    done = subprocess.run(
        [*alone, 'ip link set lo up; exec "$@"', "sh", *map(str, command)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert digests(tmp_path / "out") == expected


def test_a_proxy_is_not_asked_for_our_own_workers(commands, tmp_path, expected):
    # A port that nothing listens on: gRPC would try it for a minute.
    proxy = "http://127.0.0.1:9"
    environment = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": "example.org"}
    done = commands.build(
        CORPUS, tmp_path / "out", *SMALL, "--num_workers=2", environment=environment
    ).wait(50)
    assert (done.code, done.stderr) == (0, "")
    assert digests(tmp_path / "out") == expected


@pytest.mark.parametrize("before", [None, "example.org"])
def test_the_environment_is_as_before(tmp_path, monkeypatch, before):
    name = "no_grpc_proxy"
    monkeypatch.delenv(name, raising=False)
    if before:
        monkeypatch.setenv(name, before)
    build_here(CORPUS, output=tmp_path / "out", **SETTINGS)
    assert os.environ.get(name) == before


class _RecordedError(Exception):
    pass


@pytest.mark.parametrize(
    "name", ["DirectRunner", "apache_beam.runners.direct.direct_runner.BundleBasedDirectRunner"]
)
def test_another_runner_is_beams_business(tmp_path, monkeypatch, name):
    def pipeline(options):
        raise _RecordedError(options)

    monkeypatch.setattr(beam, "Pipeline", pipeline)
    beam_args = ["--direct_num_workers=3", "--flink_master=here:1"]
    with pytest.raises(_RecordedError) as recorded:
        build_here(CORPUS, output=tmp_path / "out", runner=name, beam_args=beam_args, **SETTINGS)
    options = recorded.value.args[0]
    assert options.view_as(StandardOptions).runner == name
    assert options.view_as(DirectOptions).direct_num_workers == 3
    assert options.get_all_options(retain_unknown_options=True)["flink_master"] == "here:1"


def test_the_command_passes_the_name_on(commands, tmp_path):
    done = commands.build(CORPUS, tmp_path / "out", *SMALL, "--runner=NoSuchRunner").wait()
    assert done.code in (1, 2)
    assert "NoSuchRunner" in done.stderr
    assert "Traceback" not in done.stderr


def test_as_many_workers_as_asked_for_and_none_left(commands, tmp_path):
    corpus = make_slow_corpus(tmp_path / "slow.jsonl")
    command = commands.build(corpus, tmp_path / "out", "--num_workers=3", *FLAGS)
    command.until(lambda: is_writing(tmp_path / "out"))
    assert len(command.workers()) == 3
    assert command.wait().code == 0
    assert not session_members(command.pid)
    assert len(digests(tmp_path / "out")) == 8


def test_small_input_is_not_worth_a_worker():
    cores = len(os.sched_getaffinity(0))
    assert choose_workers(None, text_bytes=SMALL_INPUT_BYTES - 1) == 1
    assert choose_workers(None, text_bytes=SMALL_INPUT_BYTES) == cores
    assert choose_workers(7, text_bytes=1) == 7


def test_no_folder_of_workers_is_left_however_long_its_path(commands, tmp_path):
    # A socket's own address could not hold it.
    temp = tmp_path / ("long" * 30)
    temp.mkdir()
    before = f"import tempfile; tempfile.tempdir = {str(temp)!r}"
    done = commands.build(CORPUS, tmp_path / "out", *SMALL, "--num_workers=2", before=before).wait()
    assert (done.code, done.stderr) == (0, "")
    assert not list(temp.iterdir())


def test_a_worker_that_cannot_start_is_no_riddle(commands, tmp_path):
    before = "import runners.workers as workers; workers._serve = lambda listener: 1 / 0"
    done = commands.build(CORPUS, tmp_path / "out", "--num_workers=2", before=before).wait()
    assert done.code == 1
    said = "a worker process ended with exit code 1; --debug shows why"
    assert done.stderr == f"bert-data: error: {said}\n"
    flags = ["--num_workers=2", "--debug"]
    done = commands.build(CORPUS, tmp_path / "out", *flags, before=before).wait()
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert done.stderr.splitlines()[-1] == f"bert-data: error: {said}"


def test_a_wrong_flag_starts_no_worker(tmp_path):
    with pytest.raises(ConfigError):
        build_here(CORPUS, output=tmp_path / "out", num_workers=-1)
    assert not Path(tmp_path / "out").exists()
