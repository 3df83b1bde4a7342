"""Rows as they are stored become masked rows, of whatever objective, masking and layout they are.

Flat arrays with offsets from Arrow's buffers to the padded matrix; no row is ever a Python object.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from schemas.arrow import example_schema
from schemas.manifest import Manifest
from transforms.masking import MaskSettings, mask_at_load

__all__ = ["RowReader", "Rows", "pad_length", "padded"]

#: Rows are padded to a multiple of it, which is what matrix units of accelerators like.
_MULTIPLE = 8


class Rows(NamedTuple):
    """Masked rows, flat.

    Attributes:
      input_ids: uint16 or uint32[tokens], the masks in place.
      offsets: int64[rows + 1], into ``input_ids``.
      token_type_ids: uint8[tokens]; None for mlm, where all are 0.
      positions: [predictions], within the row, ascending.
      labels: [predictions], the ids that were there.
      prediction_offsets: int64[rows + 1], into the two above.
      next_sentence_label: uint8[rows]; None for mlm, which has no such label.
    """

    input_ids: np.ndarray
    offsets: np.ndarray
    token_type_ids: np.ndarray | None
    positions: np.ndarray
    labels: np.ndarray
    prediction_offsets: np.ndarray
    next_sentence_label: np.ndarray | None

    @property
    def row_of_prediction(self) -> np.ndarray:
        """Int64[predictions]."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.prediction_offsets))


class RowReader:
    """Makes :class:`Rows` of the stored columns.

    Stored masks are used as they are. Of layout ``shared``, epoch e has the masks of pass
    e mod ``dupe_factor``. Rows without masks are masked here, by (seed, epoch, number of the row).

    Args:
      manifest: of the data set.
      settings: how rows are masked; None where they have masks.
      seed: of the masks.
    """

    def __init__(self, manifest: Manifest, *, settings: MaskSettings | None, seed: int):
        self._settings = settings
        self._seed = seed
        self._shared = manifest.layout == "shared"
        self._passes: int = manifest.configuration["dupe_factor"]
        schema = example_schema(
            manifest.tokenizer.vocab_size,
            provenance=False,
            objective=manifest.objective,
            masking=manifest.masking,
            layout=manifest.layout,
        )
        #: The columns that are needed; ``num_tokens`` is known from the others.
        self.schema = pa.schema([field for field in schema if field.name != "num_tokens"])

    def read(self, stored: pa.RecordBatch, numbers: np.ndarray, *, epoch: int) -> Rows:
        """The rows of a batch.

        Args:
          stored: with the columns of ``schema``.
          numbers: uint64[rows], of each row in the data set, over its shards in order.
          epoch: from 0.
        """
        ids, offsets = _flat(stored["input_ids"])
        paired = "next_sentence_label" in self.schema.names
        if self._settings:
            drawn = mask_at_load(
                ids,
                offsets,
                _flat(stored["continues_word"])[0],
                numbers,
                seed=self._seed,
                epoch=epoch,
                settings=self._settings,
            )
            masked = (drawn.input_ids, drawn.positions, drawn.labels, drawn.offsets)
        elif self._shared:
            masked = _of_pass(stored, ids, offsets, number=epoch % self._passes)
        else:
            positions, prediction_offsets = _flat(stored["masked_lm_positions"])
            masked = (ids, positions, _flat(stored["masked_lm_ids"])[0], prediction_offsets)
        ids, positions, labels, prediction_offsets = masked
        return Rows(
            input_ids=ids,
            offsets=offsets,
            token_type_ids=_flat(stored["token_type_ids"])[0] if paired else None,
            positions=positions,
            labels=labels,
            prediction_offsets=prediction_offsets,
            next_sentence_label=np.asarray(stored["next_sentence_label"]) if paired else None,
        )


def pad_length(longest: np.ndarray) -> np.ndarray:
    """What rows are padded to, for the longest row of a batch, or of each of several."""
    return -(-longest // _MULTIPLE) * _MULTIPLE


def padded(rows: Rows, *, pad_id: int) -> dict[str, np.ndarray]:
    """What a model takes, all but the labels: int64 (B, T), T the longest row rounded up to 8s."""
    lengths = np.diff(rows.offsets)
    there = np.arange(int(pad_length(lengths.max()))) < lengths[:, None]  # (B, T)
    input_ids = np.full(there.shape, pad_id, np.int64)
    input_ids[there] = rows.input_ids
    token_type_ids = np.zeros(there.shape, np.int64)
    if rows.token_type_ids is not None:
        token_type_ids[there] = rows.token_type_ids
    return {
        "input_ids": input_ids,
        "token_type_ids": token_type_ids,
        "attention_mask": there.astype(np.int64),
    }


def _flat(column: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """Values and offsets, int64 from 0, of a column that may be a slice."""
    offsets = np.asarray(column.offsets).astype(np.int64)
    return np.asarray(column.flatten()), offsets - offsets[0]


def _of_pass(
    stored: pa.RecordBatch, ids: np.ndarray, offsets: np.ndarray, *, number: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ids, positions, labels and prediction offsets of one pass of rows in layout ``shared``."""
    passes = stored["masked_lm_positions"]
    chosen = np.asarray(passes.offsets)[:-1].astype(np.int64) - passes.offsets[0].as_py() + number
    positions, bounds = _flat(passes.flatten())
    replacements, _ = _flat(stored["replacement_ids"].flatten())
    counts = bounds[chosen + 1] - bounds[chosen]
    prediction_offsets = np.concatenate([[0], np.cumsum(counts)])
    # The items of the chosen lists, one list after the other.
    items = np.arange(prediction_offsets[-1])
    items += np.repeat(bounds[chosen] - prediction_offsets[:-1], counts)
    positions = positions[items]
    at = np.repeat(offsets[:-1], counts) + positions
    replaced = ids.copy()
    replaced[at] = replacements[items]
    return replaced, positions, ids[at], prediction_offsets
