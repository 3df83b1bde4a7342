"""Fixtures of clusters: started when a test first asks for one, killed whatever happens."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.builds import ROOT, VOCAB, build_here, digests
from tests.clusters.cluster import Cluster, start_cluster
from tests.clusters.job_servers import job_flags  # noqa: F401 - a fixture
from tests.conftest import DATA
from tests.end_to_end.commands import Command, files_of

#: However loaded the machine is.
PATIENCE = 900.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Shows the ends of the clusters' logs beside a failure."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, Cluster):
                report.sections.append((f"logs of {name}", value.logs()))
    return report


@pytest.fixture(scope="session")
def cluster(runners, tmp_path_factory):
    """Two task managers of one slot. For tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("cluster")
    with start_cluster(runners / "flink", folder, task_managers=2) as started:
        yield started


@pytest.fixture
def start(runners, tmp_path):
    """Starts clusters of the test's own: ``with start(task_managers=1) as cluster``."""
    count = 0

    def start_one(**keywords):
        nonlocal count
        count += 1
        return start_cluster(runners / "flink", tmp_path / f"cluster{count}", **keywords)

    return start_one


@pytest.fixture(scope="session")
def sample(tmp_path_factory):
    """The sample corpus as the local runner builds it, in eight shards."""
    output = tmp_path_factory.mktemp("sample") / "out"
    build_here(DATA / "documents.jsonl", output=output, num_shards=8)
    return output


@pytest.fixture
def on_flink(runners, commands):
    """Starts a build on a cluster: ``on_flink(output, *flags, cluster=...)``."""
    jar = runners / "flink-job-server.jar"

    def begin(output: Path, *flags: object, cluster: Cluster, corpus=None) -> Command:
        where = ["--runner=flink", f"--flink_job_server_jar={jar}"]
        where += [f"--flink_master={cluster.rest}", "--shared_files"]
        inputs = corpus or [DATA / "documents.jsonl"]
        fixed = ["--vocab_file", VOCAB, "--output", output, "--num_shards=8"]
        return commands.start("build", *inputs, *fixed, *where, *flags)

    return begin


@pytest.fixture
def odd_worker(tmp_path):
    """Makes a worker's command that runs some Python first; its ``--environment_config``."""

    def make(before: str) -> str:
        path = tmp_path / "odd-worker"
        path.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n{before}\n"
            "from runners.worker import main\nsys.exit(main())\n"
        )
        path.chmod(0o755)
        return f'--environment_config={{"command": "{path}"}}'

    return make


def assert_same(output: Path, expected: Path) -> None:
    """The same shards, and the same files whatever they are."""
    assert digests(output) == digests(expected)
    assert files_of(output) == files_of(expected)
