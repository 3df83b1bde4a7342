"""The columns of one row group of a shard as flat arrays, for the compiled rules of the audit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from schemas.arrow import KEY_BYTES

__all__ = ["RowGroup", "Spans", "halves"]

_EMPTY = np.zeros(0, np.uint8)


@dataclasses.dataclass(frozen=True)
class Spans:
    """Where parts of rows come from: a row's parts are ``offsets[r]`` to ``offsets[r + 1]``.

    Attributes:
      offsets: int64[rows + 1]; two parts for each row of a pair, A and B.
      low, high: uint64[parts], the halves of the documents' keys.
      first, end: int64[parts], sentences of the document.
    """

    offsets: np.ndarray
    low: np.ndarray
    high: np.ndarray
    first: np.ndarray
    end: np.ndarray


@dataclasses.dataclass(frozen=True)
class RowGroup:
    """Rows as flat arrays; what the data set does not have is empty.

    Attributes:
      ids, offsets: ``input_ids``; offsets are int64[rows + 1] here and in all that follow.
      types, type_offsets: ``token_type_ids``.
      continues, continues_offsets: ``continues_word``.
      pass_offsets: a row's lists of positions: one, or in layout ``shared`` one for each pass.
      positions, position_offsets: ``masked_lm_positions``, a list for each pass of each row.
      others, other_offsets: ``masked_lm_ids`` or ``replacement_ids``, likewise.
      same_lists: whether both have lists alike.
      labels: ``next_sentence_label``.
      num_tokens: uint16[rows].
      dupe_pass: int64[rows], zero where there is no such column.
      spans: provenance, if there is any.
    """

    ids: np.ndarray
    offsets: np.ndarray
    types: np.ndarray
    type_offsets: np.ndarray
    continues: np.ndarray
    continues_offsets: np.ndarray
    pass_offsets: np.ndarray
    positions: np.ndarray
    position_offsets: np.ndarray
    others: np.ndarray
    other_offsets: np.ndarray
    same_lists: bool
    labels: np.ndarray
    num_tokens: np.ndarray
    dupe_pass: np.ndarray
    spans: Spans | None

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.num_tokens)

    @classmethod
    def of(cls, table: pa.Table) -> RowGroup:
        """The arrays of a table that has the columns of ``schemas.arrow.example_schema``."""
        table = table.combine_chunks()
        rows, names = table.num_rows, table.column_names
        nothing = (_EMPTY, np.zeros(rows + 1, np.int64))
        ids, offsets = _flat(table, "input_ids")
        types, type_offsets = _flat(table, "token_type_ids") if _TYPES in names else nothing
        continues, continues_offsets = _flat(table, _CONTINUES) if _CONTINUES in names else nothing
        passes, positions, position_offsets = _no_predictions(rows)
        others, other_offsets, same = ids[:0], position_offsets, True
        if "replacement_ids" in names:
            passes, positions, position_offsets = _nested(table, "masked_lm_positions")
            other_passes, others, other_offsets = _nested(table, "replacement_ids")
            same = bool(np.array_equal(passes, other_passes))
        elif "masked_lm_ids" in names:
            positions, position_offsets = _flat(table, "masked_lm_positions")
            others, other_offsets = _flat(table, "masked_lm_ids")
            passes = np.arange(rows + 1)
        dupe_pass = np.zeros(rows, np.int64)
        if "dupe_pass" in names:
            dupe_pass = _column(table, "dupe_pass").to_numpy().astype(np.int64)
        labels = np.zeros(rows, np.uint8)
        if "next_sentence_label" in names:
            labels = _column(table, "next_sentence_label").to_numpy()
        return cls(
            ids=ids,
            offsets=offsets,
            types=types,
            type_offsets=type_offsets,
            continues=continues.view(np.uint8),
            continues_offsets=continues_offsets,
            pass_offsets=passes,
            positions=positions,
            position_offsets=position_offsets,
            others=others,
            other_offsets=other_offsets,
            same_lists=same and len(position_offsets) == len(other_offsets),
            labels=labels,
            num_tokens=_column(table, "num_tokens").to_numpy(),
            dupe_pass=dupe_pass,
            spans=_spans(table),
        )


_TYPES, _CONTINUES = "token_type_ids", "continues_word"


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _lists(column: pa.ListArray) -> tuple[pa.Array, np.ndarray]:
    offsets = column.offsets.to_numpy().astype(np.int64)
    return column.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]


def _flat(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    values, offsets = _lists(_column(table, name))
    return values.to_numpy(zero_copy_only=False), offsets


def _nested(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lists, outer = _lists(_column(table, name))
    values, inner = _lists(lists) if len(lists) else (lists.values, np.zeros(1, np.int64))
    return outer, values.to_numpy(zero_copy_only=False), inner


def _no_predictions(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(rows + 1, np.int64), np.zeros(0, np.uint16), np.zeros(1, np.int64)


def halves(keys: pa.FixedSizeBinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """The low and high 64 bits of each key, uint64[keys] each."""
    start = keys.offset * KEY_BYTES
    if not len(keys):
        return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    data = memoryview(keys.buffers()[1])[start : start + len(keys) * KEY_BYTES]
    both = np.frombuffer(data, "<u8").astype(np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])


def _spans(table: pa.Table) -> Spans | None:
    names = table.column_names
    if "documents" in names:
        keys, offsets = _lists(_column(table, "documents"))
        first, first_offsets = _flat(table, "first_sentences")
        end, end_offsets = _flat(table, "end_sentences")
        alike = np.array_equal(offsets, first_offsets) and np.array_equal(offsets, end_offsets)
        if not alike:  # no row is where these say
            offsets, first, end = offsets * 0, first[:0], end[:0]
            keys = keys.slice(0, 0)
        return Spans(offsets, *halves(keys), first.astype(np.int64), end.astype(np.int64))
    if "a_document" not in names:
        return None
    sides = [halves(_column(table, f"{side}_document")) for side in "ab"]

    def interleaved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.stack([a, b], axis=1).reshape(-1))

    def numbers(name: str) -> np.ndarray:
        a, b = (_column(table, f"{side}_{name}").to_numpy().astype(np.int64) for side in "ab")
        return interleaved(a, b)

    return Spans(
        np.arange(table.num_rows + 1) * 2,
        interleaved(sides[0][0], sides[1][0]),
        interleaved(sides[0][1], sides[1][1]),
        numbers("first_sentence"),
        numbers("end_sentence"),
    )
