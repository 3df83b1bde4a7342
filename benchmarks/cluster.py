"""A build on a Flink cluster of this machine beside the local runner: time, memory, and where it goes.

    python -m benchmarks.cluster books.jsonl --vocab_file vocab.txt [--task_managers 2] [--heap_mb 300]

Needs what ``make runners`` fetches. Memory is of all processes, Java's and Python's apart: pages
that processes share count once (PSS). The stages are Flink's own times, from its REST interface.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.memory import _descendants, _memory
from tests.builds import ROOT, digests
from tests.clusters.cluster import Cluster, start_cluster

RUNNERS = ROOT / ".runners"


class Peaks:
    """The most that processes ever had, in bytes: those of Java, of Python, of both at once."""

    def __init__(self) -> None:
        self.java = self.python = self.both = 0

    def add(self, java: int, python: int) -> None:
        """Another look."""
        self.java, self.python = max(self.java, java), max(self.python, python)
        self.both = max(self.both, java + python)

    def __str__(self) -> str:
        java, python, both = (n / 1e9 for n in (self.java, self.python, self.both))
        return f"peak {both:.2f} GB (Java {java:.2f}, Python {python:.2f})"


@contextlib.contextmanager
def watching(roots: Callable[[], list[int]]) -> Iterator[Peaks]:
    """A context in which processes and their descendants are looked at twice a second."""
    peaks, done = Peaks(), threading.Event()

    def look() -> None:
        while not done.wait(0.5):
            java = python = 0
            for pid in {pid for root in roots() for pid in _descendants(root)}:
                with contextlib.suppress(OSError):
                    name = Path(f"/proc/{pid}/comm").read_text().strip()
                    size = _memory(pid)
                    java, python = (
                        (java + size, python) if name == "java" else (java, python + size)
                    )
            peaks.add(java, python)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peaks
    finally:
        done.set()
        watcher.join()


def build(flags: list[str], others: Callable[[], list[int]]) -> str:
    """Runs a build; what it took, in words. ``others`` are processes that belong to it."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "pipeline", "build", "--overwrite", *flags]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    with watching(lambda: [process.pid, *others()]) as peaks:
        code = process.wait()
    if code:
        raise SystemExit(f"exit code {code}: {' '.join(command)}")
    return f"{time.perf_counter() - started:.1f} s, {peaks}"


def stages(cluster: Cluster) -> list[str]:
    """A line for each of the newest job's stages that took a second or moved a megabyte."""
    newest = max(cluster.ask("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
    job: dict[str, Any] = cluster.ask(f"/jobs/{newest['jid']}")
    lines = [
        f"in Flink {job['duration'] / 1e3:.1f} s, {len(job['vertices'])} stages; those that count:"
    ]
    for stage in sorted(job["vertices"], key=lambda stage: stage["start-time"]):
        moved = stage["metrics"]["write-bytes"]
        if stage["duration"] >= 1000 or moved >= 1e6:
            start = (stage["start-time"] - job["start-time"]) / 1e3
            lines.append(
                f"  at {start:5.1f} s for {stage['duration'] / 1e3:5.1f} s, {moved / 1e6:6.1f} MB on: "
                f"{stage['name'][:110]}"
            )
    return lines


def main() -> None:
    """Prints both, and the stages of the cluster's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", type=Path)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--task_managers", type=int, default=2)
    parser.add_argument("--heap_mb", type=int, default=300, help="of a task manager's tasks")
    given, extra = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        common = [str(given.input.resolve()), "--vocab_file", str(Path(given.vocab_file).resolve())]
        common += ["--do_whole_word_mask", *extra]
        local, remote = folder / "local", folder / "flink"
        print("local:", build([*common, "--output", str(local)], list), flush=True)
        with start_cluster(
            RUNNERS / "flink",
            folder / "cluster",
            task_managers=given.task_managers,
            heap_mb=given.heap_mb,
        ) as cluster:
            where = ["--runner=flink", f"--flink_master={cluster.rest}", "--shared_files"]
            where.append(f"--flink_job_server_jar={RUNNERS / 'flink-job-server.jar'}")
            processes = [cluster.job_manager, *(m.process for m in cluster.task_managers)]
            pids = [process.pid for process in processes]
            said = build([*common, *where, "--output", str(remote)], lambda: pids)
            print(f"Flink, {given.task_managers} task managers: {said}")
            print("\n".join(stages(cluster)))
        print("the same shards" if digests(local) == digests(remote) else "NOT THE SAME SHARDS")


if __name__ == "__main__":
    main()
