"""Ranks, workers and interruptions: the rows, and the order they come in, are those of one process."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch

from schemas.errors import ConfigError
from tests.unit.small_data_sets import KINDS
from train.data import Batch, PretrainingDataset

ROWS = 103

#: Several windows without buckets; one of runs.
ORDERS = [{"window_rows": 20, "bucket": False}, {"bucket": True}]


@pytest.fixture(scope="module")
def small(small):
    """The directories of small data sets by kind."""
    return lambda *kind, **settings: small(*kind, **settings).directory


Row = tuple[tuple[str, bytes], ...]


def rows_of(batch: Batch) -> list[Row]:
    """All there is to each row, its masks too, without padding."""
    rows = []
    for i, there in enumerate(batch["attention_mask"].bool()):
        row = []
        for name, tensor in batch.items():
            value = tensor[i]
            if tensor.shape == batch["attention_mask"].shape:
                value = value[there]
            row.append((name, value.numpy().tobytes()))
        rows.append(tuple(row))
    return rows


def all_rows(batches) -> list[Row]:
    return [row for batch in batches for row in rows_of(batch)]


def interleaved(ranks: list[list[Batch]]) -> list[list[Row]]:
    """The rows of every step, in the order in which they were dealt out."""
    steps = []
    for batches in zip(*ranks, strict=True):
        dealt = itertools.zip_longest(*map(rows_of, batches))
        steps.append([row for each in dealt for row in each if row is not None])
    return steps


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("world_size", [2, 3, 5])
@pytest.mark.parametrize("batch_size", [1, 4, 30])
def test_ranks_together_take_what_one_process_takes(
    small, batch_size, world_size, num_workers, order
):
    directory = small("nsp", "none")
    one = PretrainingDataset(directory, batch_size=batch_size * world_size, **order)
    expected = [rows_of(batch) for batch in one.batches(epoch=1)]
    ranks = [
        PretrainingDataset(
            directory,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
            num_workers=num_workers,
            **order,
        )
        for rank in range(world_size)
    ]
    taken = [list(rank.batches(epoch=1)) for rank in ranks]
    assert {len(batches) for batches in taken} == {len(rank) for rank in ranks}
    steps = interleaved(taken)
    assert list(itertools.chain(*steps)) == list(itertools.chain(*expected))
    assert steps[:-1] == expected[: len(steps) - 1]
    assert len(set(itertools.chain(*steps))) == ROWS
    for batches in taken:
        assert all(len(b["input_ids"]) == batch_size for b in batches[:-1])
        assert 1 <= len(batches[-1]["input_ids"]) <= batch_size + 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_is_dealt_out(small, kind):
    directory = small(*kind)
    expected = all_rows(PretrainingDataset(directory, batch_size=8).batches(epoch=2))
    taken = [
        list(PretrainingDataset(directory, batch_size=8, rank=rank, world_size=3).batches(epoch=2))
        for rank in range(3)
    ]
    assert list(itertools.chain(*interleaved(taken))) == expected
    assert len(set(expected)) == ROWS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_workers", [1, 3])
def test_workers_give_the_same_batches(small, kind, num_workers):
    about: dict[str, Any] = {"batch_size": 9, "window_rows": 20, "bucket": False}
    alone = PretrainingDataset(small(*kind), **about)
    helped = PretrainingDataset(small(*kind), num_workers=num_workers, **about)
    for start in (0, 5):
        expected = list(alone.batches(epoch=1, start=start))
        found = list(helped.batches(epoch=1, start=start))
        assert len(found) == len(expected) == len(alone) - start
        for one, other in zip(found, expected, strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[name], other[name]) for name in one)


def test_more_ranks_than_row_groups_share_the_rows(small):
    directory = small(rows=(7,))
    ranks = [
        PretrainingDataset(directory, batch_size=2, rank=rank, world_size=5) for rank in range(5)
    ]
    taken = [list(rank.batches()) for rank in ranks]
    assert [len(batches) for batches in taken] == [1] * 5
    assert len({row for batches in taken for row in all_rows(batches)}) == 7


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("before", "after"),
    [((1, 7), (1, 7)), ((1, 7), (3, 4)), ((3, 4), (1, 10)), ((2, 5), (5, 2)), ((5, 1), (2, 16))],
)
def test_it_goes_on_to_the_row_with_another_world(small, before, after, order):
    """World and batch size before, and after."""
    directory = small()

    def ranks(world_size, batch_size):
        return [
            PretrainingDataset(
                directory, batch_size=batch_size, rank=rank, world_size=world_size, **order
            )
            for rank in range(world_size)
        ]

    one = PretrainingDataset(directory, batch_size=ROWS, **order)
    epochs = [all_rows(one.batches(epoch=epoch)) for epoch in range(3)]
    for steps in range(len(ranks(*before)[0]) + 2):
        first = ranks(*before)
        taken = []
        for rank in first:
            endless = itertools.chain.from_iterable(itertools.repeat(rank))
            taken.append(list(itertools.islice(endless, steps)))
        states = [rank.state_dict() for rank in first]
        assert states == [states[0]] * len(first)
        second = ranks(*after)
        for rank in second:
            rank.load_state_dict(states[0])
        rest = [list(rank) for rank in second]
        rows = [row for step in interleaved(taken) + interleaved(rest) for row in step]
        expected = list(itertools.chain(*epochs[: states[0]["epoch"] + 1]))
        left = ROWS - states[0]["rows"]
        if left < after[0]:  # less than a row for each
            expected = expected[:-left]
        assert rows == expected
        assert [rank.state_dict()["epoch"] for rank in second] == [states[0]["epoch"] + 1] * after[
            0
        ]
        following = interleaved([list(rank) for rank in second])
        assert list(itertools.chain(*following)) == epochs[states[0]["epoch"] + 1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_state_counts_the_batches_that_were_given_out(small, num_workers):
    def make():
        return PretrainingDataset(small(), batch_size=10, num_workers=num_workers)

    dataset = make()
    assert (dataset.state_dict()["epoch"], dataset.state_dict()["rows"]) == (0, 0)
    places = []
    for _ in dataset:
        state = dataset.state_dict()
        places.append((state["epoch"], state["rows"]))
    assert places == [*((0, 10 * n) for n in range(1, 11)), (1, 0)]
    batches = iter(dataset)
    next(batches)
    del batches  # as a loop does that is left
    other = make()
    other.load_state_dict(dataset.state_dict())
    expected = all_rows(make().batches(epoch=1, start=1))
    assert all_rows(other) == all_rows(dataset) == expected


def test_a_state_of_another_order_is_refused(small):
    state = PretrainingDataset(small(), batch_size=4, window_rows=2048).state_dict()
    other = small(rows=(50, 53))
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (small(), {"seed": 1, "window_rows": 2048}, r"--seed=1: .* made with 12345; give that"),
        (small(), {"window_rows": 4096}, r"--window_rows=4096: .* made with 2048"),
        (small(), {"window_rows": 2048, "bucket": False}, r"--bucket=False: .* made with True"),
        (other, {"window_rows": 2048}, "the state is of other rows"),
    ]
    for directory, settings, message in refused:
        dataset = PretrainingDataset(directory, batch_size=4, **settings)
        with pytest.raises(ConfigError, match=message):
            dataset.load_state_dict(state)
        assert dataset.state_dict()["rows"] == 0
    dataset = PretrainingDataset(small(), batch_size=4)
    with pytest.raises(ConfigError, match="no loader's state: without bucket, data, seed"):
        dataset.load_state_dict({"epoch": 1, "rows": 2})


def test_a_step_that_is_not_full_is_left_out_if_asked_for(small):
    ranks = [
        PretrainingDataset(small(), batch_size=8, rank=rank, world_size=3, drop_last=True)
        for rank in range(3)
    ]
    taken = [list(rank) for rank in ranks]
    assert [len(batches) for batches in taken] == [len(rank) for rank in ranks] == [4] * 3
    assert {len(b["input_ids"]) for batches in taken for b in batches} == {8}
    assert {rank.state_dict()["epoch"] for rank in ranks} == {1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "--batch_size=0: must be at least 1"),
        ({"rank": 2, "world_size": 2}, "--rank=2: must be from 0 to 1"),
        ({"rank": -1, "world_size": 2}, "--rank=-1: must be from 0 to 1"),
        ({"world_size": 0}, "--world_size=0: must be at least 1"),
        ({"num_workers": -1}, "--num_workers=-1: must be at least 0"),
        ({"window_rows": 0, "bucket": False}, "--window_rows=0: must be from 1 to"),
        ({"window_rows": 10**9}, r"--window_rows=1000000512: must be from 1 to 33554431"),
        ({"seed": -1}, "--seed=-1: must be at least 0"),
        ({"world_size": 104}, "--world_size=104: start at most 103, the rows that there are"),
        (
            {"batch_size": 52, "world_size": 2, "drop_last": True},
            "--batch_size=52: a step of all ranks takes 104 rows, there are 103; give at most 51",
        ),
    ],
)
def test_numbers_that_cannot_be_are_refused(small, settings, message):
    with pytest.raises(ConfigError, match=message):
        PretrainingDataset(small(), **({"batch_size": 4} | settings))


def test_a_step_of_more_rows_than_there_are_is_smaller(small):
    taken = [
        list(PretrainingDataset(small(), batch_size=80, rank=rank, world_size=2).batches())
        for rank in range(2)
    ]
    assert [[len(b["input_ids"]) for b in batches] for batches in taken] == [[52], [51]]


def test_no_thread_outlives_its_reader(small):
    def threads():
        return [t for t in threading.enumerate() if t.name.startswith("bert-loader")]

    dataset = PretrainingDataset(small(), batch_size=4, num_workers=3, window_rows=10, bucket=False)
    list(dataset.batches())
    assert not threads()
    batches = iter(dataset)
    next(batches)
    assert threads()
    del batches
    assert not threads()
