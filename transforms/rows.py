"""The planned rows of a block at one length, ready to be laid out: of pairs, or packed.

One contract for both, :class:`RowPlan`: ``transforms.examples`` masks and shuffles rows without
knowing what they are for.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numba import njit

from transforms.keys import key_array
from transforms.packing import pack_rows, reseed_packs
from transforms.pairing import PairCounts, plan_pairs, reseed_pairs
from transforms.randomness import document_seeds
from transforms.sentence_order import plan_ordered_pairs
from transforms.token_blocks import TokenBlock, covered_tokens

__all__ = ["LaidOut", "PackedRows", "PairRows", "PlanOptions", "RowPlan", "plan_rows"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What rows are made; the names are those of the flags."""

    random_seed: int
    dupe_factor: int
    short_seq_prob: float
    objective: str = "nsp"
    dupe_mode: str = "resegment"
    not_next_share: float = 0.5
    single_segment: str = "split"
    mlm_packing: str = "full"
    sep_between_documents: bool = False
    drop_last: bool = False
    split_long_sentences: bool = False


class LaidOut(NamedTuple):
    """Rows one after the other.

    Attributes:
      input_ids: uint16 or uint32[tokens], with [CLS] and [SEP].
      continues_word: uint8[tokens], 0 at special tokens and after them.
      token_type_ids: uint8[tokens]; empty for rows without pairs.
      offsets: int32[rows + 1].
    """

    input_ids: np.ndarray
    continues_word: np.ndarray
    token_type_ids: np.ndarray
    offsets: np.ndarray


class RowPlan(Protocol):
    """All rows of a block, in no order that matters.

    Attributes:
      records: one for each row, with ``mask_seed``, ``shuffle_key``, ``dupe_pass`` and ``short``.
      counts: what the manifest counts of them, but for what laying out and masking find.
    """

    records: np.ndarray
    counts: dict[str, int]

    def in_pass(self, dupe_pass: int) -> np.ndarray:
        """The records of the first pass with the seeds of any pass."""

    def lay_out(self, records: np.ndarray, *, cls_id: int, sep_id: int) -> LaidOut:
        """The rows of some records, in that order."""

    def labels(self, records: np.ndarray) -> np.ndarray | None:
        """uint8[rows]: ``next_sentence_label``; None where there are no pairs."""

    def provenance(self, records: np.ndarray) -> list[pa.Array]:
        """The columns of ``schemas.arrow.example_schema`` that say where rows come from."""


def plan_rows(
    block: TokenBlock, options: PlanOptions, *, continues_word: np.ndarray, max_seq_length: int
) -> RowPlan:
    """Plans the rows of a block.

    Args:
      block: the documents.
      options: what rows.
      continues_word: uint8[tokens of the block].
      max_seq_length: the length.
    """
    kind = PackedRows if options.objective == "mlm" else PairRows
    return kind(block, options, continues_word=continues_word, max_seq_length=max_seq_length)


