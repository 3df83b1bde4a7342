"""The compiled Mersenne Twister against the one of the Python that runs this test."""

import random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit

from transforms.mersenne import draw_below, draw_between, draw_unit, next_word, seeded, shuffle

seeds = st.integers(-(2**63) + 1, 2**63 - 1)
#: More than twice the 624 words after which the state is renewed.
DRAWS = 1500


@njit
def _words(seed, count):
    state = seeded(seed)
    out = np.empty(count, np.uint64)
    for i in range(count):
        out[i] = next_word(state)
    return out


@njit
def _mixed(seed, bounds):
    """Floats and bounded integers in turn, as the reference takes them from one generator."""
    state = seeded(seed)
    units = np.empty(len(bounds))
    below = np.empty(len(bounds), np.int64)
    between = np.empty(len(bounds), np.int64)
    for i in range(len(bounds)):
        units[i] = draw_unit(state)
        below[i] = draw_below(state, bounds[i])
        between[i] = draw_between(state, -3, bounds[i])
    return units, below, between


@njit
def _shuffled(seed, n):
    state = seeded(seed)
    items = np.arange(n)
    shuffle(state, items, n)
    return items, next_word(state)


@given(seeds)
@settings(max_examples=200, deadline=None)
@example(0)
@example(1)
@example(2**32 - 1)
@example(2**32)
@example(2**63 - 1)
@example(-12345)
def test_words_are_pythons(seed):
    python = random.Random(seed)
    assert _words(seed, DRAWS).tolist() == [python.getrandbits(32) for _ in range(DRAWS)]


@given(seeds, st.lists(st.integers(1, 2**32 - 5), min_size=1, max_size=300))
@settings(max_examples=200, deadline=None)
@example(12345, [1] * 50 + [2, 3, 4, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 5])
def test_draws_of_every_kind_are_pythons(seed, bounds):
    units, below, between = _mixed(seed, np.array(bounds))
    python = random.Random(seed)
    for i, bound in enumerate(bounds):
        assert units[i] == python.random()
        assert below[i] == python.randrange(bound)
        assert between[i] == python.randint(-3, bound)


@given(seeds, st.integers(0, 400))
@settings(max_examples=200, deadline=None)
@example(5, 0)
@example(5, 1)
@example(5, 2)
def test_a_shuffle_is_pythons_and_takes_as_many_words(seed, n):
    python = random.Random(seed)
    expected = list(range(n))
    python.shuffle(expected)
    items, after = _shuffled(seed, n)
    assert items.tolist() == expected
    assert after == python.getrandbits(32)
