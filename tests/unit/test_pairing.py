"""Properties of the planned pairs, over random blocks."""

import numpy as np
import pytest

from tests.unit.blocks_of_tokens import SPECIAL, block_of, options, random_documents
from transforms.examples import ExampleStream
from transforms.pairing import PairCounts, plan_pairs
from transforms.randomness import document_seeds
from transforms.token_blocks import covered_tokens


def plan(
    block, *, seed=12345, dupe_factor=2, max_seq_length=128, short_seq_prob=0.1, not_next_share=0.5
):
    return plan_pairs(
        block.sentence_offsets,
        block.first_sentence,
        block.end_sentence,
        *block.copies(),
        document_seeds(seed, block.low, block.high),
        dupe_factor,
        max_seq_length,
        short_seq_prob,
        not_next_share,
    )


@pytest.fixture(scope="module")
def block():
    return block_of(random_documents(np.random.default_rng(1), count=400))


@pytest.mark.parametrize("max_seq_length", [8, 64, 128, 512])
def test_every_pair_keeps_the_rules(block, max_seq_length):
    pairs, counts = plan(block, max_seq_length=max_seq_length)
    a, b = pairs["a_end"] - pairs["a_start"], pairs["b_end"] - pairs["b_start"]
    assert (a >= 1).all()
    assert (b >= 1).all()
    assert (a + b <= max_seq_length - 3).all()
    next_ = pairs["label"] == 0
    assert (pairs["a_document"][next_] == pairs["b_document"][next_]).all()
    assert (pairs["a_end_sentence"][next_] == pairs["b_first_sentence"][next_]).all()
    assert (pairs["a_document"][~next_] != pairs["b_document"][~next_]).all()
    assert counts[PairCounts.NOT_NEXT] == (~next_).sum()
    for side in "ab":
        document = pairs[f"{side}_document"]
        first, end = pairs[f"{side}_first_sentence"], pairs[f"{side}_end_sentence"]
        assert (block.first_sentence[document] <= first).all()
        assert (first < end).all()
        assert (end <= block.end_sentence[document]).all()
        assert (pairs[f"{side}_start"] >= block.sentence_offsets[first]).all()
        assert (pairs[f"{side}_end"] <= block.sentence_offsets[end]).all()


def test_segment_a_walks_through_the_whole_document(block):
    pairs, _ = plan(block, dupe_factor=1)
    for d in range(len(block.low)):
        mine = pairs[pairs["a_document"] == d]
        # Each chunk starts where the one before ended: after A where B was random, else after B.
        resume = np.where(mine["label"] == 1, mine["a_end_sentence"], mine["b_end_sentence"])
        starts = np.append(mine["a_first_sentence"], block.end_sentence[d])
        assert starts[0] == block.first_sentence[d]
        assert (starts[1:] == resume).all()


def test_without_truncation_pairs_are_whole_sentences(block):
    pairs, _ = plan(block, max_seq_length=32000, short_seq_prob=0.0)
    for side in "ab":
        first, end = pairs[f"{side}_first_sentence"], pairs[f"{side}_end_sentence"]
        assert (pairs[f"{side}_start"] == block.sentence_offsets[first]).all()
        assert (pairs[f"{side}_end"] == block.sentence_offsets[end]).all()


def test_not_next_is_half_though_single_segments_cannot_be_next():
    rng = np.random.default_rng(2)
    documents = random_documents(rng, count=2000, sentences=20, tokens=100)
    pairs, counts = plan(block_of(documents), dupe_factor=5)
    assert counts[PairCounts.SINGLE_SEGMENT_NOT_NEXT] > 0.1 * len(pairs)
    assert abs((pairs["label"] == 1).mean() - 0.5) < 0.002


@pytest.mark.parametrize("share", [0.0, 0.2, 0.8, 1.0])
def test_the_share_of_not_next_is_what_was_asked_for(share):
    block = block_of(random_documents(np.random.default_rng(2), count=2000, sentences=20))
    pairs, counts = plan(block, dupe_factor=5, not_next_share=share)
    floor = counts[PairCounts.SINGLE_SEGMENT_NOT_NEXT] / len(pairs)
    assert 0 < floor < 0.3
    assert abs((pairs["label"] == 1).mean() - max(share, floor)) < 0.002


