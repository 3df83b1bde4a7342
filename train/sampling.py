"""The order of rows and how ranks share them: pure functions of numbers, which know nothing of files.

::

  row groups -> permuted -> cut into windows -> the rows of a window shuffled -> dealt out to the ranks

All but the dealing is a function of (seed, epoch) and of the rows' lengths: the world and the batch
size have no part in it, so that a run may go on with others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["BUCKET_ROWS", "Order", "Piece", "Share", "Window"]

#: Rows of like length that stay together: buckets, parts of buckets, parts of these. A batch, over all
#: ranks, whose size divides one of them is of rows as alike as those are.
_SIZES = (1024, 256, 32)
BUCKET_ROWS = _SIZES[0]

#: What a permutation is for, so that no two are drawn alike.
_GROUPS, _ROWS, _BUCKETS = 0, 1, 2


class Piece(NamedTuple):
    """Rows of a row group: ``rows`` of them from ``first`` on."""

    group: int
    first: int
    rows: int


class Window(NamedTuple):
    """Rows that are shuffled together; ``first`` is the place of the first one in the epoch."""

    number: int
    first: int
    rows: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order of the rows in every epoch.

    Attributes:
      seed: of all permutations.
      window_rows: of every window of an epoch but the last.
      bucket: keep rows of like length together.
    """

    seed: int
    window_rows: int
    bucket: bool

    def windows(self, group_rows: Sequence[int], *, epoch: int) -> Iterator[Window]:
        """Those of an epoch: the row groups, permuted and laid end to end, cut every so many rows.

        Args:
          group_rows: rows of each row group.
          epoch: from 0.
        """
        number, room = 0, self.window_rows
        pieces: list[Piece] = []
        for group in _permutation(len(group_rows), self.seed, epoch, _GROUPS).tolist():
            first = 0
            while first < group_rows[group]:
                rows = min(room, group_rows[group] - first)
                pieces.append(Piece(group, first, rows))
                first, room = first + rows, room - rows
                if not room:
                    yield self._window(number, pieces)
                    number, pieces, room = number + 1, [], self.window_rows
        if pieces:
            yield self._window(number, pieces)

    def _window(self, number: int, pieces: list[Piece]) -> Window:
        rows = sum(piece.rows for piece in pieces)
        return Window(number, number * self.window_rows, rows, tuple(pieces))

    def permute(self, lengths: np.ndarray, *, epoch: int, window: int) -> np.ndarray:
        """The order of the rows of a window, int64[rows].

        Without ``bucket`` a plain permutation. With it, rows are sorted by length and cut into
        buckets, which are permuted; those of a bucket likewise into parts, twice. What fills no
        bucket, or part, is drawn at random from all and comes last, so that all buckets of an epoch
        start at multiples of ``BUCKET_ROWS`` if windows do.

        Args:
          lengths: tokens of each row.
          epoch, window: from 0; ``window`` is its number in the epoch.
        """
        rows = _permutation(len(lengths), self.seed, epoch, _ROWS, window)
        if not self.bucket:
            return rows
        key = (self.seed, epoch, _BUCKETS, window)
        return _keep_together(rows, lengths, _SIZES, key)


@dataclass(frozen=True, kw_only=True)
class Share:
    """What a rank takes of rows in order: one in ``world_size``, from its own number on.

    What is left at the end for a step that is not full is spread evenly over the ranks. Less than a
    row for each is added to the last full step, since a rank without a batch would keep the others
    waiting. With ``drop_last`` it is left out; and so is less than a row for each where there is no
    full step, as in a run that goes on with more ranks near the end of an epoch.

    Attributes:
      batch_size: rows of a batch of this rank.
      rank, world_size: this one, of how many.
      drop_last: make full steps only.
    """

    batch_size: int
    rank: int
    world_size: int
    drop_last: bool

    @property
    def step_rows(self) -> int:
        """Rows of a full step, of all ranks."""
        return self.batch_size * self.world_size

    def count_steps(self, rows: int) -> int:
        """Steps that so many rows of all ranks make, on every rank."""
        steps, rest = divmod(rows, self.step_rows)
        return steps + (rest >= self.world_size and not self.drop_last)

    def batch_sizes(self, rows: int) -> Iterator[int]:
        """Rows of each of this rank's batches; ``rows`` are those of all ranks."""
        if steps := self.count_steps(rows):
            before = (steps - 1) * self.batch_size
            yield from itertools.repeat(self.batch_size, steps - 1)
            mine = len(range(self.rank, rows, self.world_size))
            yield self.batch_size if self.drop_last else mine - before

    def first(self, place: int) -> int:
        """How many rows on from one at this place this rank's next one is."""
        return (self.rank - place) % self.world_size


def _keep_together(
    rows: np.ndarray, lengths: np.ndarray, sizes: tuple[int, ...], key: tuple[int, ...]
) -> np.ndarray:
    if not sizes:
        return rows
    size, *smaller = sizes
    whole = len(rows) - len(rows) % size
    by_length = rows[:whole][np.argsort(lengths[rows[:whole]], kind="stable")]
    buckets = by_length.reshape(-1, size)[_permutation(whole // size, *key)]
    parts = [
        _keep_together(bucket, lengths, tuple(smaller), (*key, number))
        for number, bucket in enumerate([*buckets, rows[whole:]])
    ]
    return np.concatenate(parts)


def _permutation(n: int, *key: int) -> np.ndarray:
    """A permutation of ``range(n)`` by the key; numpy promises this stream for all versions."""
    draws = np.random.PCG64(np.random.SeedSequence(key)).random_raw(n)
    return np.argsort(draws, kind="stable")
