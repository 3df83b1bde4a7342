"""The rows of one rank, in their order, read window by window and cut into batches as stored."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from train.background import map_ahead
from train.sampling import Order, Share, Window
from train.shards import RowGroup, read_row_group

__all__ = ["ROW", "RowStream"]

#: The column that is added to those of the file: the number of the row in the data set.
ROW = "row"

#: The column that the order within a window depends on.
_LENGTH = "num_tokens"


class RowStream:
    """Reads rows in order.

    Args:
      row_groups: of the data set.
      columns: what a batch is to have, beside ``row`` (uint64), the number of the row in the data
        set over all shards.
      order: of the rows of all ranks.
      share: what this rank has of them.
    """

    def __init__(
        self, row_groups: Sequence[RowGroup], *, columns: Sequence[str], order: Order, share: Share
    ):
        self._row_groups = row_groups
        self._columns = tuple(columns)
        self._order = order
        self._share = share
        #: Of all ranks, an epoch.
        self.rows = sum(group.rows for group in row_groups)

    def batches(
        self, *, epoch: int, first_row: int, in_background: bool
    ) -> Iterator[pa.RecordBatch]:
        """Batches of this rank.

        Args:
          epoch: from 0.
          first_row: how many rows of all ranks come before; windows of nothing else are not read.
          in_background: a thread reads the next window while one is being used.
        """
        read = self._reader(epoch, first_row, (*self._columns, _LENGTH))
        windows = self._windows(epoch, first_row)
        tables = (
            map_ahead(read, windows, threads=1, ahead=1) if in_background else map(read, windows)
        )
        return _cut(tables, self._share.batch_sizes(self.rows - first_row))

    def lengths(self, *, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of each row of this rank's batches, and the end of each batch; nothing else is read."""
        tables = map(self._reader(epoch, 0, (_LENGTH,)), self._windows(epoch, 0))
        lengths = np.concatenate([np.asarray(table[_LENGTH]) for table in tables])
        ends = np.cumsum(list(self._share.batch_sizes(self.rows)))
        return lengths[: ends[-1]].astype(np.int64), ends

    def _windows(self, epoch: int, first_row: int) -> Iterator[Window]:
        for window in self._order.windows([g.rows for g in self._row_groups], epoch=epoch):
            if first_row < window.first + window.rows:
                yield window

    def _reader(
        self, epoch: int, first_row: int, columns: tuple[str, ...]
    ) -> Callable[[Window], pa.Table]:
        """A function that reads this rank's rows of a window, in their order."""
        # A row group that goes on in the next window is read once.
        read_group = functools.lru_cache(maxsize=1)(self._read_group)

        def read(window: Window) -> pa.Table:
            pieces = [read_group(p.group, columns).slice(p.first, p.rows) for p in window.pieces]
            table = pa.concat_tables(pieces)
            order = self._order.permute(
                np.asarray(table[_LENGTH]), epoch=epoch, window=window.number
            )
            start = max(first_row - window.first, 0)
            start += self._share.first(window.first + start - first_row)
            return table.take(order[start :: self._share.world_size])

        return read

    def _read_group(self, index: int, columns: tuple[str, ...]) -> pa.Table:
        group = self._row_groups[index]
        # The number goes with the row wherever shuffling takes it: masks depend on it.
        numbers = np.arange(group.first_row, group.first_row + group.rows, dtype=np.uint64)
        return read_row_group(group, columns=columns).append_column(ROW, pa.array(numbers))


def _cut(tables: Iterable[pa.Table], sizes: Iterator[int]) -> Iterator[pa.RecordBatch]:
    """Rows that come in tables of any sizes, in batches of the given ones; what is beyond is left."""
    size = next(sizes, None)
    rest: list[pa.Table] = []
    for table in tables:
        table = pa.concat_tables([*rest, table]).combine_chunks()
        done = 0
        while size is not None and done + size <= table.num_rows:
            yield from table.slice(done, size).to_batches()
            done += size
            size = next(sizes, None)
        if size is None:
            return
        rest = [table.slice(done)]
