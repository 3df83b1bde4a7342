"""Reads a data set for training: rows of Parquet in, padded batches of tensors out.

The manifest is the only way in. Columns go from Arrow's buffers to tensors whole; no row is ever a
Python object.
"""

from __future__ import annotations

import hashlib
import math
import os
import posixpath
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from schemas.errors import ConfigError
from schemas.manifest import (
    LABEL_CONVENTION,
    DataSet,
    Manifest,
    ManifestError,
    load_manifest,
    open_file,
    open_shards,
)

__all__ = ["Batch", "PretrainingDataset", "to_device"]

#: Names and tensors, see :class:`PretrainingDataset`.
Batch = dict[str, torch.Tensor]

#: Rows are padded to a multiple of it, which is what matrix units of accelerators like.
_MULTIPLE = 8

_COLUMNS = [
    "input_ids",
    "token_type_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "next_sentence_label",
]


class _RowGroup(NamedTuple):
    path: str
    number: int
    rows: int


class PretrainingDataset:
    """One length and split of a data set, in shuffled batches.

    A batch of B rows is a dict of tensors on the CPU; T is the length of its longest row, rounded up
    to a multiple of 8, and P the data set's ``max_predictions_per_seq``:

    * ``input_ids`` int64 (B, T), padded with ``[PAD]``
    * ``token_type_ids`` int64 (B, T), padded with 0
    * ``attention_mask`` int64 (B, T): 1 for a token, 0 for padding
    * ``masked_lm_positions`` int64 (B, P), padded with 0
    * ``masked_lm_ids`` int64 (B, P), padded with ``[PAD]``
    * ``masked_lm_weights`` float32 (B, P): 1.0 where there is something to predict, else 0.0
    * ``next_sentence_label`` int64 (B,): 0 IsNext, 1 NotNext

    The order is a function of (seed, epoch) and of the window: the row groups of all shards are
    permuted, gathered into windows, and the rows of a window permuted. Every row comes exactly once
    an epoch; the last batch of an epoch may be smaller.

    Args:
      directory: with a ``manifest.json``.
      batch_size: rows of a batch.
      max_seq_length: None for the shortest that the data set has.
      split: ``train`` or ``validation``.
      seed: of the order.
      window_rows: a window has at least so many rows; they are what is held in memory.

    Raises:
      ConfigError: no finished data set, no such length or split, no rows in it, a shard that is
        missing or damaged, or another tokenizer than the one that made it.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        batch_size: int,
        max_seq_length: int | None = None,
        split: str = "train",
        seed: int = 12_345,
        window_rows: int = 65_536,
    ):
        self.directory = os.fspath(directory)
        self.manifest = load_manifest(directory)
        _check_meaning(self.manifest, self.directory)
        self.data_set = _choose(self.manifest, max_seq_length=max_seq_length, split=split)
        self.batch_size = batch_size
        self._seed = seed
        self._window_rows = window_rows
        paths = open_shards(self.manifest, directory, name=self.data_set.name, split=split)
        rows = [shard.rows for shard in self.data_set.shards]
        self._row_groups = [
            group
            for path, n in zip(paths, rows, strict=True)
            for group in _row_groups(path, rows=n)
        ]

    def __len__(self) -> int:
        """Batches an epoch."""
        return math.ceil(self.data_set.examples / self.batch_size)

    @property
    def digest(self) -> str:
        """Of the contents of the shards, in order."""
        return hashlib.sha256("".join(s.sha256 for s in self.data_set.shards).encode()).hexdigest()

    def batches(self, *, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from number ``start`` on; what comes before is not read."""
        skip = start * self.batch_size
        rest: list[pa.Table] = []
        for number, window in enumerate(self._windows(epoch)):
            order = _permutation(sum(group.rows for group in window), self._seed, epoch, 1, number)
            skipped = min(skip, len(order))
            skip -= skipped
            if skipped == len(order):
                continue
            read = pa.concat_tables([_read(group) for group in window])
            table = pa.concat_tables([*rest, read.take(order[skipped:])]).combine_chunks()
            (rows,) = table.to_batches()
            whole = rows.num_rows - rows.num_rows % self.batch_size
            for first in range(0, whole, self.batch_size):
                yield self._batch(rows.slice(first, self.batch_size))
            rest = [table.slice(whole)]
        for table in rest:
            for rows in table.to_batches():
                yield self._batch(rows)

    def _windows(self, epoch: int) -> Iterator[list[_RowGroup]]:
        window: list[_RowGroup] = []
        for i in _permutation(len(self._row_groups), self._seed, epoch, 0):
            window.append(self._row_groups[i])
            if sum(group.rows for group in window) >= self._window_rows:
                yield window
                window = []
        if window:
            yield window

    def _batch(self, rows: pa.RecordBatch) -> Batch:
        pad_id = self.manifest.tokenizer.pad_id
        lengths = np.diff(rows["input_ids"].offsets)
        predictions = np.diff(rows["masked_lm_positions"].offsets)
        tokens = np.arange(-(-lengths.max() // _MULTIPLE) * _MULTIPLE) < lengths[:, None]  # (B, T)
        masked = np.arange(self.data_set.max_predictions_per_seq) < predictions[:, None]  # (B, P)
        arrays = {
            "input_ids": _padded(rows["input_ids"], tokens, fill=pad_id),
            "token_type_ids": _padded(rows["token_type_ids"], tokens, fill=0),
            "attention_mask": tokens.astype(np.int64),
            "masked_lm_positions": _padded(rows["masked_lm_positions"], masked, fill=0),
            "masked_lm_ids": _padded(rows["masked_lm_ids"], masked, fill=pad_id),
            "masked_lm_weights": masked.astype(np.float32),
            "next_sentence_label": np.asarray(rows["next_sentence_label"]).astype(np.int64),
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The same batch there."""
    return {name: tensor.to(device) for name, tensor in batch.items()}


def _padded(column: pa.ListArray, filled: np.ndarray, *, fill: int) -> np.ndarray:
    """The lists as int64 rows; ``filled`` says, row by row, where their items go."""
    padded = np.full(filled.shape, fill, np.int64)
    padded[filled] = np.asarray(column.flatten())
    return padded


def _permutation(n: int, *key: int) -> np.ndarray:
    """A permutation of ``range(n)`` by the key; numpy promises this stream for all versions."""
    draws = np.random.PCG64(np.random.SeedSequence(key)).random_raw(n)
    return np.argsort(draws, kind="stable")


def _check_meaning(manifest: Manifest, directory: str) -> None:
    """The labels and the tokenizer are what the numbers were made with, else ``ManifestError``."""
    if dict(manifest.label_convention) != LABEL_CONVENTION:
        raise ManifestError(
            directory, f"its labels mean {dict(manifest.label_convention)}, not {LABEL_CONVENTION}"
        )
    path = posixpath.join(directory, manifest.tokenizer.file)
    try:
        with open_file(path) as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        raise ManifestError(path, "it is missing; build or copy again") from None
    if digest != manifest.tokenizer.digest:
        raise ManifestError(
            path, "another tokenizer than the one that made this data set; build or copy again"
        )


def _choose(manifest: Manifest, *, max_seq_length: int | None, split: str) -> DataSet:
    fitting = [
        d
        for d in manifest.data_sets
        if d.split == split and max_seq_length in (None, d.max_seq_length) and d.examples
    ]
    if not fitting:
        there = ", ".join(f"{d.max_seq_length} {d.split}" for d in manifest.data_sets if d.examples)
        field, value = (
            ("split", split) if max_seq_length is None else ("max_seq_length", max_seq_length)
        )
        raise ConfigError(field, value, f"no such examples; there are {there or 'none'}")
    return min(fitting, key=lambda d: d.max_seq_length)


def _row_groups(path: str, *, rows: int) -> Iterator[_RowGroup]:
    try:
        with open_file(path) as file:
            metadata = pq.read_metadata(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise ManifestError(path, f"cannot be read: {error}; build or copy again") from None
    if metadata.num_rows != rows:
        raise ManifestError(
            path, f"the manifest says {rows:,} rows, it has {metadata.num_rows:,}; build again"
        )
    for i in range(metadata.num_row_groups):
        if n := metadata.row_group(i).num_rows:
            yield _RowGroup(path, i, n)


def _read(group: _RowGroup) -> pa.Table:
    with open_file(group.path) as file:
        return pq.ParquetFile(file).read_row_group(group.number, columns=_COLUMNS)
