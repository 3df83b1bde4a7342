"""Writes small data sets of every kind, row by row and without the pipeline, for tests of readers."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.arrow import example_schema
from schemas.manifest import LABEL_CONVENTIONS, MANIFEST_FILE, Manifest, Shard
from tests.builds import VOCAB
from tests.unit.test_manifest_reader import make_data_set, make_manifest
from transforms.vocabulary import Vocabulary, load_tokenizer

ROWS = (70, 0, 33)
PASSES = 3

#: Objective, masking, layout: all that there are.
KINDS = [
    (objective, masking, layout)
    for objective in ("nsp", "sop", "mlm")
    for masking, layout in (("static", "separate"), ("static", "shared"), ("none", "separate"))
]


@dataclasses.dataclass(frozen=True)
class SmallDataSet:
    """What was written: ``rows`` in order with the text's own ids, ``masks[row][pass]`` beside them."""

    directory: Path
    manifest: Manifest
    vocabulary: Vocabulary
    rows: list[dict[str, Any]]
    #: Position to what stands there, for each row and pass; empty with masking none.
    masks: list[list[dict[int, int]]]


def write_data_set(
    directory: Path,
    *,
    objective: str = "nsp",
    masking: str = "static",
    layout: str = "separate",
    rows: tuple[int, ...] = ROWS,
    split: str = "train",
    max_seq_length: int = 64,
    row_group_rows: int = 8,
    **settings: Any,
) -> SmallDataSet:
    """Writes it; ``settings`` are those of ``BuildConfig`` that the manifest is to have."""
    vocabulary = load_tokenizer(str(VOCAB), do_lower_case=None)
    kind: dict[str, Any] = {"objective": objective, "masking": masking, "layout": layout}
    whole_words = settings.get("do_whole_word_mask", False)
    originals = [
        make_row(n, vocabulary, objective=objective, longest=max_seq_length, whole=whole_words)
        for n in range(sum(rows))
    ]
    passes = {"static": PASSES if layout == "shared" else 1, "none": 0}[masking]
    masks = [
        [make_mask(row, n * PASSES + p, vocabulary) for p in range(passes)]
        for n, row in enumerate(originals)
    ]
    folder = directory / f"seq{max_seq_length}"
    folder.mkdir(parents=True)
    schema = example_schema(vocabulary.vocab_size, provenance=False, **kind)
    stored = iter([as_stored(*each, schema=schema) for each in zip(originals, masks, strict=True)])
    shards = []
    for i, n in enumerate(rows):
        path = folder / f"{split}-{i:05d}-of-{len(rows):05d}.parquet"
        table = pa.Table.from_pylist([next(stored) for _ in range(n)], schema=schema)
        pq.write_table(table, path, row_group_size=row_group_rows)
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        name = str(path.relative_to(directory))
        shards.append(Shard(path=name, rows=n, bytes=len(content), sha256=digest))
    (directory / "tokenizer.json").write_text(vocabulary.tokenizer_json)
    data_set = make_data_set(tuple(shards), max_seq_length=max_seq_length, split=split)
    special = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id", "digest", "vocab_size")
    manifest = make_manifest(
        (dataclasses.replace(data_set, max_predictions_per_seq=9),),
        tokenizer={name: getattr(vocabulary, name) for name in special},
    )
    configuration = {**manifest.configuration, **kind, "dupe_factor": PASSES, **settings}
    manifest = dataclasses.replace(
        manifest,
        configuration=configuration,
        label_convention=LABEL_CONVENTIONS[objective],
        **kind,
    )
    (directory / MANIFEST_FILE).write_text(manifest.to_json())
    return SmallDataSet(directory, manifest, vocabulary, originals, masks)


def make_row(
    number: int, vocabulary: Vocabulary, *, objective: str, longest: int, whole: bool
) -> dict[str, Any]:
    """[CLS] A [SEP] B [SEP], or without B, of words of up to four pieces; no two are the same."""
    draw = np.random.default_rng(number)
    regular = vocabulary.regular_ids
    pieces = regular[vocabulary.is_subword[regular]]
    words = regular[~vocabulary.is_subword[regular]]
    ids, types, continues = [vocabulary.cls_id], [0], [False]
    for segment in range(1 if objective == "mlm" else 2):
        size = int(draw.integers(3, longest // 2 - 2))
        # A segment may begin in the middle of a word.
        joins = draw.random(size) < 0.4
        ids += np.where(joins, draw.choice(pieces, size), draw.choice(words, size)).tolist()
        ids.append(vocabulary.sep_id)
        types += [segment] * (size + 1)
        joins[0] = False
        continues += [*(joins & whole).tolist(), False]
    return {
        "input_ids": ids,
        "token_type_ids": types,
        "continues_word": continues,
        "next_sentence_label": number % 2,
        "num_tokens": len(ids),
    }


def make_mask(row: dict[str, Any], seed: int, vocabulary: Vocabulary) -> dict[int, int]:
    """Position to what is to stand there; different numbers of them."""
    draw = np.random.default_rng([seed, 1])
    special = [vocabulary.cls_id, vocabulary.sep_id]
    free = [k for k, token in enumerate(row["input_ids"]) if token not in special]
    chosen = sorted(draw.choice(free, min(len(free), 1 + seed % 9), replace=False).tolist())
    return {k: int(draw.choice([vocabulary.mask_id, 200 + seed % 1000])) for k in chosen}


def masked(row: dict[str, Any], mask: dict[int, int]) -> list[int]:
    """The row's ids with the mask in place."""
    return [mask.get(k, token) for k, token in enumerate(row["input_ids"])]


def as_stored(
    row: dict[str, Any], masks: list[dict[int, int]], *, schema: pa.Schema
) -> dict[str, Any]:
    """The columns of the schema."""
    columns = dict(row)
    if "replacement_ids" in schema.names:
        columns["masked_lm_positions"] = [list(mask) for mask in masks]
        columns["replacement_ids"] = [list(mask.values()) for mask in masks]
    elif "masked_lm_ids" in schema.names:
        columns["masked_lm_positions"] = list(masks[0])
        columns["masked_lm_ids"] = [row["input_ids"][k] for k in masks[0]]
        columns["input_ids"] = masked(row, masks[0])
    return {name: columns[name] for name in schema.names}
