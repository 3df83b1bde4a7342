"""The kinds of rows a block can become: objectives, masks or none, passes apart or together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from schemas.arrow import example_schema
from tests.unit.blocks_of_tokens import (
    CLS,
    IS_SUBWORD,
    MASK,
    SEP,
    SPECIAL,
    VOCAB_SIZE,
    block_of,
    options,
    random_documents,
)
from transforms.examples import ExampleStream

KINDS = [
    {"objective": objective, "masking": masking, "layout": layout, "dupe_mode": dupe_mode}
    for objective in ("nsp", "sop", "mlm")
    for masking, layout, dupe_mode in (
        ("static", "separate", "resegment"),
        ("static", "separate", "remask"),
        ("static", "shared", "remask"),
        ("none", "separate", "resegment"),
    )
]


@pytest.fixture(scope="module")
def block():
    return block_of(random_documents(np.random.default_rng(1), count=60))


def stream_of(block, *, max_seq_length=64, **changes):
    return ExampleStream(
        block,
        options(**changes),
        SPECIAL,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=10,
    )


def rows_of(block, **changes):
    stream = stream_of(block, **changes)
    return pa.Table.from_batches(list(stream), stream.schema).to_pylist(), stream


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))
def test_the_columns_are_those_of_the_schema_and_the_counts_add_up(block, kind):
    rows, stream = rows_of(block, **kind)
    names = {name: kind[name] for name in ("objective", "masking", "layout")}
    assert stream.schema == example_schema(VOCAB_SIZE, provenance=True, **names)
    counts = stream.counts
    assert counts["examples"] == len(rows) == stream.histogram.sum() > 100
    assert counts["example_tokens"] == sum(row["num_tokens"] for row in rows)
    predictions = sum(len(p) for row in rows for p in passes_of(row))
    fates = sum(counts[f"{fate}_tokens"] for fate in ("mask", "random", "kept"))
    assert fates == predictions
    assert (predictions == 0) == (kind["masking"] == "none")
    if kind["objective"] != "mlm":
        assert counts["not_next"] == sum(row["next_sentence_label"] for row in rows)
    for row in rows:
        assert len(row["input_ids"]) == row["num_tokens"]
        assert row["input_ids"][0] == CLS
        assert row["input_ids"][-1] == SEP


def passes_of(row):
    positions = row.get("masked_lm_positions", [])
    return positions if positions and isinstance(positions[0], list) else [positions]


def original(row):
    ids = list(row["input_ids"])
    for position, token in zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True):
        ids[position] = token
    return tuple(ids)


@pytest.mark.parametrize("objective", ["nsp", "sop", "mlm"])
def test_without_masks_the_rows_are_those_with_them_unmasked(block, objective):
    static, _ = rows_of(block, objective=objective)
    none, _ = rows_of(block, objective=objective, masking="none")
    assert [original(row) for row in static] == [tuple(row["input_ids"]) for row in none]
    for row in none:
        unmarked, after_special = 0, True
        for token, mark in zip(row["input_ids"], row["continues_word"], strict=True):
            special = token in (CLS, SEP)
            continues = IS_SUBWORD[token] and not special and not after_special
            assert continues or not mark
            unmarked += continues and not mark
            after_special = special
        # A document that begins inside a row begins a word.
        assert unmarked <= len(row.get("documents", [0])) - 1
    pieces, _ = rows_of(block, objective=objective, masking="none", do_whole_word_mask=False)
    assert not any(any(row["continues_word"]) for row in pieces)


@pytest.mark.parametrize("objective", ["nsp", "sop", "mlm"])
def test_remasked_passes_are_the_first_pass_with_other_masks(block, objective):
    first, _ = rows_of(block, objective=objective, dupe_factor=1)
    rows, stream = rows_of(block, objective=objective, dupe_factor=3, dupe_mode="remask")
    for dupe_pass in range(3):
        mine = [row for row in rows if row["dupe_pass"] == dupe_pass]
        assert sorted(map(original, mine)) == sorted(map(original, first))
        if dupe_pass == 0:
            assert mine == first
    masks = {(original(row), tuple(row["masked_lm_positions"])) for row in rows}
    assert len(masks) > 0.9 * len(rows)
    again, _ = rows_of(block, objective=objective, dupe_factor=3)
    assert len(set(map(original, again))) > 1.5 * len(set(map(original, rows)))
    assert stream.counts["uncovered_tokens"] <= len(block.ids)


@pytest.mark.parametrize("objective", ["nsp", "sop", "mlm"])
def test_shared_rows_hold_what_the_separate_passes_hold(block, objective):
    separate, apart = rows_of(block, objective=objective, dupe_factor=3, dupe_mode="remask")
    shared, together = rows_of(
        block, objective=objective, dupe_factor=3, dupe_mode="remask", layout="shared"
    )
    unfolded = []
    for row in shared:
        for positions, ids in zip(row["masked_lm_positions"], row["replacement_ids"], strict=True):
            masked = list(row["input_ids"])
            for position, token in zip(positions, ids, strict=True):
                masked[position] = token
            unfolded.append((tuple(masked), tuple(positions), tuple(row["input_ids"])))
        assert len(row["masked_lm_positions"]) == 3
    apart_rows = [
        (tuple(r["input_ids"]), tuple(r["masked_lm_positions"]), original(r)) for r in separate
    ]
    assert sorted(unfolded) == sorted(apart_rows)
    for name in ("mask_tokens", "random_tokens", "kept_tokens", "uncovered_tokens"):
        assert apart.counts[name] == together.counts[name]


def test_packed_rows_have_separators_only_where_they_were_asked_for(block):
    plain, _ = rows_of(block, objective="mlm", masking="none")
    assert all(row["input_ids"].count(SEP) == 1 for row in plain)
    separated, _ = rows_of(block, objective="mlm", masking="none", sep_between_documents=True)
    for row in separated:
        assert row["input_ids"].count(SEP) == len(row["documents"])
    assert max(len(row["documents"]) for row in separated) > 1
    alone, _ = rows_of(block, objective="mlm", masking="none", mlm_packing="document")
    assert all(len(row["documents"]) == 1 for row in alone)


def test_word_marks_that_came_with_the_tokens_are_used(block):
    marks = (np.arange(len(block.ids)) % 3 == 1).astype(np.uint8)
    marked = block_of(random_documents(np.random.default_rng(1), count=60))
    object.__setattr__(marked, "continues_word", marks)
    rows, _ = rows_of(
        marked, masking="none", objective="mlm", mlm_packing="document", dupe_factor=1
    )
    found = sum(sum(row["continues_word"]) for row in rows)
    assert 0.9 * marks.sum() < found < marks.sum()
    ngrams, _ = rows_of(marked, dupe_factor=1, mask_per="word")
    assert any(MASK in row["input_ids"] for row in ngrams)
