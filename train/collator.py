"""A collator for other trainers: rows of ``datasets`` in, padded batches with labels out.

It is what ``transformers.Trainer`` and ``torch.utils.data.DataLoader`` take, and makes of a row what
``train.data`` makes of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import get_worker_info

from schemas.errors import ConfigError
from schemas.manifest import Manifest, load_manifest
from train.data import Batch
from train.manifest import check_labels, mask_settings, read_tokenizer
from train.rows import RowReader, padded
from transforms.masking import MaskSettings

if TYPE_CHECKING:
    from transformers import TrainerCallback

__all__ = ["IGNORED", "DataCollatorForPretraining"]

#: The label of a token that is not to be predicted, for the losses of torch and transformers.
IGNORED = -100

#: The feature with the row's number in the data set.
_ROW = "row"


class DataCollatorForPretraining:
    """Makes a batch of rows as ``datasets.load_dataset(DIR, "seq128")`` gives them.

    A batch of B rows is a dict of int64 tensors; T is the length of its longest row, rounded up to a
    multiple of 8:

    * ``input_ids`` (B, T), padded with ``[PAD]``
    * ``token_type_ids`` (B, T), padded with 0; all 0 for objective mlm
    * ``attention_mask`` (B, T): 1 for a token, 0 for padding
    * ``labels`` (B, T): the original ids where there is something to predict, else -100
    * ``next_sentence_label`` (B,), as it is in the data set; **not there** for objective mlm

    Stored masks are used as they are. Rows that were built without (masking ``none``) are masked here, by
    (seed, epoch, number of the row): the same masks as ``PretrainingDataset`` gives them. The number is
    the feature ``row`` if there is one, which is added before anything is shuffled::

        rows = rows.add_column("row", range(len(rows)))

    Without it, rows are counted as they come, from 0 in every epoch, and their masks depend on the
    order they come in. Rows of layout ``shared`` have the masks of pass ``epoch`` mod ``dupe_factor``.

    Both need to know the epoch: call :meth:`set_epoch`, or give :meth:`callback` to the ``Trainer``.
    Worker processes of a ``DataLoader`` hear of it too, persistent ones as well.

    Args:
      data: the directory of a data set, or its manifest, which does where the rows have masks.
      seed: of the masks.
      max_seq_length: which length the rows have; needed where the data set has several and no
        masks, since the most predictions in a row depend on it.

    Raises:
      ConfigError: no finished data set, labels of another meaning, another tokenizer than the one
        that made it, a length that it does not have.
    """

    def __init__(
        self,
        data: Manifest | str | os.PathLike[str],
        *,
        seed: int = 12_345,
        max_seq_length: int | None = None,
    ):
        directory = None if isinstance(data, Manifest) else os.fspath(data)
        manifest = data if isinstance(data, Manifest) else load_manifest(data)
        check_labels(manifest, directory or "manifest")
        settings = None
        if manifest.masking == "none":
            settings = _settings(manifest, directory, max_seq_length=max_seq_length)
        elif directory:
            read_tokenizer(manifest, directory)
        self._reader = RowReader(manifest, settings=settings, seed=seed)
        self._pad_id = manifest.tokenizer.pad_id
        # In shared memory, so that worker processes see it change.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._counted, self._counted_epoch = 0, 0

    def set_epoch(self, epoch: int) -> None:
        """Masks are those of this epoch, from 0, from the next batch on."""
        self._epoch.fill_(epoch)

    def callback(self) -> TrainerCallback:
        """For ``Trainer(callbacks=[...])``: it calls :meth:`set_epoch` where an epoch begins."""
        from transformers import TrainerCallback

        set_epoch = self.set_epoch

        class SetEpoch(TrainerCallback):
            def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                # Of a run that goes on in the middle of an epoch it has a fraction.
                set_epoch(int(state.epoch or 0))

        return SetEpoch()

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> Batch:
        """A batch of these rows; ``ValueError`` if a column is missing."""
        schema = self._reader.schema
        if missing := [name for name in schema.names if name not in features[0]]:
            raise ValueError(
                f"the rows have no {', '.join(missing)}, only {', '.join(features[0])}; "
                "transformers.Trainer takes columns away unless remove_unused_columns=False"
            )
        stored = pa.RecordBatch.from_arrays(
            [pa.array([_plain(f[c.name]) for f in features], type=c.type) for c in schema],
            schema=schema,
        )
        epoch = int(self._epoch)
        rows = self._reader.read(stored, self._numbers(features, epoch=epoch), epoch=epoch)
        arrays = padded(rows, pad_id=self._pad_id)
        labels = np.full_like(arrays["input_ids"], IGNORED)
        labels[rows.row_of_prediction, rows.positions] = rows.labels
        arrays["labels"] = labels
        if rows.next_sentence_label is not None:
            arrays["next_sentence_label"] = rows.next_sentence_label.astype(np.int64)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def _numbers(self, features: Sequence[Mapping[str, Any]], *, epoch: int) -> np.ndarray:
        """Numbers of the rows, uint64 (B,): their own, or counted."""
        if _ROW in features[0]:
            return np.array([int(f[_ROW]) for f in features], np.uint64)
        if epoch != self._counted_epoch:
            self._counted, self._counted_epoch = 0, epoch
        numbers = np.arange(self._counted, self._counted + len(features), dtype=np.uint64)
        self._counted += len(features)
        if worker := get_worker_info():  # each counts for itself: their numbers interleave
            numbers = numbers * np.uint64(worker.num_workers) + np.uint64(worker.id)
        return numbers


def _settings(
    manifest: Manifest, directory: str | None, *, max_seq_length: int | None
) -> MaskSettings:
    predictions = {d.max_seq_length: d.max_predictions_per_seq for d in manifest.data_sets}
    if max_seq_length is None and len(predictions) == 1:
        (max_seq_length,) = predictions
    if max_seq_length not in predictions:
        there = ", ".join(map(str, predictions))
        raise ConfigError("max_seq_length", max_seq_length, f"must be one of {there}")
    if directory is None:
        raise ConfigError(
            "data",
            "a manifest",
            "the rows have no masks, and to draw them takes the tokenizer: give the directory",
        )
    return mask_settings(
        manifest,
        max_predictions_per_seq=predictions[max_seq_length],
        tokenizer=read_tokenizer(manifest, directory),
    )


def _plain(value: Any) -> Any:
    """Lists and numbers, of whatever format ``datasets`` was told to give."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list) and value and hasattr(value[0], "tolist"):
        return [item.tolist() for item in value]
    return value
