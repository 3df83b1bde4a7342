"""Finds rows that occur more than once, over all shards of a data set, by the hashes of their rows.

A row with many masks cannot occur twice by chance: its text may be in two documents, but not with the
same masks. Rows of few tokens, and rows without masks, may be equal by chance, but not if they are made
of the same sentences in the same pass. Others are counted.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

import numpy as np

__all__ = ["Repeats", "RowPlace", "find_repeats", "keep_hashes"]

#: Hashes that are sorted at a time.
_AT_A_TIME = 8_000_000

_CERTAIN = np.uint32(1 << 31)

#: One file a shard and kind of number, in the order of the hashes.
_KINDS = {"hashes": np.uint64, "rows": np.uint32, "origins": np.uint64}


@dataclasses.dataclass(frozen=True)
class RowPlace:
    """The number of a shard, and a row of it."""

    shard: int
    row: int


@dataclasses.dataclass(frozen=True)
class Repeats:
    """What was found.

    Attributes:
      rows: of all shards.
      equal: rows that are equal to an earlier one.
      certain: of these, those that cannot be so by chance.
      examples: the first of them: the row and the earlier one.
    """

    rows: int
    equal: int
    certain: int
    examples: tuple[tuple[RowPlace, RowPlace], ...]


def keep_hashes(
    hash_dir: str, shard: int, *, hashes: np.ndarray, certain: np.ndarray, origins: np.ndarray
) -> None:
    """Writes the files of a shard that :func:`find_repeats` reads.

    Args:
      hash_dir: the folder.
      shard: its number.
      hashes: uint64[rows], of what the rows hold.
      certain: bool[rows], an equal row cannot be chance.
      origins: uint64[rows], of what a row is made of that no other can be; 0 if others can.
    """
    order = np.argsort(hashes, kind="stable")
    rows = order.astype(np.uint32) | certain[order].astype(np.uint32) << np.uint32(31)
    for kind, numbers in (("hashes", hashes[order]), ("rows", rows), ("origins", origins[order])):
        numbers.tofile(_path(hash_dir, shard, kind))


def _path(hash_dir: str, shard: int, kind: str) -> str:
    return os.path.join(hash_dir, f"{shard}.{kind}")


def find_repeats(hash_dir: str, shards: Sequence[int], *, show: int) -> Repeats:
    """Looks at the files that :func:`keep_hashes` left for these shards.

    Memory is bounded: hashes are taken in ranges of their value. One file is open at a time.
    """
    sizes = {}
    for number in shards:
        path = _path(hash_dir, number, "hashes")
        if os.path.exists(path) and (size := os.path.getsize(path) // 8):
            sizes[number] = size
    total = sum(sizes.values())
    equal = certain = 0
    examples: list[tuple[RowPlace, RowPlace]] = []
    for hashes, rows, origins, places in _ranges(
        hash_dir, sizes, parts=max(1, -(-total // _AT_A_TIME))
    ):
        again, before = _equal_ones(hashes, origins)
        sure = rows[again] & _CERTAIN != 0
        sure |= (origins[again] == origins[before]) & (origins[again] != 0)
        equal += len(again)
        certain += int(np.count_nonzero(sure))
        for pair in zip(again[sure], before[sure], strict=True):
            if len(examples) == show:
                break
            here, there = (RowPlace(int(places[j]), int(rows[j] & ~_CERTAIN)) for j in pair)
            examples.append((here, there))
    return Repeats(total, equal, certain, tuple(examples))


def _equal_ones(hashes: np.ndarray, origins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the hashes that are there before, and where: of the same origin, if there is one."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    same = np.zeros(len(order) + 1, bool)
    same[1:-1] = ordered[1:] == ordered[:-1]
    members = order[same[1:] | same[:-1]]
    members = members[np.lexsort((members, origins[members], hashes[members]))]
    follows = np.flatnonzero(hashes[members[1:]] == hashes[members[:-1]])
    return members[follows + 1], members[follows]


def _ranges(
    hash_dir: str, sizes: dict[int, int], *, parts: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Hashes, rows, origins and shards of one range of hashes after the other."""
    if not sizes:
        return
    starts = np.array([(part << 64) // parts for part in range(1, parts)], np.uint64)
    bounds = {}
    for number, size in sizes.items():
        inner: list[int] = []
        if parts > 1:
            mapped = np.memmap(_path(hash_dir, number, "hashes"), np.uint64, mode="r")
            inner = np.searchsorted(mapped, starts).tolist()
            del mapped  # closes it
        bounds[number] = [0, *inner, size]
    for part in range(parts):
        slices: list[tuple[np.ndarray, ...]] = []
        for number, ends in bounds.items():
            low, high = ends[part], ends[part + 1]
            of_shard = [
                np.fromfile(
                    _path(hash_dir, number, kind),
                    dtype,
                    count=high - low,
                    offset=low * np.dtype(dtype).itemsize,
                )
                for kind, dtype in _KINDS.items()
            ]
            slices.append((*of_shard, np.full(high - low, number)))
        hashes, rows, origins, places = (np.concatenate(each) for each in zip(*slices, strict=True))
        yield hashes, rows, origins, places
