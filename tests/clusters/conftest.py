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

#: What every run of the suite has of these tests, which take a quarter of an hour alone: names begin so.
#: ``make test-clusters`` runs all of them.
_IN_EVERY_RUN = (
    "test_the_same_bytes_as_on_this_machine[prism",
    "test_the_same_bytes_as_on_this_machine[flink-documents",
    "test_the_same_bytes_as_on_this_machine[spark-documents",
    "test_what_a_worker_raises_is_one_line[prism-too many rejects",
    "test_what_a_worker_raises_is_one_line[prism-a bug",
    "test_what_a_worker_raises_is_one_line[flink-a bug",
    "test_what_a_worker_raises_is_one_line[spark-a bug",
    "test_what_brings_the_documents_together_changes_nothing[local",
    "test_what_brings_the_documents_together_changes_nothing[prism",
    "test_nothing_is_left_and_resume_goes_on[prism-SIGTERM",
    "test_a_job_server_that_does_not_start_says_why",
    "test_text_in_three_languages_has_the_same_shards[prism",
    "test_the_command_for_each_runner",
    "test_the_readmes_commands",
    "test_two_task_managers_write_the_same_shards",
    "test_the_wheel_is_a_whole_package",
)

#: However loaded the machine is.
PATIENCE = 900.0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Marks what only ``make test-clusters`` runs; what every run has must not be lost by a new name."""
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    for item in here:
        if not item.name.startswith(_IN_EVERY_RUN):
            item.add_marker(pytest.mark.clusters)
    whole = len({item.path for item in here}) == len([*Path(__file__).parent.glob("test_*.py")])
    if whole and not any("::" in each for each in config.args):
        lost = [name for name in _IN_EVERY_RUN if not any(i.name.startswith(name) for i in here)]
        if lost:
            raise pytest.UsageError(f"no test of tests/clusters has a name that begins so: {lost}")


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
    """Starts a build with Flink: ``on_flink(output, *flags, cluster=...)``."""
    jar = runners / "flink-job-server.jar"

    def begin(output: Path, *flags: object, cluster: Cluster | None = None, corpus=None) -> Command:
        where = ["--runner=flink", f"--flink_job_server_jar={jar}"]
        if cluster is not None:
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
