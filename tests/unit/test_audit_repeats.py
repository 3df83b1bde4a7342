"""Rows that are there twice, by the files with their hashes."""

from __future__ import annotations

import os
import resource

import numpy as np
import pytest

from transforms import audit_repeats
from transforms.audit_repeats import RowPlace, find_repeats, keep_hashes


def keep(folder, shard: int, hashes: np.ndarray, *, certain=None, origins=None) -> None:
    keep_hashes(
        str(folder),
        shard,
        hashes=hashes,
        certain=np.ones(len(hashes), bool) if certain is None else certain,
        origins=np.zeros(len(hashes), np.uint64) if origins is None else origins,
    )


@pytest.mark.parametrize("at_a_time", [3, 10**6])
def test_repeats_are_found_over_all_shards_and_ranges(tmp_path, monkeypatch, at_a_time):
    monkeypatch.setattr(audit_repeats, "_AT_A_TIME", at_a_time)
    rng = np.random.default_rng(5)
    shards = [rng.integers(0, 2**64, 40, np.uint64) for _ in range(3)]
    shards[1][7] = shards[0][3]
    shards[2][9] = shards[2][1]
    shards[2][30] = shards[0][20]
    certain = [np.ones(40, bool) for _ in range(3)]
    certain[2][30] = certain[0][20] = False
    for number, (hashes, sure) in enumerate(zip(shards, certain, strict=True)):
        keep(tmp_path, number, hashes, certain=sure)
    found = find_repeats(str(tmp_path), [0, 1, 2, 3], show=9)
    assert (found.rows, found.equal, found.certain) == (120, 3, 2)
    assert set(found.examples) == {
        (RowPlace(1, 7), RowPlace(0, 3)),
        (RowPlace(2, 9), RowPlace(2, 1)),
    }
    assert len(find_repeats(str(tmp_path), [0, 1, 2], show=1).examples) == 1
    assert find_repeats(str(tmp_path), [0], show=1).equal == 0


def test_of_rows_that_may_be_equal_by_chance_those_of_one_origin_count(tmp_path):
    nothing = np.zeros(4, bool)
    hashes = np.array([7, 8, 7, 9], np.uint64)
    keep(tmp_path, 0, hashes, certain=nothing, origins=np.array([1, 2, 3, 0], np.uint64))
    keep(tmp_path, 1, hashes, certain=nothing, origins=np.array([4, 5, 1, 0], np.uint64))
    found = find_repeats(str(tmp_path), [0, 1], show=9)
    assert (found.equal, found.certain) == (5, 1)
    assert found.examples == ((RowPlace(1, 2), RowPlace(0, 0)),)


@pytest.mark.parametrize("at_a_time", [50, 10**6])
def test_more_shards_than_files_may_be_open(tmp_path, monkeypatch, at_a_time):
    monkeypatch.setattr(audit_repeats, "_AT_A_TIME", at_a_time)
    rng = np.random.default_rng(1)
    for shard in range(100):
        keep(tmp_path, shard, rng.integers(0, 2**64, 2, np.uint64))
    last = np.fromfile(tmp_path / "3.hashes", np.uint64)
    keep(tmp_path, 100, last)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
    try:
        found = find_repeats(str(tmp_path), range(101), show=9)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (found.rows, found.equal, found.certain) == (202, 2, 2)
