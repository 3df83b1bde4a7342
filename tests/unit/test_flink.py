"""What is found out of a Flink cluster before a job is submitted to it, and what is asked of it then."""

from __future__ import annotations

import base64
import http.server
import json
import socket
import threading
import zipfile
from typing import Any

import pytest
from apache_beam.options.pipeline_options import FlinkRunnerOptions
from apache_beam.runners.runner import PipelineResult
from apache_beam.utils.subprocess_server import JavaJarServer

from runners.base import Submission
from runners.flink import Flink
from runners.flink_checks import jar_version
from runners.flink_rest import FlinkRest
from schemas.errors import ConfigError
from tests.unit.test_runner_checks import CORPUS, refused

JAVA_17 = 'openjdk version "17.0.1" 2021-10-19'


class FakeFlink:
    """Answers as a cluster's REST interface does.

    Attributes:
      answers: by path; may be changed.
      asked: methods and paths.
    """

    def __init__(self):
        self.answers: dict[str, Any] = {
            "/config": {"flink-version": "1.19.3"},
            "/overview": {"slots-total": 4, "slots-available": 3},
            "/jobmanager/config": [{"key": "rest.port", "value": "8081"}],
            "/jobs/overview": {"jobs": []},
        }
        self.hosts("127.0.0.1", "10.1.2.3")
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                outer.asked.append((self.command, self.path))
                found = outer.answers.get(self.path)
                body = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(404 if found is None else 200)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PATCH = answer  # noqa: N815 - names of the standard library

            def log_message(self, *unused):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.master = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def hosts(self, *hosts):
        """Task managers of two slots."""
        managers = [
            {"path": f"pekko.tcp://flink@{host}:4000/user/rpc/taskmanager_0", "slotsNumber": 2}
            for host in hosts
        ]
        self.answers["/taskmanagers"] = {"taskmanagers": managers}

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def flink():
    fake = FakeFlink()
    yield fake
    fake.close()


@pytest.fixture
def jar(tmp_path):
    """A job server for Flink 1.19 whose jars are beside it."""
    return make_jar(tmp_path / "server.jar", "jars/a.jar jars/flink-runtime-1.19.0.jar jars/b.jar")


def make_jar(path, class_path):
    line = f"Class-Path: {class_path}"
    text = "\r\n ".join(line[i : i + 40] for i in range(0, len(line), 40))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\n{text}\r\n")
    return path


@pytest.fixture
def java(tmp_path):
    """Makes a program that says it is a Java."""

    def make(says=JAVA_17, code=0):
        path = tmp_path / "java"
        path.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
        path.chmod(0o755)
        return str(path)

    return make


SUBMISSION = Submission(name="a-job", paths={}, blocks=100)


def options_of(*flags, submission=SUBMISSION):
    return Flink().options(flags, submission)


def check(*flags, submission=SUBMISSION):
    runner = Flink()
    runner.check(runner.options(flags, submission), submission)


def error_of(*flags, submission=SUBMISSION):
    with pytest.raises(ConfigError) as caught:
        check(*flags, submission=submission)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_cluster_decides_what_was_not_given(flink):
    given = options_of(f"--flink_master={flink.master}").get_all_options()
    assert given["flink_version"] == "1.19"
    assert given["parallelism"] == 3
    assert given["sdk_worker_parallelism"] == "2"
    assert given["environment_type"] == "PROCESS"
    assert json.loads(given["environment_config"])["command"].endswith("bert-data-worker")
    assert given["job_name"].startswith("a-job-")


def test_what_was_given_stands(flink):
    flags = ["--parallelism=1", "--sdk_worker_parallelism=5", "--job_name=mine"]
    flags += ["--flink_version=1.20", "--environment_type=DOCKER"]
    given = options_of(f"--flink_master={flink.master}", *flags).get_all_options()
    assert given["parallelism"] == 1
    assert given["sdk_worker_parallelism"] == "5"
    assert given["job_name"] == "mine"
    assert given["flink_version"] == "1.20"
    assert given["environment_type"] == "DOCKER"
    assert given["environment_config"] is None


@pytest.mark.parametrize(("workers", "blocks", "parallelism"), [(2, 9, 2), (None, 1, 1), (8, 3, 3)])
def test_no_more_tasks_than_workers_and_blocks(flink, workers, blocks, parallelism):
    submission = Submission(name="a", paths={}, blocks=blocks, num_workers=workers)
    given = options_of(f"--flink_master={flink.master}", submission=submission).get_all_options()
    assert given["parallelism"] == parallelism