class _Rows(abc.ABC):
    """What pairs and packed rows have in common."""

    records: np.ndarray

    def __init__(
        self,
        block: TokenBlock,
        options: PlanOptions,
        *,
        continues_word: np.ndarray,
        max_seq_length: int,
    ):
        self._block = block
        self._continues_word = continues_word
        self._max_seq_length = max_seq_length
        self._seeds = document_seeds(options.random_seed, block.low, block.high)
        remask = options.dupe_mode == "remask"
        self.counts = self._plan(options, 1 if remask else options.dupe_factor)
        self.counts["examples"] = len(self.records)
        self.counts["short"] = int(np.count_nonzero(self.records["short"]))

    @abc.abstractmethod
    def _plan(self, options: PlanOptions, passes: int) -> dict[str, int]:
        """Fills ``records`` in; the counts that are its own."""

    @abc.abstractmethod
    def _reseed(self) -> Callable[..., np.ndarray]:
        """The kernel that gives records the seeds of another pass."""

    def in_pass(self, dupe_pass: int) -> np.ndarray:
        """See :class:`RowPlan`."""
        again: np.ndarray = self._reseed()(
            self.records, self._seeds, self._max_seq_length, dupe_pass
        )
        return again

    def _key_array(self, documents: np.ndarray) -> pa.Array:
        return key_array(self._block.low[documents], self._block.high[documents])

    def _room(self, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids, word marks and offsets to be filled."""
        room = rows * self._max_seq_length
        ids = np.empty(room, self._block.ids.dtype)
        return ids, np.empty(room, np.uint8), np.zeros(rows + 1, np.int32)


class PairRows(_Rows):
    """``[CLS] A [SEP] B [SEP]``, for next sentence prediction or sentence order."""

    def _plan(self, options: PlanOptions, passes: int) -> dict[str, int]:
        block = self._block
        where = block.sentence_offsets, block.first_sentence, block.end_sentence
        if options.objective == "sop":
            self.records, counted = plan_ordered_pairs(
                *where,
                self._seeds,
                passes,
                self._max_seq_length,
                options.short_seq_prob,
                options.not_next_share,
                options.single_segment == "split",
            )
        else:
            self.records, counted = plan_pairs(
                *where,
                *block.copies(),
                self._seeds,
                passes,
                self._max_seq_length,
                options.short_seq_prob,
                options.not_next_share,
            )
        total = len(block.ids)
        bounds = (self.records[name] for name in ("a_start", "a_end", "b_start", "b_end"))
        covered = int(covered_tokens(*bounds, total))
        return {
            "not_next": int(counted[PairCounts.NOT_NEXT]),
            "single_segment_not_next": int(counted[PairCounts.SINGLE_SEGMENT_NOT_NEXT]),
            "split_segment": int(counted[PairCounts.SPLIT_SEGMENT]),
            "chunks_without_partner": int(counted[PairCounts.WITHOUT_PARTNER]),
            "uncovered_tokens": total - covered,
        }

    def _reseed(self) -> Callable[..., np.ndarray]:
        return reseed_pairs

    def lay_out(self, records: np.ndarray, *, cls_id: int, sep_id: int) -> LaidOut:
        """See :class:`RowPlan`."""
        ids, marks, offsets = self._room(len(records))
        types = np.empty(len(ids), np.uint8)
        _lay_out_pairs(
            self._block.ids,
            self._continues_word,
            records,
            cls_id,
            sep_id,
            ids,
            marks,
            types,
            offsets,
        )
        end = offsets[-1]
        return LaidOut(ids[:end], marks[:end], types[:end], offsets)

    def labels(self, records: np.ndarray) -> np.ndarray | None:
        """See :class:`RowPlan`."""
        return records["label"]

    def provenance(self, records: np.ndarray) -> list[pa.Array]:
        """See :class:`RowPlan`."""
        columns: list[pa.Array] = []
        for side in ("a", "b"):
            documents = records[f"{side}_document"]
            base = self._block.first_sentence[documents]
            columns += [
                self._key_array(documents),
                pa.array((records[f"{side}_first_sentence"] - base).astype(np.uint32)),
                pa.array((records[f"{side}_end_sentence"] - base).astype(np.uint32)),
            ]
        return columns


class PackedRows(_Rows):
    """``[CLS] tokens [SEP]``, for the masked language model alone."""

    def _plan(self, options: PlanOptions, passes: int) -> dict[str, int]:
        block = self._block
        self.records, self._parts = pack_rows(
            block.sentence_offsets,
            block.first_sentence,
            block.end_sentence,
            self._seeds,
            passes,
            self._max_seq_length,
            options.short_seq_prob,
            options.mlm_packing == "document",
            options.sep_between_documents,
            options.drop_last,
        )
        self._sep_between = options.sep_between_documents
        total = len(block.ids)
        bounds = self._parts["start"], self._parts["end"]
        # Each range twice: what counts is whether a token is in any.
        covered = int(covered_tokens(*bounds, *bounds, total))
        return {"uncovered_tokens": total - covered}

    def _reseed(self) -> Callable[..., np.ndarray]:
        return reseed_packs

    def lay_out(self, records: np.ndarray, *, cls_id: int, sep_id: int) -> LaidOut:
        """See :class:`RowPlan`."""
        ids, marks, offsets = self._room(len(records))
        _lay_out_packs(
            self._block.ids,
            self._continues_word,
            records,
            self._parts,
            self._sep_between,
            cls_id,
            sep_id,
            ids,
            marks,
            offsets,
        )
        end = offsets[-1]
        return LaidOut(ids[:end], marks[:end], np.zeros(0, np.uint8), offsets)

    def labels(self, records: np.ndarray) -> np.ndarray | None:
        """See :class:`RowPlan`."""
        return None

    def provenance(self, records: np.ndarray) -> list[pa.Array]:
        """See :class:`RowPlan`."""
        counts = records["end_part"] - records["first_part"]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        parts = self._parts[np.repeat(records["first_part"], counts) + within]
        base = self._block.first_sentence[parts["document"]]
        columns = [
            self._key_array(parts["document"]),
            pa.array((parts["first_sentence"] - base).astype(np.uint32)),
            pa.array((parts["end_sentence"] - base).astype(np.uint32)),
        ]
        return [
            pa.ListArray.from_arrays(
                pa.array(offsets),
                column,
                type=pa.list_(pa.field("item", column.type, nullable=False)),
            )
            for column in columns
        ]


@njit(cache=True, inline="always")
def _copy_tokens(ids, continues_word, start, end, input_ids, marks, at):  # type: ignore[no-untyped-def]
    """Copies tokens [start, end) of the block to ``at``, where there is room; the first begins a word.

    A token after a special one does: after truncation B may begin in the middle of a word. Inlined, it
    takes half the time.
    """
    from_ids, from_marks = ids[start:end], continues_word[start:end]
    to_ids, to_marks = input_ids[at : at + end - start], marks[at : at + end - start]
    # Item by item, over views of one length: assignments of slices take three times as long.
    for i in range(len(from_ids)):
        to_ids[i] = from_ids[i]
        to_marks[i] = from_marks[i]
    marks[at] = 0


@njit(cache=True, nogil=True)
def _lay_out_pairs(  # type: ignore[no-untyped-def]
    ids, continues_word, pairs, cls_id, sep_id, input_ids, marks, token_type_ids, offsets
):
    """Writes ``[CLS] A [SEP] B [SEP]`` for each pair.

    Args:
      ids, continues_word: the block's tokens.
      pairs: ``PAIR[rows]``, in the order of the rows.
      input_ids, marks, token_type_ids: filled, large enough; offsets: int32[rows + 1], filled.
    """
    p = 0
    offsets[0] = 0
    for r in range(len(pairs)):
        pair = pairs[r]
        b = p + 2 + pair.a_end - pair.a_start
        end = b + 1 + pair.b_end - pair.b_start
        _copy_tokens(ids, continues_word, pair.a_start, pair.a_end, input_ids, marks, p + 1)
        _copy_tokens(ids, continues_word, pair.b_start, pair.b_end, input_ids, marks, b)
        input_ids[p] = cls_id
        input_ids[b - 1] = input_ids[end - 1] = sep_id
        marks[p] = marks[b - 1] = marks[end - 1] = 0
        token_type_ids[p:b] = 0
        token_type_ids[b:end] = 1
        p = end
        offsets[r + 1] = p


@njit(cache=True, nogil=True)
def _lay_out_packs(  # type: ignore[no-untyped-def]
    ids, continues_word, packs, parts, sep_between, cls_id, sep_id, input_ids, marks, offsets
):
    """Writes ``[CLS] tokens [SEP]`` for each row, with ``sep_between`` a [SEP] between documents too.

    Args:
      ids, continues_word: the block's tokens.
      packs: ``PACK[rows]``, in the order of the rows; parts: ``PART[parts]``.
      input_ids, marks: filled, large enough; offsets: int32[rows + 1], filled.
    """
    p = 0
    offsets[0] = 0
    for r in range(len(packs)):
        input_ids[p] = cls_id
        marks[p] = 0
        p += 1
        for q in range(packs[r].first_part, packs[r].end_part):
            if sep_between and q > packs[r].first_part:
                input_ids[p] = sep_id
                marks[p] = 0
                p += 1
            start, end = parts[q].start, parts[q].end
            _copy_tokens(ids, continues_word, start, end, input_ids, marks, p)
            p += end - start
        input_ids[p] = sep_id
        marks[p] = 0
        p += 1
        offsets[r + 1] = p
