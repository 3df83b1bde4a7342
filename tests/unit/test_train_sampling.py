"""The order of rows is a permutation that nothing but seed and epoch decides; ranks share it out."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.background import map_ahead
from train.sampling import BUCKET_ROWS, Order, Share

PART, RUN = 256, 32


def make_order(*, seed=3, window_rows=100, bucket=True) -> Order:
    return Order(seed=seed, window_rows=window_rows, bucket=bucket)


@given(
    groups=st.lists(st.integers(0, 50), max_size=20),
    window_rows=st.integers(1, 120),
    epoch=st.integers(0, 5),
)
def test_windows_hold_every_row_of_every_group_once(groups, window_rows, epoch):
    windows = list(make_order(window_rows=window_rows).windows(groups, epoch=epoch))
    rows = [(p.group, p.first + i) for w in windows for p in w.pieces for i in range(p.rows)]
    assert sorted(rows) == [(g, i) for g, n in enumerate(groups) for i in range(n)]
    assert [w.number for w in windows] == list(range(len(windows)))
    assert [w.first for w in windows] == [window_rows * n for n in range(len(windows))]
    assert all(w.rows == window_rows for w in windows[:-1])
    assert all(w.rows == sum(p.rows for p in w.pieces) > 0 for w in windows)


def test_row_groups_come_in_another_order_in_every_epoch():
    def groups(**about):
        epoch = about.pop("epoch", 0)
        windows = make_order(**about).windows([1] * 30, epoch=epoch)
        return [p.group for w in windows for p in w.pieces]

    assert groups() == groups(window_rows=7, bucket=False)
    assert len({tuple(groups(epoch=e, seed=s)) for e in (0, 1) for s in (0, 1)}) == 4


@given(
    lengths=st.lists(st.integers(1, 512), max_size=200),
    bucket=st.booleans(),
    epoch=st.integers(0, 3),
    window=st.integers(0, 3),
)
def test_an_order_is_a_permutation(lengths, bucket, epoch, window):
    order = make_order(bucket=bucket)
    found = order.permute(np.array(lengths, np.uint16), epoch=epoch, window=window)
    assert sorted(found.tolist()) == list(range(len(lengths)))


@pytest.mark.parametrize("bucket", [False, True])
def test_every_window_of_every_epoch_has_an_order_of_its_own(bucket):
    lengths = np.random.default_rng(0).integers(1, 100, 3000)
    orders = [
        make_order(seed=seed, bucket=bucket).permute(lengths, epoch=epoch, window=window)
        for seed in (0, 1)
        for epoch in (0, 1)
        for window in (0, 1)
    ]
    for i, one in enumerate(orders):
        for other in orders[:i]:
            assert (one == other).mean() < 0.01


def test_buckets_and_their_parts_are_of_like_length_and_shuffled():
    rows = 10 * BUCKET_ROWS + 3 * RUN + 5
    lengths = np.random.default_rng(0).permutation(rows)  # so that no two are the same
    found = lengths[make_order().permute(lengths, epoch=0, window=0)]
    for whole, size in ((10 * BUCKET_ROWS, BUCKET_ROWS), (BUCKET_ROWS, PART), (PART, RUN)):
        parts = found[:whole].reshape(-1, size)
        first = parts.min(axis=1)
        by_length = np.argsort(first)
        assert (parts.max(axis=1)[by_length[:-1]] < first[by_length[1:]]).all()
        assert by_length.tolist() != list(range(len(parts)))
    # What fills no bucket is not all short, and not all long.
    rest = found[10 * BUCKET_ROWS :]
    assert 0.3 < rest.mean() / rows < 0.7
    assert (np.diff(found[10 * BUCKET_ROWS :][: 3 * RUN].reshape(-1, RUN)) > 0).all()


def test_without_buckets_lengths_are_mixed():
    lengths = np.arange(4096)
    found = lengths[make_order(bucket=False).permute(lengths, epoch=0, window=0)]
    assert (np.ptp(found.reshape(-1, RUN), axis=1) > 2000).all()


shares = {
    "batch_size": st.integers(1, 40),
    "world_size": st.integers(1, 9),
    "drop_last": st.booleans(),
}


@given(rows=st.integers(0, 500), **shares)
def test_ranks_take_as_many_steps_and_every_row_once(rows, batch_size, world_size, drop_last):
    taken: list[int] = []
    steps = set()
    for rank in range(world_size):
        share = Share(batch_size=batch_size, rank=rank, world_size=world_size, drop_last=drop_last)
        sizes = list(share.batch_sizes(rows))
        steps.add(len(sizes))
        assert len(sizes) == share.count_steps(rows)
        assert all(size == batch_size for size in sizes[:-1])
        assert all(1 <= size <= batch_size + (not drop_last) for size in sizes)
        assert share.first(0) == rank
        taken += range(share.first(0), rows, world_size)[: sum(sizes)]
        if drop_last:
            assert set(sizes) <= {batch_size}
    assert len(steps) == 1
    assert len(set(taken)) == len(taken)
    left = rows - len(taken)
    if drop_last:
        assert left == rows % (batch_size * world_size)
    else:
        assert left == (rows if rows < world_size else 0)


@given(rows=st.integers(1, 300), first=st.integers(0, 300), **shares)
def test_a_step_is_the_batch_of_one_process(rows, first, batch_size, world_size, drop_last):
    """Step by step, ranks together take the rows that one with all of the batch takes."""
    ranks = []
    for rank in range(world_size):
        share = Share(batch_size=batch_size, rank=rank, world_size=world_size, drop_last=drop_last)
        mine = iter(range(first + share.first(0), first + rows, world_size))
        ranks.append([[next(mine) for _ in range(n)] for n in share.batch_sizes(rows)])
    place = first
    for step in range(len(ranks[0])):
        together = sorted(row for rank in ranks for row in rank[step])
        assert together == list(range(place, place + len(together)))
        place += len(together)
        if step < len(ranks[0]) - 1:
            assert len(together) == batch_size * world_size


@given(place=st.integers(0, 50), world_size=st.integers(1, 7), data=st.data())
def test_the_next_row_of_a_rank_is_its_own(place, world_size, data):
    rank = data.draw(st.integers(0, world_size - 1))
    share = Share(batch_size=1, rank=rank, world_size=world_size, drop_last=False)
    assert 0 <= share.first(place) < world_size
    assert (place + share.first(place)) % world_size == rank


def loader_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("bert-loader")]


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_order_and_no_thread_is_left(threads):
    def slowly(number: int) -> int:
        time.sleep(0.001 * (number % 3))
        return -number

    found = map_ahead(slowly, range(20), threads=threads, ahead=4)
    assert list(found) == [-n for n in range(20)]
    assert not loader_threads()


def test_an_error_reaches_the_reader_in_its_place():
    found = map_ahead(lambda n: 10 // n, [5, 2, 0, 1], threads=2, ahead=2)
    assert [next(found), next(found)] == [2, 5]
    with pytest.raises(ZeroDivisionError):
        next(found)
    assert not loader_threads()


def test_no_more_is_done_than_is_wanted():
    done: list[int] = []
    found = map_ahead(done.append, range(100), threads=1, ahead=3)
    assert isinstance(found, Generator)
    assert not loader_threads()  # nothing before the first one is asked for
    next(found)
    found.close()
    assert len(done) <= 4
    assert not loader_threads()