def test_the_embedded_flink_runs_in_the_command():
    given = options_of().get_all_options()
    assert given["flink_master"] == "[local]"
    assert given["environment_type"] == "LOOPBACK"
    assert given["parallelism"] >= 1


@pytest.mark.parametrize(
    ("says", "code", "expected"),
    [
        ('java version "1.8.0_392"', 0, "is Java 8; install Java 11 or newer"),
        ("Unable to locate a Java Runtime.", 1, "does not answer; install Java 11 or newer"),
    ],
)
def test_java_has_to_be_new_enough(java, jar, says, code, expected):
    launcher = java(says, code)
    said = error_of(f"--job_server_java_launcher={launcher}", f"--flink_job_server_jar={jar}")
    assert f"--job_server_java_launcher={launcher!r}: {expected}" in said


def test_java_has_to_be_there(jar):
    said = error_of("--job_server_java_launcher=/no/java", f"--flink_job_server_jar={jar}")
    assert said.startswith("--job_server_java_launcher='/no/java': no such program; install Java")


def test_a_job_server_that_runs_already_needs_neither(flink):
    flags = ["--job_server_java_launcher=/no/java", "--flink_job_server_jar=/no/jar"]
    answers = f"--job_endpoint={flink.master}"
    check(*flags, answers, f"--flink_master={flink.master}")


def test_a_jar_that_goes_to_the_cluster_needs_no_java(flink, jar):
    flags = ["--job_server_java_launcher=/no/java", f"--flink_job_server_jar={jar}"]
    check(*flags, "--flink_submit_uber_jar", f"--flink_master={flink.master}")


def test_the_job_server_has_to_be_there(java, tmp_path):
    flags = [f"--job_server_java_launcher={java()}"]
    said = error_of(*flags, f"--flink_job_server_jar={tmp_path}/none.jar")
    assert said.startswith(f"--flink_job_server_jar='{tmp_path}/none.jar': no such file")
    with socket.socket() as listener:  # bound and not listening: refused at once
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/beam-none.jar"
        said = error_of(*flags, f"--flink_job_server_jar={url}")
    assert f"the job server {url} cannot be had" in said


def test_a_cluster_has_to_answer(java, jar, flink):
    flags = [f"--job_server_java_launcher={java()}", f"--flink_job_server_jar={jar}"]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        master = f"127.0.0.1:{listener.getsockname()[1]}"
        said = error_of(*flags, f"--flink_master={master}")
    assert said.startswith(f"--flink_master='{master}': does not answer (")
    answers: list[Any] = [b"<html>", {"version": 1}, []]
    for answer in answers:
        flink.answers["/config"] = answer
        said = error_of(*flags, f"--flink_master={flink.master}")
        assert said.startswith(f"--flink_master='{flink.master}': answers, but is no Flink")
    del flink.answers["/config"]
    said = error_of(*flags, f"--flink_master={flink.master}")
    assert said.startswith(f"--flink_master='{flink.master}': answers HTTP Error 404")


def test_the_job_server_has_to_be_of_the_clusters_version(java, jar, flink):
    flags = [f"--job_server_java_launcher={java()}", f"--flink_master={flink.master}"]
    check(*flags, f"--flink_job_server_jar={jar}")
    flink.answers["/config"] = {"flink-version": "1.20.1"}
    said = error_of(*flags, f"--flink_job_server_jar={jar}")
    assert f"--flink_job_server_jar='{jar}': is for Flink 1.19, and {flink.master} runs" in said
    assert "1.20.1; give one for 1.20, or leave it out" in said


def test_a_version_that_beam_has_no_job_server_for_is_said(flink):
    flink.answers["/config"] = {"flink-version": "1.7.2"}
    said = error_of(f"--flink_master={flink.master}")
    assert "runs Flink 1.7.2, for which this Beam has no job server" in said


def test_versions_of_job_servers(tmp_path):
    assert jar_version("https://a/beam-runners-flink-1.20-job-server-2.77.0.jar") == "1.20"
    assert jar_version(str(make_jar(tmp_path / "a.jar", "x.jar " * 30))) is None
    assert jar_version(str(tmp_path / "none.jar")) is None
    with zipfile.ZipFile(tmp_path / "shaded.jar", "w") as archive:
        archive.writestr(".flink-runtime.version.properties", "# a\nproject.version=2.0.1\n")
    assert jar_version(str(tmp_path / "shaded.jar")) == "2.0"


