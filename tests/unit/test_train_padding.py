"""Rows of like length come together, so that there is little to pad, and in no order of lengths."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

from tests.unit.small_data_sets import write_data_set
from train.data import PretrainingDataset


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Two windows of whole buckets and some rows more."""
    directory = tmp_path_factory.mktemp("large") / "data"
    return write_data_set(directory, rows=(1500, 0, 1200), row_group_rows=400).directory


def padding_of(batches) -> float:
    masks = [batch["attention_mask"] for batch in batches]
    return 1 - sum(int(m.sum()) for m in masks) / sum(m.numel() for m in masks)


@pytest.mark.parametrize("bucket", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_padding_is_that_of_the_batches(large, bucket, drop_last):
    for rank in range(2):
        dataset = PretrainingDataset(
            large, batch_size=16, rank=rank, world_size=2, bucket=bucket, drop_last=drop_last
        )
        found = padding_of(dataset.batches(epoch=1))
        assert dataset.padding(epoch=1) == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize("batch_size", [8, 32, 256])
def test_buckets_leave_less_to_pad(large, batch_size):
    without, with_them = (
        PretrainingDataset(large, batch_size=batch_size, window_rows=2048, bucket=bucket).padding()
        for bucket in (False, True)
    )
    # Rounding up to a multiple of 8 is in both, and there are only two and a half buckets.
    assert with_them < {8: 0.4, 32: 0.3, 256: 0.6}[batch_size] * without


def test_ranks_of_a_step_have_rows_of_the_same_lengths(large):
    widths = [
        [
            batch["input_ids"].shape[1]
            for batch in PretrainingDataset(large, batch_size=8, rank=rank, world_size=4).batches()
        ]
        for rank in range(4)
    ]
    steps = list(zip(*widths, strict=True))
    same = sum(max(step) - min(step) <= 8 for step in steps)
    assert same >= 0.95 * len(steps)
    assert len(set(itertools.chain(*steps))) > 3  # and the steps differ


def test_steps_of_like_length_come_mixed(large):
    """No curriculum: the first half of an epoch is as long as the second."""
    dataset = PretrainingDataset(large, batch_size=32, window_rows=4096)
    tokens = [float(batch["attention_mask"].sum(1).float().mean()) for batch in dataset.batches()]
    steps = len(tokens)
    ascending = sum(a < b for a, b in itertools.pairwise(tokens)) / (steps - 1)
    assert 0.3 < ascending < 0.7
