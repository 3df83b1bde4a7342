"""Checks every invariant of every row of a finished data set; used by tests and benchmarks.

It reads the Parquet files and shares no code with what wrote them but the manifest reader.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit

from schemas.manifest import DataSet, Manifest, load_manifest


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Token ids of a corpus, to look up what provenance says. Offsets as in Arrow lists."""

    index_of: dict[bytes, int]
    ids: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray

    @classmethod
    def of(cls, documents: dict[bytes, list[list[int]]]) -> Corpus:
        """From ``{key: token ids of each sentence}``."""
        sentences = [s for document in documents.values() for s in document if s]
        return cls(
            index_of={key: i for i, key in enumerate(documents)},
            ids=np.array([t for s in sentences for t in s], np.int64),
            sentence_offsets=np.cumsum([0, *map(len, sentences)]),
            document_offsets=np.cumsum([0, *(sum(map(bool, d)) for d in documents.values())]),
        )


@dataclasses.dataclass(frozen=True)
class Rows:
    """One row group as flat arrays; ``restored`` has the original ids back in place."""

    ids: np.ndarray
    offsets: np.ndarray
    types: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    prediction_offsets: np.ndarray
    table: pa.Table

    @classmethod
    def of(cls, table: pa.Table) -> Rows:
        flat = {}
        for name in ("input_ids", "token_type_ids", "masked_lm_positions", "masked_lm_ids"):
            column = table.column(name).combine_chunks()
            column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
            offsets = np.asarray(column.offsets, np.int64)
            flat[name] = (np.asarray(column.flatten()).astype(np.int64), offsets - offsets[0])
        ids, offsets = flat["input_ids"]
        assert (flat["token_type_ids"][1] == offsets).all()
        assert (flat["masked_lm_ids"][1] == flat["masked_lm_positions"][1]).all()
        return cls(
            ids=ids,
            offsets=offsets,
            types=flat["token_type_ids"][0],
            positions=flat["masked_lm_positions"][0],
            labels=flat["masked_lm_ids"][0],
            prediction_offsets=flat["masked_lm_positions"][1],
            table=table,
        )

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def row_of_prediction(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.lengths)), np.diff(self.prediction_offsets))

    @property
    def masked_at(self) -> np.ndarray:
        """Where the predictions are in the flat ids."""
        return self.offsets[self.row_of_prediction] + self.positions

    @property
    def restored(self) -> np.ndarray:
        out = self.ids.copy()
        out[self.masked_at] = self.labels
        return out


def check_data_set(directory: Path, *, corpus: Corpus | None = None) -> Counter[str]:
    """Asserts that everything in ``directory`` is as promised; returns what was counted."""
    manifest = load_manifest(directory)
    seen: Counter[str] = Counter()
    rows_seen: set[bytes] = set()
    for data_set in manifest.data_sets:
        examples = 0
        histogram = np.zeros(16, np.int64)
        counted: Counter[str] = Counter()
        for shard in data_set.shards:
            path = directory / shard.path
            assert path.stat().st_size == shard.bytes, shard.path
            assert hashlib.sha256(path.read_bytes()).hexdigest() == shard.sha256, shard.path
            file = pq.ParquetFile(path)
            assert file.metadata.num_rows == shard.rows, shard.path
            for group in range(file.num_row_groups):
                rows = Rows.of(file.read_row_group(group))
                counted += _check_rows(rows, manifest, data_set)
                if corpus is not None:
                    _check_provenance(rows, corpus)
                bins = (rows.lengths - 1) * 16 // data_set.max_seq_length
                histogram += np.bincount(bins, minlength=16)
                rows_seen.update(_digests(rows))
            examples += shard.rows
        assert examples == data_set.examples
        assert histogram.tolist() == list(data_set.num_tokens_histogram)
        _check_rates(data_set, counted)
        seen += counted
    assert sum(d.examples for d in manifest.data_sets) == manifest.counts.examples
    seen["distinct_rows"] = len(rows_seen)
    return seen


def _check_rows(rows: Rows, manifest: Manifest, data_set: DataSet) -> Counter[str]:
    config, tokenizer = manifest.configuration, manifest.tokenizer
    restored, offsets, lengths = rows.restored, rows.offsets, rows.lengths
    n = len(lengths)
    assert (np.asarray(rows.table.column("num_tokens")) == lengths).all()
    assert lengths.min() >= 5
    assert lengths.max() <= data_set.max_seq_length
    assert restored.max() < tokenizer.vocab_size

    # [CLS] A [SEP] B [SEP], with nothing special inside A and B, and neither of them empty.
    specials = np.isin(
        restored, [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.mask_id]
    )
    assert (np.add.reduceat(specials, offsets[:-1]) == 3).all()
    assert (restored[offsets[:-1]] == tokenizer.cls_id).all()
    assert (restored[offsets[1:] - 1] == tokenizer.sep_id).all()
    steps = np.diff(rows.types, prepend=0)
    steps[offsets[:-1]] = rows.types[offsets[:-1]]
    first_of_b = np.flatnonzero(steps)
    assert (steps[first_of_b] == 1).all()
    assert len(first_of_b) == n
    assert (first_of_b > offsets[:-1] + 2).all()
    assert (first_of_b < offsets[1:] - 1).all()
    assert (restored[first_of_b - 1] == tokenizer.sep_id).all()

    # Predictions: ascending, distinct, never special, as many as asked for.
    gaps = np.diff(rows.positions)
    same_row = np.diff(rows.row_of_prediction) == 0
    assert (gaps[same_row] > 0).all()
    assert not specials[rows.masked_at].any()
    wanted = np.rint(lengths * config["masked_lm_prob"]).astype(np.int64)
    wanted = np.minimum(data_set.max_predictions_per_seq, np.maximum(1, wanted))
    predictions = np.diff(rows.prediction_offsets)
    if config["do_whole_word_mask"]:
        assert (predictions <= wanted).all()
        _check_whole_words(rows, specials, manifest)
    else:
        assert (predictions == np.minimum(wanted, lengths - 3)).all()
    unmasked = np.ones(len(restored), bool)
    unmasked[rows.masked_at] = False
    assert (rows.ids[unmasked] == restored[unmasked]).all()

    labels = np.asarray(rows.table.column("next_sentence_label"))
    assert np.isin(labels, [0, 1]).all()
    now = rows.ids[rows.masked_at]
    is_mask = now == tokenizer.mask_id
    kept = now == rows.labels
    if config["random_tokens"] == "regular":
        random = now[~is_mask & ~kept]
        forbidden = [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.unk_id]
        assert not np.isin(random, forbidden).any()
    return Counter(
        rows=n,
        tokens=len(restored),
        predictions=len(now),
        mask_token=int(is_mask.sum()),
        kept_token=int(kept.sum()),
        not_next=int((labels == 1).sum()),
        unknown=int((restored == tokenizer.unk_id).sum()),
    )