def test_more_tasks_than_free_slots_are_refused(java, jar, flink):
    flags = [f"--job_server_java_launcher={java()}", f"--flink_job_server_jar={jar}"]
    flags.append(f"--flink_master={flink.master}")
    check(*flags, "--parallelism=3")
    said = error_of(*flags, "--parallelism=4")
    assert said.startswith(f"--parallelism=4: {flink.master} has 3 free slots of 4")
    submission = Submission(name="a", paths={}, blocks=100, num_workers=4)
    assert error_of(*flags, submission=submission).startswith("--num_workers=4: ")
    flink.answers["/overview"]["slots-available"] = 0
    assert "none of its 4 slots is free" in error_of(*flags)
    flink.answers["/overview"]["slots-total"] = 0
    assert "has no task managers" in error_of(*flags)
    # Where task managers come with a job there is nothing to wait for.
    flink.answers["/jobmanager/config"].append({"key": "kubernetes.cluster-id", "value": "a"})
    check(*flags, "--parallelism=4")


def external(java, jar, flink, address):
    return [
        f"--job_server_java_launcher={java()}",
        f"--flink_job_server_jar={jar}",
        f"--flink_master={flink.master}",
        "--environment_type=EXTERNAL",
        f"--environment_config={address}",
    ]


def test_a_pool_of_workers_has_to_answer(java, jar, flink):
    flink.hosts("127.0.0.1")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"localhost:{listener.getsockname()[1]}"
        said = error_of(*external(java, jar, flink, address))
        assert said.startswith(f"--environment_config={address!r}: no pool of workers answers")
        # It is another machine's localhost.
        flink.hosts("10.1.2.3")
        check(*external(java, jar, flink, address))
        flink.hosts("127.0.0.1")
        listener.listen()
        check(*external(java, jar, flink, address))
    # A name that only the cluster knows.
    check(*external(java, jar, flink, "pool.invalid:1"))
    assert "is no HOST:PORT" in error_of(*external(java, jar, flink, "somewhere"))


def test_two_task_managers_of_a_machine_do_not_share_a_pool(java, jar, flink):
    flink.hosts("10.1.2.3", "10.1.2.3")
    said = error_of(*external(java, jar, flink, "localhost:50000"))
    assert "is one pool for 2 task managers on 10.1.2.3, which would wait for ever" in said
    flink.hosts("10.1.2.3", "10.1.2.4")
    check(*external(java, jar, flink, "localhost:50000"))
    assert "is one pool for 2 task managers, which" in error_of(
        *external(java, jar, flink, "10.9.9.9:50000")
    )


def test_the_workers_command_has_to_be_there(java, jar, flink):
    flags = [f"--job_server_java_launcher={java()}", f"--flink_job_server_jar={jar}"]
    flags += [f"--flink_master={flink.master}", "--environment_type=PROCESS"]
    config = '--environment_config={"command": "/no/worker"}'
    flink.hosts("10.1.2.3")
    check(*flags, config)
    flink.hosts("127.0.0.1")
    said = error_of(*flags, config)
    assert said.startswith('--environment_config=\'{"command": "/no/worker"}\': there is no such')
    assert "is not of the form" in error_of(*flags, "--environment_config=/no/worker")


