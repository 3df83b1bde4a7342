"""Reads a data set for training: rows of Parquet in, padded batches of tensors out.

The manifest is the only way in. What the columns mean is in ``train.rows``, the order of the rows and
the ranks' shares of them in ``train.sampling``.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from schemas.errors import ConfigError
from schemas.manifest import ManifestError, load_manifest, open_shards
from train.background import map_ahead
from train.manifest import check_labels, choose_data_set, mask_settings, read_tokenizer
from train.rows import RowReader, pad_length, padded
from train.sampling import BUCKET_ROWS, Order, Share
from train.shards import list_row_groups, verify_shards
from train.stream import ROW, RowStream

__all__ = ["Batch", "PretrainingDataset"]

#: Names and tensors, see :class:`PretrainingDataset`.
Batch = dict[str, torch.Tensor]

#: Batches for each worker that are made before they are asked for.
_AHEAD = 2


class PretrainingDataset:
    """One length and split of a data set, in shuffled batches.

    A batch of B rows is a dict of tensors on the CPU; T is the length of its longest row, rounded up
    to a multiple of 8, and P the data set's ``max_predictions_per_seq``:

    * ``input_ids`` int64 (B, T), padded with ``[PAD]``
    * ``token_type_ids`` int64 (B, T), padded with 0; all 0 for objective mlm
    * ``attention_mask`` int64 (B, T): 1 for a token, 0 for padding
    * ``masked_lm_positions`` int64 (B, P), padded with 0
    * ``masked_lm_ids`` int64 (B, P), padded with ``[PAD]``
    * ``masked_lm_weights`` float32 (B, P): 1.0 where there is something to predict, else 0.0
    * ``next_sentence_label`` int64 (B,): 0 IsNext, 1 NotNext; for sop 0 in order, 1 swapped; **not
      there** for mlm

    Rows that were built without masks (masking ``none``) are masked here, anew in every epoch: the masks
    of a row are a function of (seed, epoch, number of the row in the data set), whatever the batch and
    the order it comes in. Rows with the masks of all passes beside them (layout ``shared``) have in
    epoch e those of pass e mod ``dupe_factor``.

    **Order.** The row groups of all shards are permuted, laid end to end and cut into windows; the rows
    of a window are permuted, those of like length together (``bucket``). The order is a function of
    (seed, epoch, ``window_rows``, ``bucket``): batch size, ranks and workers have no part in it.

    **Ranks.** The next ``batch_size * world_size`` rows are a step; its i-th row goes to rank i mod
    ``world_size``. So a step is the batch that one process with ``world_size`` times the batch takes,
    and all ranks have rows of the same lengths. Every row comes exactly once an epoch, every rank
    makes ``len(self)`` steps. The rest at the end is spread evenly: batches that are smaller, or one
    row larger if it is less than a row for each rank (see ``train.sampling.Share``). Every rank
    reads all row groups and keeps its own rows.

    **State.** Iterating gives the rest of an epoch, and the next epoch the next time; ``state_dict`` says
    where that is, to the row, counting the batches that were given out. It may be loaded with another
    batch size or number of ranks, and goes on with the rows that were not taken. (Going on with more
    ranks than the epoch has rows left, those few rows are left out.) It is the same on all ranks.

    Args:
      directory: with a ``manifest.json``.
      batch_size: rows of a batch, of one rank.
      max_seq_length: None for the shortest that the data set has.
      split: ``train`` or ``validation``.
      seed: of the order, and of masks that are drawn here.
      rank, world_size: this process among those that train together.
      num_workers: threads that make batches ahead, and one more that reads; 0 for none. Arrow and the
        masks' kernel leave the interpreter to others. The batches are the same.
      bucket: keep rows of like length together.
      window_rows: rows of a window, rounded up to whole buckets; about three times as many are held in
        memory, twice that with workers.
      drop_last: leave out what does not fill a step of all ranks.
      verify: read all shards first and check their sums, each rank its share of them; sizes and rows
        are always checked.

    Raises:
      ConfigError: no finished data set, no such length or split, no rows in it, a shard that is
        missing, damaged or changed, labels of another meaning, another tokenizer than the one that
        made it; a number out of range, a rank that is not in the world, fewer rows than a step needs.
        Also while reading, of a shard that has gone or changed since.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        batch_size: int,
        max_seq_length: int | None = None,
        split: str = "train",
        seed: int = 12_345,
        rank: int = 0,
        world_size: int = 1,
        num_workers: int = 0,
        bucket: bool = True,
        window_rows: int = 65_536,
        drop_last: bool = False,
        verify: bool = False,
    ):
        self.directory = os.fspath(directory)
        self.manifest = load_manifest(directory)
        check_labels(self.manifest, self.directory)
        tokenizer = read_tokenizer(self.manifest, self.directory)
        self.data_set = choose_data_set(self.manifest, max_seq_length=max_seq_length, split=split)
        self.batch_size, self.rank, self.world_size = batch_size, rank, world_size
        self._seed, self._num_workers = seed, num_workers
        if bucket:
            window_rows = -(-window_rows // BUCKET_ROWS) * BUCKET_ROWS
        self._order = Order(seed=seed, window_rows=window_rows, bucket=bucket)
        self._share = Share(
            batch_size=batch_size, rank=rank, world_size=world_size, drop_last=drop_last
        )
        self._check_numbers()
        paths = open_shards(self.manifest, directory, name=self.data_set.name, split=split)
        if verify:
            verify_shards(paths[rank::world_size], self.data_set.shards[rank::world_size])
        settings = None
        if self.manifest.masking == "none":
            settings = mask_settings(
                self.manifest,
                max_predictions_per_seq=self.data_set.max_predictions_per_seq,
                tokenizer=tokenizer,
            )
        self._reader = RowReader(self.manifest, settings=settings, seed=seed)
        self._stream = RowStream(
            list_row_groups(paths, self.data_set.shards),
            columns=self._reader.schema.names,
            order=self._order,
            share=self._share,
        )
        self._epoch = self._taken = 0

    def _check_numbers(self) -> None:
        # Offsets in Arrow's lists have 32 bits.
        longest_window = (2**31 - 1) // self.data_set.max_seq_length
        for field, value, low, high in (
            ("batch_size", self.batch_size, 1, None),
            ("world_size", self.world_size, 1, None),
            ("rank", self.rank, 0, self.world_size - 1),
            ("num_workers", self._num_workers, 0, None),
            ("window_rows", self._order.window_rows, 1, longest_window),
            ("seed", self._seed, 0, None),
        ):
            if value < low or (high is not None and value > high):
                allowed = f"at least {low}" if high is None else f"from {low} to {high}"
                raise ConfigError(field, value, f"must be {allowed}")
        rows = self.data_set.examples
        if rows < self.world_size:
            raise ConfigError(
                "world_size", self.world_size, f"start at most {rows:,}, the rows that there are"
            )
        if not len(self):
            raise ConfigError(
                "batch_size",
                self.batch_size,
                f"a step of all ranks takes {self._share.step_rows:,} rows, there are {rows:,}; give "
                f"at most {rows // self.world_size:,}, or keep the step that is not full",
            )

    def __len__(self) -> int:
        """Steps of a whole epoch, the same on every rank."""
        return self._share.count_steps(self.data_set.examples)

    @functools.cached_property
    def digest(self) -> str:
        """Of the contents of the shards, in order."""
        return hashlib.sha256("".join(s.sha256 for s in self.data_set.shards).encode()).hexdigest()

    def state_dict(self) -> dict[str, Any]:
        """Where iterating has come to: plain values, the same on every rank."""
        return self._decides() | {"epoch": self._epoch, "rows": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there.

        Raises:
          ConfigError: it is of other data or another order, of which other rows were taken.
        """
        if missing := {"epoch", "rows", *self._decides()} - set(state):
            without = ", ".join(sorted(missing))
            raise ConfigError("resume", True, f"no loader's state: without {without}")
        for name, value in self._decides().items():
            if state[name] == value:
                continue
            if name == "data":
                remedy = "the state is of other rows; name the data set it was made with"
                raise ManifestError(self.directory, remedy)
            raise ConfigError(name, value, f"the state was made with {state[name]}; give that")
        self._epoch, self._taken = state["epoch"], state["rows"]

    def _decides(self) -> dict[str, Any]:
        """What the order of an epoch is a function of."""
        return {"data": self.digest, **dataclasses.asdict(self._order)}

    def __iter__(self) -> Iterator[Batch]:
        """The batches that are left of the epoch; afterwards it is the next one's turn."""
        epoch, first = self._epoch, self._taken
        steps = self._share.count_steps(self.data_set.examples - first)
        if not steps:  # too few rows were left
            self._epoch, self._taken = epoch + 1, 0
        for step, batch in enumerate(self._batches(epoch, first), 1):
            # Noted before the batch is given out: whoever holds a batch has taken it.
            self._epoch, self._taken = (
                (epoch, first + step * self._share.step_rows) if step < steps else (epoch + 1, 0)
            )
            yield batch

    def batches(self, *, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from step ``start`` on; has nothing to do with the state.

        Windows that come before are not read.
        """
        return self._batches(epoch, min(start * self._share.step_rows, self.data_set.examples))

    def padding(self, *, epoch: int = 0) -> float:
        """Share of padding in this rank's ``input_ids`` of an epoch; reads the lengths only."""
        lengths, ends = self._stream.lengths(epoch=epoch)
        longest = np.maximum.reduceat(lengths, np.concatenate([[0], ends[:-1]]))
        return 1 - float(lengths.sum() / (np.diff(ends, prepend=0) @ pad_length(longest)))

    def _batches(self, epoch: int, first_row: int) -> Iterator[Batch]:
        threads = self._num_workers
        stored = self._stream.batches(epoch=epoch, first_row=first_row, in_background=threads > 0)
        make = functools.partial(self._batch, epoch=epoch)
        if not threads:
            return map(make, stored)
        return map_ahead(make, stored, threads=threads, ahead=_AHEAD * threads)

    def _batch(self, stored: pa.RecordBatch, *, epoch: int) -> Batch:
        rows = self._reader.read(stored, np.asarray(stored[ROW]), epoch=epoch)
        pad_id = self.manifest.tokenizer.pad_id
        predictions = np.diff(rows.prediction_offsets)
        masked = np.arange(self.data_set.max_predictions_per_seq) < predictions[:, None]  # (B, P)
        positions = np.zeros(masked.shape, np.int64)
        positions[masked] = rows.positions
        labels = np.full(masked.shape, pad_id, np.int64)
        labels[masked] = rows.labels
        arrays = padded(rows, pad_id=pad_id) | {
            "masked_lm_positions": positions,
            "masked_lm_ids": labels,
            "masked_lm_weights": masked.astype(np.float32),
        }
        if rows.next_sentence_label is not None:
            arrays["next_sentence_label"] = rows.next_sentence_label.astype(np.int64)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
