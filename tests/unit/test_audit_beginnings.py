"""Rows are found in giant sentences as by looking everywhere, and in time linear in the sentence."""

from __future__ import annotations

import time

import numpy as np
import pytest

from transforms.audit_beginnings import first_and_last, list_beginnings, matches

SHORT, LONG = 9_000, 40_000


def block(rng, alphabet: int) -> tuple[np.ndarray, np.ndarray]:
    """Two long sentences and a short one of random tokens, which hold parts of each other."""
    ids = rng.integers(0, alphabet, SHORT + 2 * LONG).astype(np.uint16)
    ids[SHORT + LONG :][:500] = ids[SHORT : SHORT + 500]
    ids[SHORT + 30_000 :][:500] = ids[SHORT : SHORT + 500]
    return ids, np.array([0, SHORT, SHORT + LONG, SHORT + 2 * LONG], np.int64)


@pytest.mark.parametrize("alphabet", [1, 2, 50, 30_000])
def test_the_places_are_those_of_a_search_everywhere(alphabet):
    rng = np.random.default_rng(alphabet)
    ids, offsets = block(rng, alphabet)
    beginnings = list_beginnings(ids, offsets)
    for _ in range(150):
        sentence = int(rng.integers(0, 3))
        low, end = int(offsets[sentence]), int(offsets[sentence + 1])
        size = int(rng.integers(3, 200))
        at = (low, end - size, int(rng.integers(low, end - size)))[int(rng.integers(0, 3))]
        row = np.concatenate([[7], ids[at : at + size]]).astype(np.uint16)
        if rng.random() < 0.3:
            row[1 + rng.integers(0, size)] += 1
        first = low + int(rng.integers(0, 100))
        last = end - size + 1
        windows = np.lib.stride_tricks.sliding_window_view(ids[first : last + size - 1], size)
        places = first + np.flatnonzero((windows == row[1:]).all(axis=1))
        want = (int(places[0]), int(places[-1])) if len(places) else (-1, -1)
        assert first_and_last(row, 1, size, ids, first, last, low, end, beginnings) == want


def test_nothing_is_listed_where_no_sentence_is_long():
    ids = np.zeros(SHORT, np.uint16)
    assert list_beginnings(ids, np.array([0, SHORT], np.int64)).shape == (4, 0)
    assert matches(ids, 0, ids, 1, 5)


@pytest.mark.parametrize("alphabet", [1, 30_000])
def test_time_is_linear(alphabet):
    """A row for every 126 tokens, as a build makes them."""

    def took(count: int) -> float:
        rng = np.random.default_rng(3)
        ids = rng.integers(0, alphabet, count).astype(np.uint16)
        began = time.process_time()
        beginnings = list_beginnings(ids, np.array([0, count], np.int64))
        for at in range(0, count - 126, 126):
            found = first_and_last(ids, at, 126, ids, 0, count - 125, 0, count, beginnings)
            assert found[0] <= at <= found[1]
        return time.process_time() - began

    took(20_000)  # compiles
    small, large = min(took(100_000) for _ in range(3)), took(1_600_000)
    assert large < 16 * 5 * max(small, 1e-3)