def closed_port():
    """An address that refuses connections for as long as the socket is kept."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"


REFUSED = "[Errno 111] Connection refused"
REST = "give HOST:PORT of its REST interface, or leave it out for the embedded Flink"
POOL = (
    "for which a job would wait for ever; start it where the tasks run (python -m "
    "apache_beam.runners.worker.worker_pool_main --service_port={port} "
    "--container_executable=bert-data-worker)"
)

#: What is changed, as flags and as answers of the cluster, and the line that build and plan end with.
CHECKS: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "no Java": (
        ["--job_server_java_launcher=/no/java"],
        {},
        "--job_server_java_launcher='/no/java': no such program; install Java 11 or newer, or name its "
        "java here",
    ),
    "no jar": (
        ["--flink_job_server_jar=/no/x.jar"],
        {},
        "--flink_job_server_jar='/no/x.jar': no such file; give the job server's jar, or leave it out",
    ),
    "a jar that cannot be fetched": (
        ["--flink_job_server_jar=http://{closed}/x.jar"],
        {},
        "--flink_job_server_jar='http://{closed}/x.jar': the job server http://{closed}/x.jar cannot be "
        f"had (<urlopen error {REFUSED}>); download it elsewhere and name it",
    ),
    "no cluster": (
        ["--flink_master={closed}"],
        {},
        f"--flink_master='{{closed}}': does not answer ({REFUSED}); {REST}",
    ),
    "no Flink": (
        [],
        {"/config": {"version": 1}},
        f"--flink_master='{{master}}': answers, but is no Flink; {REST}",
    ),
    "a jar for another Flink": (
        [],
        {"/config": {"flink-version": "1.20.1"}},
        "--flink_job_server_jar='{jar}': is for Flink 1.19, and {master} runs 1.20.1; give one for 1.20, "
        "or leave it out",
    ),
    "a version of another Flink": (
        ["--flink_job_server_jar=", "--flink_version=1.20"],
        {},
        "--flink_version='1.20': is for Flink 1.20, and {master} runs 1.19.3; leave it out",
    ),
    "a Flink without job server": (
        ["--flink_job_server_jar="],
        {"/config": {"flink-version": "1.7.2"}},
        "--flink_master='{master}': runs Flink 1.7.2, for which this Beam has no job server (it has "
        "{published}); name one of an earlier Beam with --flink_job_server_jar",
    ),
    "no tasks at once": (
        ["--parallelism=0"],
        {},
        "--parallelism=0: must be at least 1; leave it out for as many as there are free slots",
    ),
    "a jar that is none": (
        ["--flink_job_server_jar={corpus}"],
        {},
        "--flink_job_server_jar='{corpus}': is no jar; give the job server's, or leave it out",
    ),
    "an environment that is none": (
        ["--environment_type=BOGUS"],
        {},
        "--environment_type='BOGUS': is none that Beam knows; there are LOOPBACK, PROCESS, EXTERNAL, "
        "DOCKER",
    ),
    "no job server": (
        ["--job_endpoint={closed}"],
        {},
        f"--job_endpoint='{{closed}}': no job server answers there ({REFUSED}); start it, or leave this "
        "out to have one started",
    ),
    "no address of a job server": (
        ["--job_endpoint=nonsense"],
        {},
        "--job_endpoint='nonsense': is no HOST:PORT of a job server",
    ),
    "too few slots": (
        ["--num_shards=9", "--parallelism=9"],
        {},
        "--parallelism=9: {master} has 3 free slots of 4, and a job would wait for more; give at most 3, "
        "or leave it out",
    ),
    "no free slot": (
        [],
        {"/overview": {"slots-total": 4, "slots-available": 0}},
        "--flink_master='{master}': none of its 4 slots is free, for which a job would wait; cancel what "
        "runs there",
    ),
    "no task managers": (
        [],
        {"/overview": {"slots-total": 0, "slots-available": 0}},
        "--flink_master='{master}': has no task managers, for which a job would wait; start some",
    ),
    "no pool": (
        ["--environment_type=EXTERNAL", "--environment_config={closed}"],
        {},
        f"--environment_config='{{closed}}': no pool of workers answers there ({REFUSED}), {POOL}",
    ),
    "no pool beside the embedded Flink": (
        ["--flink_master=[local]", "--environment_type=EXTERNAL", "--environment_config={closed}"],
        {},
        f"--environment_config='{{closed}}': no pool of workers answers there ({REFUSED}), {POOL}",
    ),
    "no address of a pool": (
        ["--environment_type=EXTERNAL", "--environment_config=somewhere"],
        {},
        "--environment_config='somewhere': is no HOST:PORT of a pool of workers, such as localhost:50000",
    ),
    "no command of workers": (
        ["--environment_type=PROCESS", '--environment_config={{"command": "/no/worker"}}'],
        {},
        '--environment_config=\'{{"command": "/no/worker"}}\': there is no such program; give the path of '
        "bert-data-worker",
    ),
    "a local input": (
        ["--no-shared_files"],
        {},
        "--input='{corpus}': is on this machine, and the workers of --runner=flink may be on others; give "
        "a gs://, s3:// or hdfs:// path, or say --shared_files if all of them have it under this name",
    ),
}


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_is_one_line_of_build_and_of_plan(
    capsys, tmp_path, java, jar, flink, monkeypatch, check
):
    flags, answers, line = CHECKS[check]
    monkeypatch.setattr(JavaJarServer, "JAR_CACHE", str(tmp_path))
    (tmp_path / "beam-runners-flink-1.20-job-server-2.77.0.jar").touch()
    flink.hosts("127.0.0.1")
    flink.answers |= answers
    listener, closed = closed_port()
    names = {
        "closed": closed,
        "port": closed.rpartition(":")[2],
        "master": flink.master,
        "jar": jar,
        "corpus": CORPUS,
        "published": ", ".join(FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS),
    }
    given = {
        "--job_server_java_launcher": java(),
        "--flink_job_server_jar": str(jar),
        "--flink_master": flink.master,
    }
    own = [flag.format(**names) for flag in flags]
    told = {flag.partition("=")[0] for flag in own}
    rest = [f"{name}={value}" for name, value in given.items() if name not in told]
    rest += ["--shared_files"] * ("--no-shared_files" not in told)
    own = [flag for flag in own if not flag.endswith("_jar=")]
    with listener:
        assert refused(capsys, tmp_path, ["--runner=flink", *rest, *own]) == line.format(**names)


def test_local_paths_are_refused_where_workers_are_elsewhere(flink):
    submission = Submission(name="a", paths={"vocab_file": [], "output": ["/out"]}, blocks=1)
    said = error_of(f"--flink_master={flink.master}", submission=submission)
    assert said.startswith("--output='/out': is on this machine")
    assert "--shared_files" in said


def test_the_newest_job_of_a_name_is_found(flink):
    cluster = FlinkRest(flink.master)
    assert cluster.find_job("a") is None
    flink.answers["/jobs/overview"]["jobs"] = [
        {"jid": "1", "name": "a", "start-time": 5},
        {"jid": "2", "name": "a", "start-time": 7},
        {"jid": "3", "name": "b", "start-time": 9},
    ]
    assert cluster.find_job("a") == "2"
    flink.answers["/jobs/2?mode=cancel"] = {}
    cluster.cancel("2")
    assert flink.asked[-1] == ("PATCH", "/jobs/2?mode=cancel")


def test_the_state_of_a_job_is_the_clusters_word(flink):
    runner, result = Flink(), PipelineResult("RUNNING")
    options = runner.options([f"--flink_master={flink.master}", "--job_name=a"], SUBMISSION)
    assert runner.state(options, result) == "running"  # which the job server says
    flink.answers["/jobs/overview"]["jobs"] = [{"jid": "1", "name": "a", "start-time": 5}]
    flink.answers["/jobs/1/status"] = {"status": "RESTARTING"}
    assert runner.state(options, result) == "restarting"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("restart-strategy.type", "fixed-delay", True),
        ("restart-strategy", "exponential-delay", True),
        ("restart-strategy.type", "none", False),
        ("restart-strategy.fixed-delay.attempts", "3", False),
    ],
)
def test_a_cluster_without_restarts_is_warned_of(flink, jar, caplog, key, value, expected):
    flink.answers["/jobmanager/config"] = [{"key": key, "value": value}]
    runner = Flink()
    options = runner.options([f"--flink_master={flink.master}"], SUBMISSION)
    runner.package(options, SUBMISSION)
    assert ("if it loses a task manager the job fails" in caplog.text) != expected


def info(namespace, name, payload, urn="beam:metric:user:sum_int64:v1"):
    return {
        "urn": urn,
        "payload": base64.b64encode(payload).decode(),
        "labels": {"NAMESPACE": namespace, "NAME": name, "PTRANSFORM": "a"},
    }


def test_counters_are_summed_over_steps(flink):
    attempted = [
        info("ReadDocuments", "bytes", b"\xac\x02"),  # 300
        info("ReadDocuments", "bytes", b"\x05"),
        info("WriteExamples", "blocks", b"\x01"),
        info("WriteExamples", "blocks", b"\x01", urn="beam:metric:element_count:v1"),
    ]
    value = json.dumps({"metrics": {"attempted": attempted}})
    flink.answers["/jobs/1/accumulators"] = {
        "user-task-accumulators": [
            {"name": "__metricscontainers", "type": "MetricsAccumulator", "value": value},
            {"name": "other", "type": "LongCounter", "value": "7"},
        ]
    }
    assert FlinkRest(flink.master).counters("1") == {
        ("ReadDocuments", "bytes"): 305,
        ("WriteExamples", "blocks"): 1,
    }
