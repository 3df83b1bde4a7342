"""Compiled kernels of the word cache: from the values that ``look_up`` found to ids.

Only kernels on flat arrays live here. What a value is: :mod:`transforms.word_scan`.
"""

from __future__ import annotations

from typing import Any

from numba import int64, njit, uint64

from transforms.word_scan import COUNT_BITS, ID_BITS, PENDING

__all__ = ["count_ids", "join_units", "write_ids"]


@njit(cache=True, nogil=True)
def count_ids(values: Any, of_misses: Any) -> Any:
    """How many ids the units have; ``of_misses`` are the values of the pending ones."""
    total = 0
    for value in values:
        if value & uint64(PENDING) == PENDING:
            value = of_misses[value >> uint64(COUNT_BITS)]
        total += int64(value & uint64(PENDING))
    return total


@njit(cache=True, nogil=True)
def write_ids(
    values: Any, unit_offsets: Any, of_misses: Any, pool: Any, ids: Any, offsets: Any
) -> None:
    """Write the ids of every unit, and where each sentence's begin and end.

    Args:
      values: uint64 [units].
      unit_offsets: int64 [sentences + 1].
      of_misses: uint64 [misses], the values of the pending units.
      pool: uint32, the ids of units that have more than two.
      ids: uint16 or uint32 [ids + 2], written; the last two are scratch.
      offsets: int64 [sentences + 1], written.
    """
    n = 0
    for s in range(len(unit_offsets) - 1):
        offsets[s] = n
        for u in range(unit_offsets[s], unit_offsets[s + 1]):
            value = values[u]
            if value & uint64(PENDING) == PENDING:
                value = of_misses[value >> uint64(COUNT_BITS)]
            count = int64(value & uint64(PENDING))
            rest = value >> uint64(COUNT_BITS)
            if count <= 2:  # both are written, whatever the count: no branch to mispredict
                ids[n] = rest & uint64((1 << ID_BITS) - 1)
                ids[n + 1] = rest >> uint64(ID_BITS)
            else:
                for k in range(count):
                    ids[n + k] = pool[int64(rest) + k]
            n += count
    offsets[len(unit_offsets) - 1] = n


@njit(cache=True, nogil=True)
def join_units(data: Any, units: Any, fold: Any, separator: Any, joined: Any) -> None:
    """Write the units one after another, folded, each followed by the separator.

    Args:
      data: uint8, the text.
      units: int64 [units, 2 or more]: start and length of each.
      fold: as for :func:`look_up`.
      separator: uint8.
      joined: uint8, written; as long as all of it.
    """
    n = 0
    for u in range(len(units)):
        for k in range(units[u, 0], units[u, 0] + units[u, 1]):
            byte = data[k]
            if fold != 0 and ord("A") <= byte <= ord("Z"):
                byte |= 0x20
            joined[n] = byte
            n += 1
        for byte in separator:
            joined[n] = byte
            n += 1