#: bool[vocabulary], by the digest of the tokenizer; set by the test that knows the vocabulary.
SUBWORDS: dict[str, np.ndarray] = {}


def _check_whole_words(rows: Rows, specials: np.ndarray, manifest: Manifest) -> None:
    joins = SUBWORDS[manifest.tokenizer.digest][rows.restored]
    after_special = np.concatenate([[True], specials[:-1]])
    word = np.cumsum(~joins | specials | after_special) - 1
    masked = np.zeros(len(joins), np.int64)
    masked[rows.masked_at] = 1
    in_word = np.bincount(word)
    masked_in_word = np.bincount(word, weights=masked).astype(np.int64)
    assert ((masked_in_word == 0) | (masked_in_word == in_word)).all()


def _check_rates(data_set: DataSet, counted: Counter[str]) -> None:
    rates = data_set.rates
    if not counted["rows"]:
        assert rates.mean_num_tokens is None
        return

    def close(rate: float | None, part: int, whole: int) -> bool:
        return rate is not None and abs(rate - part / whole) < 1e-12

    assert close(rates.mean_num_tokens, counted["tokens"], counted["rows"])
    assert close(rates.not_next, counted["not_next"], counted["rows"])
    assert close(rates.masked, counted["predictions"], counted["tokens"])
    assert close(rates.mask_token, counted["mask_token"], counted["predictions"])
    assert close(rates.unknown, counted["unknown"], counted["tokens"])
    # A random draw may be the token itself: that is not told from a kept one.
    assert rates.kept_token is not None
    assert 0 <= counted["kept_token"] / counted["predictions"] - rates.kept_token < 0.002


def _digests(rows: Rows) -> list[bytes]:
    """A digest of what each row holds, to find rows that are there twice."""
    ids = rows.ids.astype("<u4")
    return [
        hashlib.blake2b(
            ids[rows.offsets[r] : rows.offsets[r + 1]].tobytes()
            + rows.positions[rows.prediction_offsets[r] : rows.prediction_offsets[r + 1]].tobytes(),
            digest_size=12,
        ).digest()
        for r in range(len(rows.lengths))
    ]


def _check_provenance(rows: Rows, corpus: Corpus) -> None:
    """A and B are, but for truncation at the ends, the sentences that provenance names."""
    table = rows.table
    labels = np.asarray(table.column("next_sentence_label"))
    documents = {}
    spans = {}
    for side in ("a", "b"):
        keys = table.column(f"{side}_document").to_pylist()
        documents[side] = np.array([corpus.index_of[key] for key in keys])
        base = corpus.document_offsets[documents[side]]
        first = np.asarray(table.column(f"{side}_first_sentence")).astype(np.int64) + base
        end = np.asarray(table.column(f"{side}_end_sentence")).astype(np.int64) + base
        assert (first < end).all()
        assert (end <= corpus.document_offsets[documents[side] + 1]).all()
        spans[side] = first, end
    is_next = labels == 0
    assert (documents["a"][is_next] == documents["b"][is_next]).all()
    assert (spans["a"][1][is_next] == spans["b"][0][is_next]).all()
    assert (documents["a"][~is_next] != documents["b"][~is_next]).all()
    for side, wanted in (("a", 0), ("b", 1)):
        found = _find_segments(
            rows.restored,
            rows.offsets,
            rows.types,
            wanted,
            *spans[side],
            corpus.ids,
            corpus.sentence_offsets,
        )
        assert found.all(), f"segment {side} of row {int(np.argmin(found))} is not its sentences"


@njit(cache=False)
def _find_segments(ids, offsets, types, side, first, end, corpus_ids, sentence_offsets):
    found = np.zeros(len(first), np.bool_)
    for r in range(len(first)):
        start = offsets[r]
        stop = offsets[r + 1]
        while types[start] != side:
            start += 1
        if side == 0:
            start += 1
        last = start
        while last + 1 < stop and types[last + 1] == side:
            last += 1
        size = last - start
        span = sentence_offsets[first[r]]
        for at in range(span, sentence_offsets[end[r]] - size + 1):
            same = True
            for k in range(size):
                if corpus_ids[at + k] != ids[start + k]:
                    same = False
                    break
            if same:
                found[r] = True
                break
    return found
