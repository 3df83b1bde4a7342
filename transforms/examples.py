"""Turns one block of tokenized documents into examples, as Arrow record batches.

A block's rows are planned (``transforms.rows``), put in shuffled order, laid out row group by row
group and masked (``transforms.masking``). All of it is a function of the block's documents and the
options; nothing here knows of files or of Beam.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numba import njit

from schemas.arrow import example_schema
from schemas.manifest import HISTOGRAM_BINS
from transforms.masking import Fates, MaskSettings, mask
from transforms.rows import LaidOut, PlanOptions, plan_rows
from transforms.token_blocks import TokenBlock

__all__ = ["ROW_GROUP_ROWS", "ExampleOptions", "ExampleStream", "SpecialTokens"]

#: Rows of a row group; part of the format, so that a shard's bytes do not depend on the machine.
ROW_GROUP_ROWS = 16_384


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """What the examples need to know of the vocabulary."""

    cls_id: int
    sep_id: int
    mask_id: int
    unk_id: int
    #: bool[vocabulary]: the token continues a word (``##ing``).
    is_subword: np.ndarray
    #: The ids random replacements are drawn from.
    random_ids: np.ndarray
    #: uint8[vocabulary]: where to cut long sentences, see ``transforms.long_sentences``; else empty.
    marks: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.uint8))

    @property
    def vocab_size(self) -> int:
        """Entries of the vocabulary."""
        return len(self.is_subword)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleOptions(PlanOptions):
    """How examples are made; the names are those of the flags."""

    masked_lm_prob: float
    do_whole_word_mask: bool
    provenance: bool
    masking: str = "static"
    layout: str = "separate"
    max_ngram_size: int = 1
    mask_per: str = "piece"
    mask_token_share: float = 0.8
    random_token_share: float = 0.1

    @property
    def shared(self) -> bool:
        """Whether a row is stored once, with the masks of all passes."""
        return self.layout == "shared"

    @property
    def splits_sentences(self) -> bool:
        """Whether long sentences become several; packed rows cut everything to the brim as it is."""
        return self.split_long_sentences and self.objective != "mlm"


class ExampleStream:
    """The examples of one block at one length: iterate over it, then read ``counts``.

    Args:
      block: the documents.
      options: how examples are made.
      special: what the vocabulary says.
      max_seq_length, max_predictions_per_seq: of this length.

    Iterating gives one ``schemas.arrow.example_schema`` batch for each row group.
    """

    def __init__(
        self,
        block: TokenBlock,
        options: ExampleOptions,
        special: SpecialTokens,
        *,
        max_seq_length: int,
        max_predictions_per_seq: int,
    ):
        self._options = options
        self._special = special
        self._max_seq_length = max_seq_length
        self._masks = MaskSettings(
            cls_id=special.cls_id,
            sep_id=special.sep_id,
            mask_id=special.mask_id,
            random_ids=special.random_ids,
            masked_lm_prob=options.masked_lm_prob,
            max_predictions_per_seq=max_predictions_per_seq,
            max_ngram_size=options.max_ngram_size,
            mask_per=options.mask_per,
            mask_token_share=options.mask_token_share,
            random_token_share=options.random_token_share,
        )
        self.schema = example_schema(
            special.vocab_size,
            provenance=options.provenance,
            objective=options.objective,
            masking=options.masking,
            layout=options.layout,
        )
        self.histogram = np.zeros(HISTOGRAM_BINS, np.int64)
        long_sentences = block.long_sentences(max_seq_length)
        if options.splits_sentences:
            block = block.without_long_sentences(special.marks, max_seq_length)
        self._plan = plan_rows(
            block,
            options,
            continues_word=_word_marks(block, options, special),
            max_seq_length=max_seq_length,
        )
        remask = options.dupe_mode == "remask"
        self._passes = options.dupe_factor if remask else 1
        again = 1 if options.shared else self._passes
        self.counts = {name: n * again for name, n in self._plan.counts.items()}
        self.counts["uncovered_tokens"] = self._plan.counts["uncovered_tokens"]
        self.counts["long_sentences"] = long_sentences
        found = ("example_tokens", "unknown_tokens", "mask_tokens", "random_tokens", "kept_tokens")
        self.counts |= dict.fromkeys(found, 0)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        records = self._plan.records
        seeds = records["mask_seed"]
        if self._options.shared:
            seeds = np.empty((len(records), self._passes), np.uint64)
            for i in range(self._passes):
                seeds[:, i] = self._plan.in_pass(i)["mask_seed"]
        elif self._passes > 1:
            n, records = len(records), np.empty(len(records) * self._passes, records.dtype)
            for i in range(self._passes):
                records[i * n : (i + 1) * n] = self._plan.in_pass(i)
            seeds = records["mask_seed"]
        order = np.argsort(records["shuffle_key"], kind="stable")
        for start in range(0, len(order), ROW_GROUP_ROWS):
            group = order[start : start + ROW_GROUP_ROWS]
            # numpy's own indexing of records takes thirty times as long.
            yield self._rows(np.take(records, group), seeds[group])

    def _rows(self, records: np.ndarray, seeds: np.ndarray) -> pa.RecordBatch:
        """The rows of some records, in that order; in layout ``shared`` with seeds for each pass."""
        columns: dict[str, pa.Array] = {}
        rows = self._lay_out(records)
        lengths = np.diff(rows.offsets)
        self._count(rows.input_ids, lengths)
        if self._options.masking == "none":
            marks = pa.array(rows.continues_word).cast(pa.bool_())
            columns["continues_word"] = self._lists("continues_word", marks, rows.offsets)
        elif self._options.shared:
            columns |= self._masks_of_all_passes(records, seeds)
        else:
            columns |= self._mask(rows, seeds)
        columns["input_ids"] = self._lists("input_ids", rows.input_ids, rows.offsets)
        columns["num_tokens"] = pa.array(lengths.astype(np.uint16))
        if (labels := self._plan.labels(records)) is not None:
            types = rows.token_type_ids
            columns["token_type_ids"] = self._lists("token_type_ids", types, rows.offsets)
            columns["next_sentence_label"] = pa.array(labels)
        if self._options.provenance:
            names = [name for name in self.schema.names if name not in columns]
            found = [*self._plan.provenance(records), pa.array(records["dupe_pass"])]
            columns |= dict(zip(names, found, strict=False))
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self.schema.names], schema=self.schema
        )

    def _lay_out(self, records: np.ndarray) -> LaidOut:
        return self._plan.lay_out(records, cls_id=self._special.cls_id, sep_id=self._special.sep_id)

    def _mask(self, rows: LaidOut, seeds: np.ndarray) -> dict[str, pa.Array]:
        """Masks the rows in place; the columns of the predictions."""
        masked = mask(
            rows.input_ids, rows.offsets, rows.continues_word, seeds, settings=self._masks
        )
        self._count_fates(masked.fates)
        return {
            "masked_lm_positions": self._lists(
                "masked_lm_positions", masked.positions, masked.offsets
            ),
            "masked_lm_ids": self._lists("masked_lm_ids", masked.labels, masked.offsets),
        }

    def _masks_of_all_passes(self, records: np.ndarray, seeds: np.ndarray) -> dict[str, pa.Array]:
        """For each row and pass, where it is masked and what stands there then.

        Args:
          records: [rows].
          seeds: uint64[rows, passes].
        """
        passes = self._passes
        positions, replacements, counts = [], [], []
        # A row for each pass, next to each other: no more of them at a time than of a row group.
        step = max(1, ROW_GROUP_ROWS // passes)
        for start in range(0, len(records), step):
            rows = self._lay_out(np.repeat(records[start : start + step], passes))
            masked = mask(
                rows.input_ids,
                rows.offsets,
                rows.continues_word,
                seeds[start : start + step].reshape(-1),
                settings=self._masks,
            )
            self._count_fates(masked.fates)
            lengths = np.diff(masked.offsets)
            at = np.repeat(rows.offsets[:-1], lengths) + masked.positions
            positions.append(masked.positions)
            replacements.append(rows.input_ids[at])
            counts.append(lengths)
        inner = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int32)
        outer = np.arange(0, len(records) * passes + 1, passes, dtype=np.int32)
        found = {
            "masked_lm_positions": np.concatenate(positions),
            "replacement_ids": np.concatenate(replacements),
        }
        columns = {}
        for name, values in found.items():
            list_type = self.schema.field(name).type
            lists = _lists(values, inner, list_type.value_type)
            columns[name] = pa.ListArray.from_arrays(pa.array(outer), lists, type=list_type)
        return columns

    def _count(self, input_ids: np.ndarray, lengths: np.ndarray) -> None:
        self.counts["example_tokens"] += int(lengths.sum())
        self.counts["unknown_tokens"] += int(np.count_nonzero(input_ids == self._special.unk_id))
        bins = (lengths - 1) * HISTOGRAM_BINS // self._max_seq_length
        self.histogram += np.bincount(bins, minlength=HISTOGRAM_BINS)

    def _count_fates(self, fates: np.ndarray) -> None:
        self.counts["mask_tokens"] += int(fates[Fates.MASK_TOKEN])
        self.counts["random_tokens"] += int(fates[Fates.RANDOM_TOKEN])
        self.counts["kept_tokens"] += int(fates[Fates.KEPT_TOKEN])

    def _lists(self, name: str, values: np.ndarray | pa.Array, offsets: np.ndarray) -> pa.ListArray:
        return _lists(values, offsets, self.schema.field(name).type)


def _word_marks(block: TokenBlock, options: ExampleOptions, special: SpecialTokens) -> np.ndarray:
    """uint8[tokens of the block]: the token belongs to the word of the token before it."""
    if not options.do_whole_word_mask:
        return np.zeros(len(block.ids), np.uint8)
    if block.continues_word is not None:
        return block.continues_word
    return _look_up(special.is_subword.view(np.uint8), block.ids)


@njit(cache=True, nogil=True)
def _look_up(table, ids):  # type: ignore[no-untyped-def]
    """``table[ids]``, of ids that are in it: numpy makes wide indices first, five times as long."""
    found = np.empty(len(ids), table.dtype)
    for k in range(len(ids)):
        found[k] = table[ids[k]]
    return found


def _lists(
    values: np.ndarray | pa.Array, offsets: np.ndarray, list_type: pa.ListType
) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), type=list_type)
