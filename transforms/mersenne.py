"""CPython's ``random.Random``, as compiled functions on a state: the generator of the reference.

The Mersenne Twister MT19937 (Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally
equidistributed uniform pseudo-random number generator", 1998) with CPython's way of seeding it with an
integer and of making floats, bounded integers and shuffles of its outputs. Only
``--exact_reference`` draws from it; our own rows come from :mod:`transforms.randomness`.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint32, uint64

__all__ = ["draw_below", "draw_between", "draw_unit", "next_word", "seeded", "shuffle"]

_WORDS = 624
_MIDDLE = 397
_LOW = 0xFFFFFFFF
#: Place of the number of words that were given out since the last renewal.
_GIVEN = 624


@njit(cache=True)
def _from_number(number):  # type: ignore[no-untyped-def]
    """``init_genrand`` of the authors' code."""
    state = np.empty(_WORDS + 1, np.uint32)
    word = uint64(number)
    state[0] = uint32(word)
    for i in range(1, _WORDS):
        word = (uint64(1812433253) * (word ^ (word >> uint64(30))) + uint64(i)) & uint64(_LOW)
        state[i] = uint32(word)
    state[_GIVEN] = _WORDS
    return state


@njit(cache=True)
def seeded(seed):  # type: ignore[no-untyped-def]
    """The state of ``random.Random(seed)``: ``init_by_array`` of the words of its absolute value.

    Args:
      seed: an int64, so up to 63 bits and a sign.

    Returns:
      uint32[625]: the words of the state, and how many of them are used up.
    """
    size = uint64(seed) if seed >= 0 else uint64(-seed)
    key = np.empty(2, np.uint64)
    key[0] = size & uint64(_LOW)
    key[1] = size >> uint64(32)
    length = 2 if key[1] else 1
    state = _from_number(19650218)
    i, j = 1, 0
    for _ in range(_WORDS):
        before = uint64(state[i - 1])
        mixed = uint64(state[i]) ^ ((before ^ (before >> uint64(30))) * uint64(1664525))
        state[i] = uint32((mixed + key[j] + uint64(j)) & uint64(_LOW))
        i += 1
        j = (j + 1) % length
        if i >= _WORDS:
            state[0] = state[_WORDS - 1]
            i = 1
    for _ in range(_WORDS - 1):
        before = uint64(state[i - 1])
        mixed = uint64(state[i]) ^ ((before ^ (before >> uint64(30))) * uint64(1566083941))
        state[i] = uint32((mixed - uint64(i)) & uint64(_LOW))
        i += 1
        if i >= _WORDS:
            state[0] = state[_WORDS - 1]
            i = 1
    state[0] = 0x80000000
    return state


@njit(cache=True)
def _renew(state):  # type: ignore[no-untyped-def]
    for i in range(_WORDS):
        after = state[(i + 1) % _WORDS]
        bits = (state[i] & uint32(0x80000000)) | (after & uint32(0x7FFFFFFF))
        twisted = state[(i + _MIDDLE) % _WORDS] ^ (bits >> uint32(1))
        state[i] = twisted ^ uint32(0x9908B0DF) if bits & uint32(1) else twisted
    state[_GIVEN] = 0


@njit(cache=True)
def next_word(state):  # type: ignore[no-untyped-def]
    """The next 32 bits, as a uint64; every other function here is made of it."""
    if state[_GIVEN] >= _WORDS:
        _renew(state)
    word = uint64(state[state[_GIVEN]])
    state[_GIVEN] += uint32(1)
    word ^= word >> uint64(11)
    word ^= (word << uint64(7)) & uint64(0x9D2C5680)
    word ^= (word << uint64(15)) & uint64(0xEFC60000)
    return word ^ (word >> uint64(18))


@njit(cache=True)
def draw_unit(state):  # type: ignore[no-untyped-def]
    """``random()``: a float64 in [0, 1) from 53 bits of two words."""
    high = next_word(state) >> uint64(5)
    low = next_word(state) >> uint64(6)
    return (float(high) * 67108864.0 + float(low)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def draw_below(state, n):  # type: ignore[no-untyped-def]
    """``_randbelow(n)`` for n from 1 to 2^32 - 1: as many bits as n has, until they are below n.

    So even n = 1, which leaves nothing to draw, takes words until one begins with a 0 bit.
    """
    shift = uint64(32)
    while shift > uint64(0) and (uint64(n) >> (uint64(32) - shift)) != uint64(0):
        shift -= uint64(1)
    drawn = next_word(state) >> shift
    while drawn >= uint64(n):
        drawn = next_word(state) >> shift
    return int(drawn)


@njit(cache=True)
def draw_between(state, low, high):  # type: ignore[no-untyped-def]
    """``randint(low, high)``: both ends included."""
    return low + draw_below(state, high - low + 1)


@njit(cache=True)
def shuffle(state, items, n):  # type: ignore[no-untyped-def]
    """``shuffle`` of the first n of ``items``, in place; nothing is drawn for n below 2."""
    for i in range(n - 1, 0, -1):
        j = draw_below(state, i + 1)
        items[i], items[j] = items[j], items[i]
