"""Builds on Flink clusters: the bytes are those of the local runner. Embedded: test_portable_runners."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from tests.builds import DATA, build_here
from tests.clusters.cluster import POOL_HOST, free_port
from tests.clusters.conftest import PATIENCE, assert_same
from tests.clusters.pool import start_pool
from tests.clusters.test_portable_runners import ENCYCLOPEDIA
from tests.conftest import SHARED
from tests.end_to_end.commands import processes

pytestmark = [pytest.mark.runners, pytest.mark.timeout(2 * PATIENCE)]

#: Of the sample there are five passes; of more text one will do.
ONCE = ["--dupe_factor=1"]

#: Made by pip, beside the Python that runs.
WORKER = str(Path(sys.executable).with_name("bert-data-worker"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The sample and, where they are, 5 MB in three languages; and what one process makes of them."""
    files, corpora = [DATA / "documents.jsonl"], SHARED / "data" / "corpora"
    if corpora.is_dir():
        names = ("handbook.de-DE.jsonl", "handbook.ru-RU.jsonl", ENCYCLOPEDIA)
        files += [corpora / name for name in names]
    output = tmp_path_factory.mktemp("corpus") / "out"
    build_here(*files, output=output, num_shards=8, dupe_factor=1)
    return files, output


def test_three_languages_are_among_them(shared, corpus):
    assert len(corpus[0]) == 4


def test_two_task_managers_write_the_same_shards_and_keep_no_worker(
    on_flink, cluster, corpus, tmp_path
):
    files, expected = corpus
    done = on_flink(tmp_path / "out", *ONCE, cluster=cluster, corpus=files).wait(PATIENCE)
    assert done.code == 0, done
    assert_same(tmp_path / "out", expected)
    (job,) = (j for j in cluster.ask("/jobs/overview")["jobs"] if j["jid"] in done.stdout)
    assert f"The job: http://{cluster.rest}/#/job/{job['jid']}/overview\n" in done.stdout
    vertices = cluster.ask(f"/jobs/{job['jid']}")["vertices"]
    writing = next(v["id"] for v in vertices if "{WriteExamples" in v["name"])
    subtasks = cluster.ask(f"/jobs/{job['jid']}/vertices/{writing}")["subtasks"]
    assert len({subtask["taskmanager-id"] for subtask in subtasks}) == 2
    # The workers have ended with their job.
    sessions = {manager.process.pid for manager in cluster.task_managers}
    left = [pid for pid, _, session in processes() if session in sessions and pid not in sessions]
    assert not left


def test_one_task_manager_runs_processes_and_a_pool(on_flink, start, sample, corpus, tmp_path):
    files, expected = corpus
    port, log = free_port(), str(tmp_path / "pool.log")
    with start(task_managers=1, slots=2) as cluster:
        command = on_flink(tmp_path / "processes", *ONCE, cluster=cluster, corpus=files)
        done = command.wait(PATIENCE)
        assert done.code == 0, (done, cluster.logs())
        assert_same(tmp_path / "processes", expected)
        external = ["--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"]
        with start_pool(f"localhost:{port}", WORKER, log=log):
            done = on_flink(tmp_path / "pool", *external, cluster=cluster).wait(PATIENCE)
        assert done.code == 0, (done, cluster.logs())
        assert_same(tmp_path / "pool", sample)
        # Without the pool Beam would wait for ever.
        done = on_flink(tmp_path / "none", *external, cluster=cluster).wait(PATIENCE)
        assert done.code == 2
        (line,) = (line for line in done.stderr.splitlines() if "error" in line)
        assert f"--environment_config='localhost:{port}': no pool of workers answers" in line


def test_each_of_two_task_managers_has_a_pool(on_flink, cluster, sample, tmp_path):
    port = free_port()
    with contextlib.ExitStack() as stack:
        for manager in cluster.task_managers:
            address = f"{manager.pool_address}:{port}"
            log = str(tmp_path / f"pool{manager.number}.log")
            stack.enter_context(start_pool(address, WORKER, log=log))
        external = ["--environment_type=EXTERNAL", f"--environment_config={POOL_HOST}:{port}"]
        done = on_flink(tmp_path / "out", *external, cluster=cluster).wait(PATIENCE)
    assert done.code == 0, done
    assert_same(tmp_path / "out", sample)
    for manager in cluster.task_managers:
        assert "Starting worker" in (tmp_path / f"pool{manager.number}.log").read_text()
