"""No file crashes a reader, hangs it or takes its memory: a few mutations of each format.

``python -m benchmarks.fuzz`` runs 20,000 of each.
"""

from __future__ import annotations

import random

import pytest

from tests.fuzzing import SEEDS, fuzz, mutate, seed_file

pytest.importorskip("resiliparse")


@pytest.mark.parametrize("name", SEEDS)
def test_mutated_files(tmp_path, name):
    outcome = fuzz(name, tmp_path, seeds=range(60))
    assert outcome.inputs == 60
    # It is the readers that are tested: most inputs get to them, and are read or refused there. A few
    # words of JSON are hardly ever JSON afterwards.
    assert outcome.refused < (60 if name == "saved.state.json" else 30)
    assert outcome.documents + outcome.rejects >= 60 - outcome.refused


def test_a_mutation_is_one():
    data = seed_file("jsonl.jsonl")
    found = {mutate(data, random.Random(seed)) for seed in range(100)}
    assert len(found - {data}) > 90
