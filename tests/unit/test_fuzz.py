"""No file crashes a reader, hangs it or takes its memory: a few mutations of each format.

``python -m benchmarks.fuzz`` runs 20,000 of each.
"""

from __future__ import annotations

import random
import resource
import sys

import pytest

from tests.fuzzing import SEEDS, fuzz, mutate, seed_file
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import read_task

pytest.importorskip("resiliparse")


@pytest.mark.parametrize("name", SEEDS)
def test_mutated_files(tmp_path, name):
    outcome = fuzz(name, tmp_path, seeds=range(60))
    assert outcome.inputs == 60
    # It is the readers that are tested: most inputs get to them, and are read or refused there. A few
    # words of JSON are hardly ever JSON afterwards.
    assert outcome.refused < (60 if name == "saved.state.json" else 30)
    assert outcome.documents + outcome.rejects >= 60 - outcome.refused


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_nothing_is_left_in_memory_of_damaged_files(tmp_path):
    """pyarrow forgets what it was to fill when there is an error: 140 KB of each of these."""
    name = "jsonl.jsonl.zst"
    damaged = mutate(seed_file(name), random.Random(f"{name} 14688"))
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(damaged)

    def memory() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    tasks = plan_reads(list_inputs([str(path)], format="jsonl"), num_stripes=1, range_bytes=None)

    def read_often() -> None:
        for task in 200 * tasks:
            assert [output for output, _ in read_task(task)]

    read_often()
    before = memory()
    read_often()
    assert memory() - before < 4_000_000


def test_a_mutation_is_one():
    data = seed_file("jsonl.jsonl")
    found = {mutate(data, random.Random(seed)) for seed in range(100)}
    assert len(found - {data}) > 90
