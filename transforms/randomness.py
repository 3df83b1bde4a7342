"""The one keyed random generator, as compiled functions on 64-bit states.

Every draw comes from a SplitMix64 stream (Steele, Lea, Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014) whose start is a hash of what the draw is for: (seed, document key, dupe
pass, purpose). Nothing here has state of its own, so no worker, bundle or order can leak into a row.

The streams are part of the format: a change here changes every data set.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

__all__ = [
    "LOADING",
    "MASKS",
    "PACKING",
    "PAIRS",
    "SHARDS",
    "SHUFFLE",
    "SPLIT",
    "absorb",
    "document_seeds",
    "draw_below",
    "draw_unit",
    "loading_seeds",
    "mix",
    "uniform_hash",
]

# Purposes: one stream each, so that a change in one kind of draw leaves the others as they were.
SHARDS = 1
SPLIT = 2
PAIRS = 3
MASKS = 4
SHUFFLE = 5
PACKING = 6
LOADING = 7

_GAMMA = 0x9E3779B97F4A7C15


@njit(cache=True, nogil=True)
def mix(z):  # type: ignore[no-untyped-def]
    """SplitMix64's finalizer: a bijection of 64 bits that spreads every bit over all others."""
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return z ^ (z >> uint64(31))


@njit(cache=True, nogil=True)
def absorb(state, value):  # type: ignore[no-untyped-def]
    """A new state from a state and one more 64-bit value; the order of values matters."""
    return mix((state + uint64(_GAMMA)) ^ mix(uint64(value) + uint64(_GAMMA)))


@njit(cache=True, nogil=True)
def draw_unit(state):  # type: ignore[no-untyped-def]
    """A float64 uniform in [0, 1) with 53 bits; advances ``state`` (uint64[1]) by one step."""
    state[0] += uint64(_GAMMA)
    return float(mix(state[0]) >> uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def draw_below(state, n):  # type: ignore[no-untyped-def]
    """An integer uniform in [0, n); advances ``state`` by one step.

    From 53 bits, so the bias for n < 2^31 is below 2^-22.
    """
    return int(draw_unit(state) * n)


@njit(cache=True, nogil=True)
def uniform_hash(seed, purpose, low, high):  # type: ignore[no-untyped-def]
    """64 bits for each document from (seed, purpose, key), without regard to copies.

    Args:
      seed: ``random_seed``.
      purpose: one of this module's constants.
      low, high: the two halves of each key, uint64[documents].

    Returns:
      uint64[documents].
    """
    start = absorb(absorb(uint64(0), seed), purpose)
    out = np.empty(len(low), np.uint64)
    for d in range(len(low)):
        out[d] = absorb(absorb(start, low[d]), high[d])
    return out


@njit(cache=True, nogil=True)
def document_seeds(seed, low, high):  # type: ignore[no-untyped-def]
    """The start of every stream of each document: a hash of (seed, key, number of the copy).

    Args:
      seed: ``random_seed``.
      low, high: halves of the keys, **sorted by key**, so that copies of one document are
        neighbours; the n-th copy mixes n in, or all copies would give the same examples.

    Returns:
      uint64[documents].
    """
    start = absorb(uint64(0), seed)
    out = np.empty(len(low), np.uint64)
    copy = 0
    for d in range(len(low)):
        same = d > 0 and low[d] == low[d - 1] and high[d] == high[d - 1]
        copy = copy + 1 if same else 0
        out[d] = absorb(absorb(absorb(start, low[d]), high[d]), copy)
    return out


@njit(cache=True, nogil=True)
def loading_seeds(seed, epoch, rows):  # type: ignore[no-untyped-def]
    """The start of each row's stream where masks are drawn as a trainer loads rows.

    Args:
      seed: of the training run.
      epoch: counted from 0.
      rows: uint64[n], numbers of the rows in their data set.

    Returns:
      uint64[n].
    """
    start = absorb(absorb(absorb(uint64(0), seed), LOADING), epoch)
    out = np.empty(len(rows), np.uint64)
    for r in range(len(rows)):
        out[r] = absorb(start, rows[r])
    return out
