"""What dies under a build on Flink: a worker, a machine, the cluster, the command itself."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from schemas.manifest import MANIFEST_FILE
from tests.clusters.cluster import kill_session
from tests.clusters.conftest import PATIENCE, assert_same
from tests.end_to_end.commands import Done, files_of, is_alive, is_leftover
from transforms.shards import RESUME_FOLDER

pytestmark = [pytest.mark.runners, pytest.mark.timeout(2 * PATIENCE)]

#: A worker that takes its time for every shard.
SLOW = """
import time
import transforms.shards as shards
before = shards.write_block
def write_block(*arguments, **keywords):
    time.sleep(3)
    return before(*arguments, **keywords)
shards.write_block = write_block
"""

#: A worker with a bug.
BROKEN = """
import transforms.shards as shards
def write_block(*arguments, **keywords):
    raise ZeroDivisionError('a bug of the worker')
shards.write_block = write_block
"""


def wait_until(condition, command) -> None:
    last = time.monotonic() + PATIENCE
    while not condition():
        assert is_alive(command.pid), command.wait()
        assert time.monotonic() < last
        time.sleep(0.05)


def shards_in(output) -> list:
    return [path for path in output.glob("seq*/*.parquet") if not is_leftover(path.name)]


def noted_shards(output) -> list:
    """Those that ``--resume`` knows of."""
    notes = {path.stem for path in (output / RESUME_FOLDER).glob("*.json")}
    return [path for path in shards_in(output) if f"{path.parent.name}-{path.name}" in notes]


def the_error(done: Done) -> str:
    """The one line that says it, beside how far the job was and warnings."""
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr
    said = [line for line in done.stderr.splitlines() if not re.match(r"\d+ s: |.*arning: ", line)]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("bert-data: error: ")
    return said[0]


def state_of(cluster) -> str:
    """Of the newest job."""
    jobs = cluster.ask("/jobs/overview")["jobs"]
    return max(jobs, key=lambda job: job["start-time"])["state"]


def test_a_task_manager_that_is_killed_is_replaced(on_flink, start, odd_worker, sample, tmp_path):
    output = tmp_path / "out"
    with start(task_managers=2, restarts=4) as cluster:
        command = on_flink(output, odd_worker(SLOW), cluster=cluster)
        wait_until(lambda: len(shards_in(output)) >= 2, command)
        kill_session(cluster.task_managers[0].process)
        assert MANIFEST_FILE not in files_of(output)
        cluster.add_task_manager()
        done = command.wait(PATIENCE)
        assert done.code == 0, (done, cluster.logs())
        assert_same(output, sample)
        assert state_of(cluster) == "FINISHED"


def test_after_the_whole_cluster_is_killed_another_completes_the_build(
    on_flink, start, cluster, odd_worker, sample, tmp_path
):
    output = tmp_path / "out"
    with start(task_managers=2) as doomed:
        command = on_flink(output, odd_worker(SLOW), cluster=doomed)
        wait_until(lambda: len(noted_shards(output)) >= 2, command)
        doomed.kill()
        done = command.wait(PATIENCE)
    assert done.code == 1, done
    assert doomed.rest in the_error(done)
    assert "--resume" in the_error(done)
    written = {path: path.stat().st_mtime_ns for path in noted_shards(output)}
    assert 2 <= len(written) < 8
    assert MANIFEST_FILE not in files_of(output)
    done = on_flink(output, "--resume", cluster=cluster).wait(PATIENCE)
    assert done.code == 0, done
    assert_same(output, sample)
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_the_error_of_a_worker_is_one_line(on_flink, cluster, odd_worker, tmp_path):
    done = on_flink(tmp_path / "out", odd_worker(BROKEN), cluster=cluster).wait(PATIENCE)
    assert done.code == 1, done
    assert "ZeroDivisionError: a bug of the worker" in the_error(done)
    assert not files_of(tmp_path / "out")


def test_a_command_that_is_told_to_stop_takes_the_job_along(
    on_flink, cluster, odd_worker, tmp_path
):
    output = tmp_path / "out"
    command = on_flink(output, odd_worker(SLOW), cluster=cluster)
    wait_until(lambda: shards_in(output), command)
    os.kill(command.pid, signal.SIGTERM)
    done = command.wait(PATIENCE)
    assert done.code == 143, done
    assert state_of(cluster) == "CANCELED"
    assert not [name for name in files_of(output) if is_leftover(name)]
    assert MANIFEST_FILE not in files_of(output)


def test_a_job_that_is_not_waited_for_goes_on(on_flink, cluster, odd_worker, sample, tmp_path):
    output = tmp_path / "out"
    done = on_flink(output, "--no-wait", odd_worker(SLOW), cluster=cluster).wait(PATIENCE)
    assert done.code == 0, done
    assert MANIFEST_FILE not in files_of(output)
    last = time.monotonic() + PATIENCE
    while state_of(cluster) in ("CREATED", "RUNNING"):
        assert time.monotonic() < last
        time.sleep(0.2)
    assert state_of(cluster) == "FINISHED"
    assert_same(output, sample)
