"""What would keep a job from running elsewhere is one line before anything is submitted or written."""

from __future__ import annotations

import socket

import pytest

from pipeline.cli import main
from tests.builds import DATA, VOCAB
from tests.end_to_end.commands import files_of

CORPUS = DATA / "sentences.txt"


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """Nothing can be fetched, and nothing was before; programs are in ``bin`` only."""
    import urllib.request

    from apache_beam.runners.portability.prism_runner import PrismJobServer
    from apache_beam.utils.subprocess_server import JavaJarServer

    def refuse(request, timeout=None):
        raise OSError("no way out")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(PrismJobServer, "BIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(JavaJarServer, "JAR_CACHE", str(tmp_path / "cache"))
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))

    def program(name, says="", code=0):
        path = programs / name
        path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
        path.chmod(0o755)
        return path

    return program


def refused(capsys, tmp_path, flags):
    """The line with which build and plan are both refused."""
    lines = set()
    for name in ("build", "plan"):
        fixed = [name, str(CORPUS), "--vocab_file", str(VOCAB), "--output", str(tmp_path / "out")]
        lines.add(line_of(capsys, [*fixed, *flags]))
        assert not files_of(tmp_path / "out")
    (line,) = lines
    return line


def line_of(capsys, arguments):
    code = main(arguments)
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert printed.err.count("\n") == 1
    return printed.err.strip().removeprefix("bert-data: error: ")


JAVA_17 = 'openjdk version "17.0.1"'
JAVA = "install Java 11 or newer, or name its java here"


def test_a_name_that_is_no_runner(capsys, tmp_path):
    line = refused(capsys, tmp_path, ["--runner=flnk"])
    assert line.startswith("--runner='flnk': is none that Beam knows (")
    assert line.endswith("); did you mean flink?")
    line = refused(capsys, tmp_path, ["--runner=nowhere"])
    assert line.endswith("); there are local, prism, flink, spark, dataflow")


def test_a_runner_that_lacks_a_package(capsys, tmp_path, monkeypatch):
    def create(name):
        raise ImportError("Interactive\nneeds IPython")

    monkeypatch.setattr("apache_beam.runners.runner.create_runner", create)
    assert refused(capsys, tmp_path, ["--runner=InteractiveRunner"]) == (
        "--runner='InteractiveRunner': needs a package that is not installed (Interactive needs IPython)"
    )


def test_prism_that_is_nowhere(capsys, tmp_path, offline):
    assert refused(capsys, tmp_path, ["--runner=prism"]) == (
        "--prism_location=None: Prism is not in PATH and cannot be downloaded (no way out); download it "
        "elsewhere, or build it with go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0, "
        "and name it"
    )
    flags = ["--runner=prism", f"--prism_location={tmp_path}/x"]
    assert refused(capsys, tmp_path, flags) == (
        f"--prism_location='{tmp_path}/x': no such program; give Prism's binary"
    )


@pytest.mark.parametrize(
    ("says", "code", "line"),
    [
        (None, 0, f"no such program; {JAVA}"),
        ('java version "1.8.0_392"', 0, f"is Java 8; {JAVA}"),
        ("", 1, f"does not answer; {JAVA}"),
    ],
)
def test_spark_without_a_java_that_will_do(capsys, tmp_path, offline, says, code, line):
    if says is not None:
        offline("java", says, code)
    found = refused(capsys, tmp_path, ["--runner=spark"])
    assert found == f"--job_server_java_launcher='java': {line}"


def test_spark_without_a_job_server(capsys, tmp_path, offline):
    offline("java", JAVA_17)
    line = refused(capsys, tmp_path, ["--runner=spark"])
    assert line.startswith("--spark_job_server_jar=None: the job server https://")
    assert line.endswith(".jar cannot be had (no way out); download it elsewhere and name it")
    flags = ["--runner=spark", f"--spark_job_server_jar={tmp_path}/x.jar"]
    assert refused(capsys, tmp_path, flags) == (
        f"--spark_job_server_jar='{tmp_path}/x.jar': no such file; give the job server's jar, or leave "
        "it out"
    )


