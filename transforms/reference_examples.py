"""The examples of ``--exact_reference`` as Arrow record batches: one file group, in the script's order.

The counterpart of :mod:`transforms.examples`; what is drawn is in :mod:`transforms.reference`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from schemas.arrow import example_schema, token_batch
from schemas.errors import BuildError
from schemas.manifest import HISTOGRAM_BINS
from transforms.examples import ROW_GROUP_ROWS, ExampleOptions, SpecialTokens
from transforms.keys import key_array, key_halves
from transforms.reference import Drawn, ReferenceOptions, draw_instances
from transforms.reference_documents import ReferenceDocuments
from transforms.reference_masking import DrawnCounts
from transforms.reference_rows import lay_out_instances
from transforms.token_blocks import TokenBlock, covered_tokens

__all__ = ["ReferenceBlock", "ReferenceStream", "gather_group", "group_batch"]


class ReferenceBlock(TokenBlock):
    """The documents of one file group, in the order in which they were read."""

    def document_counts(self, unk_id: int) -> dict[str, int]:
        """See :class:`TokenBlock`; here copies need not be neighbours."""
        halves = np.stack([self.low, self.high], axis=1)
        distinct = len(np.unique(halves, axis=0))
        counts = super().document_counts(unk_id)
        return counts | {"duplicate_documents": len(self.low) - distinct}


def group_batch(documents: ReferenceDocuments, *, vocab_size: int) -> pa.RecordBatch:
    """The documents of a group as one ``token_batch``, those without a token last.

    Raises:
      BuildError: more than 2^31 - 1 tokens, which Arrow's offsets cannot count.
    """
    if len(documents.ids) > np.iinfo(np.int32).max:
        raise BuildError(
            f"a file group has {len(documents.ids):,} tokens, more than can be shuffled at once; "
            "give fewer files, or --reference_groups file for an invocation for each file"
        )
    empty = documents.num_empty
    bounds = np.append(documents.document_offsets, [documents.document_offsets[-1]] * empty)
    sentences = pa.ListArray.from_arrays(
        pa.array(documents.sentence_offsets.astype(np.int32)), pa.array(documents.ids)
    )
    lists = pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), sentences)
    # Nothing is ever asked of the keys of documents without a token.
    keys = pa.array([*documents.keys, *[bytes(16)] * empty], pa.binary(16))
    return pa.record_batch([keys, lists], schema=token_batch(vocab_size))


def gather_group(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> ReferenceBlock:
    """The inverse of :func:`group_batch`: nothing is sorted.

    Args:
      batches: the one batch of a group.
      schema: ``schemas.arrow.token_batch``.
    """
    (batch,) = batches
    lists = batch.column("sentences")
    values = lists.flatten()
    bounds = np.asarray(lists.offsets, np.int64)
    filled = bounds[1:] > bounds[:-1]
    low, high = key_halves(batch.column("key"))
    return ReferenceBlock(
        ids=np.asarray(values.flatten()),
        sentence_offsets=np.asarray(values.offsets, np.int64),
        first_sentence=bounds[:-1][filled],
        end_sentence=bounds[1:][filled],
        low=low[filled],
        high=high[filled],
        num_empty=batch.num_rows - int(np.count_nonzero(filled)),
    )


class ReferenceStream:
    """The examples of one file group at one length; stands in for ``ExampleStream``.

    Args:
      block: of :func:`gather_group`.
      options: how examples are made.
      special: what the vocabulary says; ``random_ids`` are the script's ``vocab_words``.
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
        self._block = block
        self._provenance = options.provenance
        self._special = special
        self._max_seq_length = max_seq_length
        self._max_predictions = max_predictions_per_seq
        self.schema = example_schema(special.vocab_size, provenance=options.provenance)
        self.histogram = np.zeros(HISTOGRAM_BINS, np.int64)
        self._drawn = self._draw(options)
        self.counts = self._count()

    def _draw(self, options: ExampleOptions) -> Drawn:
        block = self._block
        return draw_instances(
            block.ids,
            block.sentence_offsets,
            np.append(block.first_sentence, len(block.sentence_offsets) - 1),
            ReferenceOptions(
                max_seq_length=self._max_seq_length,
                max_predictions_per_seq=self._max_predictions,
                masked_lm_prob=options.masked_lm_prob,
                short_seq_prob=options.short_seq_prob,
                dupe_factor=options.dupe_factor,
                random_seed=options.random_seed,
                do_whole_word_mask=options.do_whole_word_mask,
            ),
            is_subword=self._special.is_subword,
            vocab_words=self._special.random_ids,
            mask_id=self._special.mask_id,
        )

    def _count(self) -> dict[str, int]:
        instances, counted = self._drawn.instances, self._drawn.counts
        tokens = len(self._block.ids)
        bounds = (instances[name] for name in ("a_start", "a_end", "b_start", "b_end"))
        covered = int(covered_tokens(*bounds, tokens))
        return {
            "examples": len(instances),
            "not_next": int(counted[DrawnCounts.NOT_NEXT]),
            "single_segment_not_next": int(counted[DrawnCounts.SINGLE_SEGMENT_NOT_NEXT]),
            "own_document_not_next": int(counted[DrawnCounts.OWN_DOCUMENT_NOT_NEXT]),
            "words_across_sep": int(counted[DrawnCounts.WORDS_ACROSS_SEP]),
            "split_segment": 0,
            "chunks_without_partner": 0,
            "long_sentences": self._block.long_sentences(self._max_seq_length),
            "short": int(np.count_nonzero(instances["short"])),
            "uncovered_tokens": tokens - covered,
            "example_tokens": 0,
            "unknown_tokens": 0,
            "mask_tokens": int(counted[DrawnCounts.MASK_TOKEN]),
            "random_tokens": int(counted[DrawnCounts.RANDOM_TOKEN]),
            "kept_tokens": int(counted[DrawnCounts.KEPT_TOKEN]),
        }

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        order = self._drawn.order
        for start in range(0, len(order), ROW_GROUP_ROWS):
            yield self._rows(order[start : start + ROW_GROUP_ROWS])

    def _rows(self, rows: np.ndarray) -> pa.RecordBatch:
        room, masks = len(rows) * self._max_seq_length, len(rows) * self._max_predictions
        input_ids, labels = (np.empty(size, self._block.ids.dtype) for size in (room, masks))
        token_type_ids, positions = np.empty(room, np.uint8), np.empty(masks, np.uint16)
        offsets, prediction_offsets = (np.empty(len(rows) + 1, np.int32) for _ in range(2))
        unknown = lay_out_instances(
            self._block.ids,
            self._drawn.instances,
            rows,
            self._drawn.positions,
            self._drawn.replacements,
            self._special.cls_id,
            self._special.sep_id,
            self._special.unk_id,
            input_ids,
            token_type_ids,
            offsets,
            positions,
            labels,
            prediction_offsets,
        )
        lengths = np.diff(offsets)
        self.counts["unknown_tokens"] += unknown
        self.counts["example_tokens"] += int(lengths.sum())
        bins = (lengths - 1) * HISTOGRAM_BINS // self._max_seq_length
        self.histogram += np.bincount(bins, minlength=HISTOGRAM_BINS)
        end, last = offsets[-1], prediction_offsets[-1]
        lists = {
            "input_ids": (input_ids[:end], offsets),
            "token_type_ids": (token_type_ids[:end], offsets),
            "masked_lm_positions": (positions[:last], prediction_offsets),
            "masked_lm_ids": (labels[:last], prediction_offsets),
        }
        instances = self._drawn.instances[rows]
        columns = {
            name: pa.ListArray.from_arrays(
                pa.array(where), pa.array(values), type=self.schema.field(name).type
            )
            for name, (values, where) in lists.items()
        }
        columns["next_sentence_label"] = pa.array(instances["label"])
        columns["num_tokens"] = pa.array(lengths.astype(np.uint16))
        if self._provenance:
            columns |= self._provenance_of(instances)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self.schema.names], schema=self.schema
        )

    def _provenance_of(self, instances: np.ndarray) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {"dupe_pass": pa.array(instances["dupe_pass"])}
        for side in ("a", "b"):
            documents = instances[f"{side}_document"]
            base = self._block.first_sentence[documents]
            columns[f"{side}_document"] = key_array(
                self._block.low[documents], self._block.high[documents]
            )
            for bound in ("first_sentence", "end_sentence"):
                name = f"{side}_{bound}"
                columns[name] = pa.array((instances[name] - base).astype(np.uint32))
        return columns
