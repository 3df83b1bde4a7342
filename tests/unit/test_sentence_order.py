"""Properties of the sentence order pairs, over random blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.blocks_of_tokens import block_of, random_documents
from transforms.pairing import PairCounts
from transforms.randomness import document_seeds
from transforms.sentence_order import plan_ordered_pairs


def plan(block, *, max_seq_length=128, dupe_factor=2, short=0.1, swapped=0.5, split=True):
    return plan_ordered_pairs(
        block.sentence_offsets,
        block.first_sentence,
        block.end_sentence,
        document_seeds(12345, block.low, block.high),
        dupe_factor,
        max_seq_length,
        short,
        swapped,
        split,
    )


@pytest.fixture(scope="module")
def block():
    return block_of(random_documents(np.random.default_rng(1), count=400))


def earlier_and_later(pairs):
    """The columns of the part that comes first in the text, and of the other."""
    swapped = pairs["label"] == 1
    names = ("start", "end", "first_sentence", "end_sentence")
    a, b = ({n: pairs[f"{side}_{n}"] for n in names} for side in "ab")
    return (
        {n: np.where(swapped, b[n], a[n]) for n in names},
        {n: np.where(swapped, a[n], b[n]) for n in names},
    )


@pytest.mark.parametrize("max_seq_length", [8, 64, 128, 512])
def test_both_parts_are_neighbours_in_one_document(block, max_seq_length):
    pairs, counts = plan(block, max_seq_length=max_seq_length)
    assert (pairs["a_document"] == pairs["b_document"]).all()
    first, second = earlier_and_later(pairs)
    single = first["first_sentence"] == second["first_sentence"]
    assert counts[PairCounts.SPLIT_SEGMENT] == single.sum() > 0
    assert (first["end_sentence"] == second["first_sentence"])[~single].all()
    assert (first["end"] <= second["start"]).all()
    for part in (first, second):
        assert (part["start"] < part["end"]).all()
        assert (block.sentence_offsets[part["first_sentence"]] <= part["start"]).all()
        assert (part["end"] <= block.sentence_offsets[part["end_sentence"]]).all()
        assert (part["first_sentence"] >= block.first_sentence[pairs["a_document"]]).all()
        assert (part["end_sentence"] <= block.end_sentence[pairs["a_document"]]).all()
    lengths = sum(part["end"] - part["start"] for part in (first, second))
    assert (lengths <= max_seq_length - 3).all()


def test_nothing_is_left_out_where_nothing_is_truncated(block):
    pairs, _ = plan(block, dupe_factor=1, max_seq_length=32_000, short=0.0)
    seen = np.zeros(len(block.ids), int)
    for p in pairs:
        seen[p["a_start"] : p["a_end"]] += 1
        seen[p["b_start"] : p["b_end"]] += 1
    short = {d for d in range(400) if _tokens(block, d) == 1}
    for d in range(400):
        first, end = block.first_sentence[d], block.end_sentence[d]
        span = slice(block.sentence_offsets[first], block.sentence_offsets[end])
        assert (seen[span] == (0 if d in short else 1)).all()


def _tokens(block, d):
    ends = block.sentence_offsets[[block.first_sentence[d], block.end_sentence[d]]]
    return ends[1] - ends[0]


def test_a_chunk_of_one_sentence_is_cut_or_dropped(block):
    cut, cut_counts = plan(block)
    dropped, counts = plan(block, split=False)
    assert counts[PairCounts.SPLIT_SEGMENT] == 0
    assert counts[PairCounts.WITHOUT_PARTNER] > cut_counts[PairCounts.WITHOUT_PARTNER]
    first, second = earlier_and_later(dropped)
    assert (first["first_sentence"] < second["first_sentence"]).all()
    assert len(cut) > len(dropped) > 0
    lone, lone_counts = plan(block_of([[[7]], [[8, 9]]]), dupe_factor=10)
    assert lone_counts[PairCounts.WITHOUT_PARTNER] == 10
    assert len(lone) == lone_counts[PairCounts.SPLIT_SEGMENT] == 10


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_the_share_of_swapped_pairs(block, share):
    pairs, counts = plan(block, dupe_factor=20, swapped=share)
    swapped = (pairs["label"] == 1).mean()
    assert counts[PairCounts.NOT_NEXT] == (pairs["label"] == 1).sum()
    assert abs(swapped - share) <= 4 * (share * (1 - share) / len(pairs)) ** 0.5


def test_every_pass_draws_again_and_the_first_is_the_same(block):
    one, _ = plan(block, dupe_factor=1)
    three, _ = plan(block, dupe_factor=3)
    assert (three[: len(one)] == one).all()
    second = three[three["dupe_pass"] == 1]
    spans = [
        set(zip(p["a_start"].tolist(), p["b_start"].tolist(), strict=True)) for p in (one, second)
    ]
    assert len(spans[0] & spans[1]) < 0.3 * len(one)
    assert len(set(three["mask_seed"].tolist())) == len(three)