def test_a_spark_master_that_is_none(capsys, tmp_path, offline):
    offline("bert-data-worker")
    flags = ["--runner=spark", "--shared_files", "--spark_master_url=there"]
    assert refused(capsys, tmp_path, flags) == (
        "--spark_master_url='there': is no master; give local, local[N] or spark://HOST:PORT"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"spark://127.0.0.1:{free.getsockname()[1]}"
        flags[-1] = f"--spark_master_url={url}"
        assert refused(capsys, tmp_path, flags) == (
            f"--spark_master_url='{url}': does not answer ([Errno 111] Connection refused); start it, or "
            "name another one"
        )


CLUSTER = ["--runner=spark", "--spark_master_url=spark://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            CLUSTER,
            f"--input='{CORPUS}': is on this machine, and the workers of --runner=spark may be on others; "
            "give a gs://, s3:// or hdfs:// path, or say --shared_files if all of them have it under this "
            "name",
        ),
        (
            [*CLUSTER, "--shuffle=files"],
            "--shuffle='files': the workers of --runner=spark may be on several machines; leave it out, "
            "or name a folder that all of them share with --temp_dir and say --shared_files",
        ),
        (
            ["--runner=prism", "--no-wait"],
            "--wait=False: a job of --runner=prism ends with the command; leave it out",
        ),
        (
            [*CLUSTER, "--shared_files", "--no-wait"],
            "--wait=False: a job of --runner=spark ends with the command; leave it out",
        ),
    ],
    ids=["a local path", "own files", "Prism", "Spark"],
)
def test_what_a_place_has_not(capsys, tmp_path, flags, line):
    assert refused(capsys, tmp_path, flags) == line


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("--no-wait", "--wait=False: a job of --runner=local ends with the command; leave it out"),
        (
            "--environment_type=PROCESS",
            "--environment_type='PROCESS': is of no use to --runner=local; name another or leave it out",
        ),
        (
            "--job_endpoint=localhost:1",
            "--job_endpoint='localhost:1': is of no use to --runner=local; name another or leave it out",
        ),
    ],
)
def test_flags_that_this_machine_has_no_use_for(capsys, tmp_path, flag, line):
    assert refused(capsys, tmp_path, [flag]) == line


def test_workers_that_are_processes_need_our_command(capsys, tmp_path, offline, monkeypatch):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    flags = ["--runner=prism", "--environment_type=PROCESS"]
    assert refused(capsys, tmp_path, flags) == (
        f"--environment_type='PROCESS': there is no bert-data-worker in {tmp_path}, which pip makes; "
        "install the package, or name the machines' own: "
        '--environment_config=\'{"command": "/path/of/bert-data-worker"}\''
    )


@pytest.mark.parametrize("runner", ["prism", "spark"])
def test_the_command_of_workers_on_this_machine_has_to_be_there(capsys, tmp_path, offline, runner):
    config = '{"command": "/no/worker"}'
    flags = [f"--runner={runner}", "--environment_type=PROCESS"]
    assert refused(capsys, tmp_path, [*flags, f"--environment_config={config}"]) == (
        f"--environment_config='{config}': there is no such program; give the path of bert-data-worker"
    )
    assert refused(capsys, tmp_path, [*flags, "--environment_config=/no/worker"]) == (
        '--environment_config=\'/no/worker\': is not of the form {"command": "/path"}'
    )


def test_documents_are_written_here_and_checked_here(capsys, tmp_path):
    arguments = ["documents", str(CORPUS), f"--output={tmp_path}/a.jsonl", "--runner=prism"]
    assert line_of(capsys, arguments) == (
        "--runner='prism': documents are written on this machine; leave it out"
    )
    line = line_of(capsys, ["check", str(tmp_path), "--runner=prism"])
    assert line == "unrecognized arguments: --runner=prism"


def test_a_plan_says_where_it_would_run(capsys, tmp_path, offline):
    prism = offline("prism")
    fixed = ["plan", str(CORPUS), "--vocab_file", str(VOCAB), "--runner=prism"]
    assert main(fixed) == 0
    assert (
        "Running: prism, workers are threads of the command's process, a shuffle by the runner; "
        in capsys.readouterr().out
    )
    assert main([*fixed, f"--prism_location={prism}", "--shuffle=files"]) == 0
    assert "a shuffle by files; " in capsys.readouterr().out