def test_other_documents_are_drawn_evenly(block):
    pairs, _ = plan(block, dupe_factor=60)
    drawn = np.bincount(pairs["b_document"][pairs["label"] == 1], minlength=400)
    expected = drawn.sum() / 400
    # Chi-squared with 399 degrees of freedom: 28.2 is its standard deviation.
    assert ((drawn - expected) ** 2 / expected).sum() < 399 + 5 * 28.2


def test_every_pass_and_copy_and_seed_draws_again(block):
    pairs, _ = plan(block, dupe_factor=2)
    spans = [
        set(zip(*(p[f].tolist() for f in ("a_start", "a_end", "b_start", "b_end")), strict=True))
        for p in (pairs[pairs["dupe_pass"] == 0], pairs[pairs["dupe_pass"] == 1])
    ]
    assert len(spans[0] & spans[1]) < 0.05 * len(spans[0])
    assert len(set(pairs["mask_seed"].tolist())) == len(pairs)
    assert len(set(pairs["shuffle_key"].tolist())) == len(pairs)
    other, _ = plan(block, seed=1)
    assert not set(other["mask_seed"].tolist()) & set(pairs["mask_seed"].tolist())


def test_first_pass_is_the_same_however_many_follow(block):
    one, _ = plan(block, dupe_factor=1)
    three, _ = plan(block, dupe_factor=3)
    assert (three[: len(one)] == one).all()


def test_a_copy_is_never_the_other_document():
    rng = np.random.default_rng(3)
    original, another = random_documents(rng, count=2, sentences=20)
    block = block_of([original] * 20 + [another])
    pairs, _ = plan(block, dupe_factor=20)
    keys = np.stack([block.low, block.high], axis=1)
    not_next = pairs["label"] == 1
    same = (keys[pairs["a_document"]] == keys[pairs["b_document"]]).all(axis=1)
    assert not same[not_next].any()
    assert not_next.any()


def test_one_document_alone_gives_next_pairs_only():
    document = random_documents(np.random.default_rng(4), count=1, sentences=40)
    for documents in (document, document * 3):
        pairs, counts = plan(block_of(documents), dupe_factor=20)
        assert len(pairs) > 0
        assert (pairs["label"] == 0).all()
        assert counts[PairCounts.NOT_NEXT] == 0
    pairs, counts = plan(block_of([[[7, 8, 9]]]), dupe_factor=3)
    assert len(pairs) == 0
    assert counts[PairCounts.WITHOUT_PARTNER] == 3


def test_no_documents_give_no_pairs():
    pairs, counts = plan(block_of([]))
    assert len(pairs) == 0
    assert counts.sum() == 0
    pairs, _ = plan(block_of([[], []]))
    assert len(pairs) == 0


def test_short_sequences_come_by_document_and_pass(block):
    pairs, _ = plan(block, dupe_factor=50)
    by_pass = pairs["a_document"].astype(np.int64) * 50 + pairs["dupe_pass"]
    first = np.unique(by_pass, return_index=True)[1]
    share = pairs["short"][first].mean()
    assert abs(share - 0.1) < 4 * (0.1 * 0.9 / len(first)) ** 0.5
    for _, short in zip(*_groups(by_pass, pairs["short"]), strict=True):
        assert short.min() == short.max()
    never, _ = plan(block, short_seq_prob=0.0)
    assert not never["short"].any()


def _groups(keys, values):
    order = np.argsort(keys, kind="stable")
    ids, starts = np.unique(keys[order], return_index=True)
    return ids, np.split(values[order], starts[1:])


def test_coverage_counts_each_token_once(block):
    pairs, _ = plan(block, dupe_factor=3)
    seen = np.zeros(len(block.ids), bool)
    for p in pairs:
        seen[p["a_start"] : p["a_end"]] = True
        seen[p["b_start"] : p["b_end"]] = True
    bounds = (pairs[name] for name in ("a_start", "a_end", "b_start", "b_end"))
    assert covered_tokens(*bounds, len(block.ids)) == seen.sum()
    assert seen.mean() > 0.95


def test_the_order_of_delivery_makes_no_difference():
    documents = random_documents(np.random.default_rng(5), count=60)
    documents += [*documents[:5], []]
    streams = []
    for order in (range(66), np.random.default_rng(6).permutation(66)):
        block = block_of([documents[i] for i in order])
        stream = ExampleStream(
            block, options(), SPECIAL, max_seq_length=64, max_predictions_per_seq=10
        )
        streams.append([batch.to_pydict() for batch in stream])
    assert streams[0] == streams[1]
    assert len(streams[0][0]["input_ids"]) > 500
