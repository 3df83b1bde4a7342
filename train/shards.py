"""The row groups of a data set's shards: listed, checked, read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.manifest import ManifestError, Shard
from schemas.stores import open_file

__all__ = ["RowGroup", "list_row_groups", "read_row_group", "verify_shards"]

_PIECE = 1 << 20


class RowGroup(NamedTuple):
    """A row group; ``first_row`` counts over all shards in order."""

    path: str
    number: int
    first_row: int
    rows: int


def list_row_groups(paths: Sequence[str], shards: Sequence[Shard]) -> list[RowGroup]:
    """Those of all shards, in order, without empty ones.

    Raises:
      ManifestError: a shard cannot be read, or has another number of rows than the manifest says.
    """
    groups: list[RowGroup] = []
    first = 0
    for path, shard in zip(paths, shards, strict=True):
        try:
            with open_file(path) as file:
                metadata = pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from None
        if metadata.num_rows != shard.rows:
            raise ManifestError(
                path,
                f"the manifest says {shard.rows:,} rows, it has {metadata.num_rows:,}; build again",
            )
        for number in range(metadata.num_row_groups):
            rows = metadata.row_group(number).num_rows
            if rows:
                groups.append(RowGroup(path, number, first, rows))
            first += rows
    return groups


def read_row_group(group: RowGroup, *, columns: Sequence[str]) -> pa.Table:
    """Its columns; ``ManifestError`` if the shard has gone or changed since it was listed."""
    try:
        with open_file(group.path) as file:
            # Without Arrow's threads: one that holds the file when Python ends aborts the process.
            table = pq.ParquetFile(file, pre_buffer=False).read_row_group(
                group.number, columns=list(columns), use_threads=False
            )
    except (pa.ArrowException, OSError, IndexError) as error:
        raise _unreadable(group.path, error) from None
    if table.num_rows != group.rows or table.num_columns != len(columns):
        raise ManifestError(group.path, "it changed while it was being read; start again")
    return table


def verify_shards(paths: Sequence[str], shards: Sequence[Shard]) -> None:
    """Reads every shard through; ``ManifestError`` if one is not what the manifest has the sum of."""
    for path, shard in zip(paths, shards, strict=True):
        digest = hashlib.sha256()
        try:
            with open_file(path) as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
        except OSError as error:
            raise _unreadable(path, error) from None
        if digest.hexdigest() != shard.sha256:
            raise ManifestError(
                path, "its contents are not what the manifest says; build or copy again"
            )


def _unreadable(path: str, error: Exception) -> ManifestError:
    reason = " ".join(str(error).split())
    return ManifestError(path, f"cannot be read: {reason}; build or copy again")
