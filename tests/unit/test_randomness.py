"""The keyed generator: uniform, and a function of what it is keyed with."""

import numpy as np
from numba import njit

from transforms.randomness import absorb, document_seeds, draw_below, draw_unit, uniform_hash


@njit
def _draws(start, count, n):
    state = np.full(1, start, np.uint64)
    units = np.empty(count)
    below = np.empty(count, np.int64)
    for i in range(count):
        units[i] = draw_unit(state)
        below[i] = draw_below(state, n)
    return units, below


@njit
def _absorb(state, value):
    return absorb(state, value)


_BITS = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def _python_mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _BITS
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _BITS
    return z ^ (z >> 31)


def _python_absorb(state: int, value: int) -> int:
    return _python_mix((state + _GAMMA & _BITS) ^ _python_mix(value + _GAMMA & _BITS))


def test_the_streams_are_those_of_the_format():
    # In Python's own integers; a change of these changes every data set ever made.
    low, high = [1, 1, 2**64 - 1], [1, 1, 3]
    keys = np.array(low, np.uint64), np.array(high, np.uint64)
    start = _python_absorb(0, 12345)
    seeds = [
        _python_absorb(_python_absorb(_python_absorb(start, lo), hi), copy)
        for lo, hi, copy in zip(low, high, (0, 1, 0), strict=True)
    ]
    assert document_seeds(12345, *keys).tolist() == seeds
    assert seeds[0] == 6894998740179283620
    start = _python_absorb(start, 1)
    hashes = [
        _python_absorb(_python_absorb(start, lo), hi) for lo, hi in zip(low, high, strict=True)
    ]
    assert uniform_hash(12345, 1, *keys).tolist() == hashes
    units, _ = _draws(np.uint64(42), 3, 10)  # between them, the draws below 10
    states = [42 + _GAMMA * i & _BITS for i in (1, 3, 5)]
    assert units.tolist() == [(_python_mix(state) >> 11) / 2**53 for state in states]
    # The first output of SplitMix64 for seed 0, as published with the algorithm.
    assert _python_mix(_GAMMA) == 0xE220A8397B1DCDAF


def test_draws_are_uniform():
    units, below = _draws(np.uint64(7), 200_000, 10)
    assert 0 <= units.min() < 1e-4
    assert 1 - 1e-4 < units.max() < 1
    assert abs(units.mean() - 0.5) < 4 * (1 / 12 / 200_000) ** 0.5
    counts = np.bincount(below, minlength=10)
    # Chi-squared with 9 degrees of freedom: 33.7 is its 1 - 1e-4 quantile.
    assert ((counts - 20_000) ** 2 / 20_000).sum() < 33.7
    assert abs(np.corrcoef(units[1:], units[:-1])[0, 1]) < 0.01


def test_absorbing_depends_on_order_and_every_value():
    def absorbed(*values):
        state = np.uint64(0)
        for value in values:
            state = np.uint64(_absorb(state, value))
        return int(state)

    assert absorbed(1, 2) != absorbed(2, 1)
    assert absorbed(1, 2) != absorbed(1, 3)
    assert len({absorbed(i) for i in range(10_000)}) == 10_000


def test_copies_of_a_document_have_streams_of_their_own():
    low = np.array([5, 5, 5, 6], np.uint64)
    high = np.array([9, 9, 9, 9], np.uint64)
    seeds = document_seeds(1, low, high)
    assert len(set(seeds.tolist())) == 4
    assert seeds[0] == document_seeds(1, low[:1], high[:1])[0]
    assert (seeds != document_seeds(2, low, high)).all()
