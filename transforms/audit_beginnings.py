"""Finds a row of mlm in a sentence of any length, without looking at all of its places.

A line can be one sentence, of millions of tokens, which thousands of rows are cut from.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["first_and_last", "list_beginnings", "matches"]

#: A sentence of more tokens is looked up by the first tokens of a row, so many.
_LONG, _GRAM = 16_384, 8


@njit(cache=True, nogil=True)
def _hash(ids, at, sentence, mask):  # type: ignore[no-untyped-def]
    value = np.uint64(sentence)
    for k in range(_GRAM):
        value = (value ^ np.uint64(ids[at + k])) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(29)
    return np.int64(value & np.uint64(mask))


@njit(cache=True, nogil=True)
def list_beginnings(ids, sentence_offsets):  # type: ignore[no-untyped-def]
    """Of long sentences the places with like tokens, as lists that go up and down.

    Returns int32[4, n]: the first place for a hash and the last, the next place after each and the one
    before; -1 where there is none. n is 0 where no sentence is long.
    """
    has_long = False
    for sentence in range(len(sentence_offsets) - 1):
        has_long |= sentence_offsets[sentence + 1] - sentence_offsets[sentence] > _LONG
    if not has_long or len(ids) >= 1 << 31:
        return np.empty((4, 0), np.int32)
    length = 1
    while length < len(ids):
        length *= 2
    found = np.full((4, length), -1, np.int32)
    for sentence in range(len(sentence_offsets) - 1):
        low, high = sentence_offsets[sentence], sentence_offsets[sentence + 1]
        if high - low <= _LONG:
            continue
        for at in range(low, min(high, len(ids) - _GRAM + 1)):
            bucket = _hash(ids, at, low, length - 1)
            before = found[1, bucket]
            found[3, at] = before
            found[1, bucket] = at
            if before < 0:
                found[0, bucket] = at
            else:
                found[2, before] = at
    return found


@njit(cache=True, nogil=True)
def matches(text, at, ids, start, size):  # type: ignore[no-untyped-def]
    """Whether ``size`` tokens of ``text`` from ``at`` on are those of ``ids`` from ``start`` on."""
    for k in range(size):  # noqa: SIM110 - numba
        if text[at + k] != ids[start + k]:
            return False
    return True


@njit(cache=True, nogil=True)
def first_and_last(  # type: ignore[no-untyped-def]
    text, start, size, ids, low, high, sentence, sentence_end, beginnings
):
    """First and last place from ``low`` to ``high``, inside one sentence, where a row's tokens are.

    Both are -1 if there is none.
    """
    early, late = low, high - 1
    if size >= _GRAM and sentence_end - sentence > _LONG and beginnings.shape[1]:
        bucket = _hash(text, start, sentence, beginnings.shape[1] - 1)
        early, late = beginnings[0, bucket], beginnings[1, bucket]
        while 0 <= early < high and (early < low or not matches(text, start, ids, early, size)):
            early = beginnings[2, early]
        if not 0 <= early < high:
            return -1, -1
        while late > early and (late >= high or not matches(text, start, ids, late, size)):
            late = beginnings[3, late]
        return early, late
    while early < high and not matches(text, start, ids, early, size):
        early += 1
    if early >= high:
        return -1, -1
    while late > early and not matches(text, start, ids, late, size):
        late -= 1
    return early, late
