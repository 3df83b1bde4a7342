"""Properties of the packed rows, over random blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.unit.blocks_of_tokens import block_of, random_documents
from transforms.packing import document_order, pack_rows
from transforms.randomness import document_seeds


def plan(block, *, length=128, dupe_factor=2, short=0.0, document=False, sep=False, drop=False):
    seeds = document_seeds(12345, block.low, block.high)
    where = block.sentence_offsets, block.first_sentence, block.end_sentence
    packs, parts = pack_rows(*where, seeds, dupe_factor, length, short, document, sep, drop)
    return packs, parts, seeds


@pytest.fixture(scope="module")
def block():
    return block_of(random_documents(np.random.default_rng(1), count=300))


def parts_of(packs, parts, *, dupe_pass):
    """The parts of each row of a pass, in the order of planning."""
    return [parts[p["first_part"] : p["end_part"]] for p in packs[packs["dupe_pass"] == dupe_pass]]


def tokens_of(rows):
    return [int((row["end"] - row["start"]).sum()) for row in rows]


@pytest.mark.parametrize("length", [8, 64, 512])
@pytest.mark.parametrize("document", [False, True])
def test_a_pass_is_the_whole_text_in_an_order_of_its_own(block, length, document):
    packs, parts, seeds = plan(block, length=length, document=document, dupe_factor=3)
    orders = []
    for dupe_pass in range(3):
        order = document_order(seeds, dupe_pass)
        orders.append(order.tolist())
        expected = np.concatenate([block.ids[slice(*_span(block, d))] for d in order])
        rows = parts_of(packs, parts, dupe_pass=dupe_pass)
        found = [block.ids[part["start"] : part["end"]] for row in rows for part in row]
        assert (np.concatenate(found) == expected).all()
    assert sorted(orders[0]) == list(range(300))
    assert orders[0] != orders[1] != orders[2]


def _span(block, d):
    return block.sentence_offsets[[block.first_sentence[d], block.end_sentence[d]]]


def test_full_rows_are_full_but_for_the_first_and_the_last(block):
    packs, parts, _ = plan(block)
    first, second = (parts_of(packs, parts, dupe_pass=i) for i in range(2))
    assert set(tokens_of(first)[:-1]) == {126}
    assert set(tokens_of(second)[1:-1]) == {126}
    cuts = [{int(row[0]["start"]) for row in rows} for rows in (first, second)]
    assert len(cuts[0] & cuts[1]) < 0.1 * len(first)


def test_rows_by_document_hold_one_document(block):
    packs, parts, _ = plan(block, document=True)
    assert (packs["end_part"] - packs["first_part"] == 1).all()
    assert (parts[packs["first_part"]]["document"] == packs["document"]).all()
    for d in range(300):
        rows = parts_of(packs[packs["document"] == d], parts, dupe_pass=0)
        assert set(tokens_of(rows)[:-1]) <= {126}


@pytest.mark.parametrize("document", [False, True])
def test_dropping_rows_that_are_not_full(block, document):
    kept, kept_parts, _ = plan(block, document=document)
    packs, parts, _ = plan(block, document=document, drop=True)
    for dupe_pass in range(2):
        rows = parts_of(packs, parts, dupe_pass=dupe_pass)
        assert set(tokens_of(rows)) == {126}
        full = [n for n in tokens_of(parts_of(kept, kept_parts, dupe_pass=dupe_pass)) if n == 126]
        assert len(rows) == len(full)


def test_dropping_rows_that_a_separator_fills():
    """A first row that is cut short and then has room for [SEP] alone is not full either."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        block = block_of(random_documents(rng, count=20, sentences=1, tokens=6))
        packs, parts, _ = plan(block, length=16, dupe_factor=3, sep=True, drop=True)
        for dupe_pass in range(3):
            rows = parts_of(packs, parts, dupe_pass=dupe_pass)
            lengths = [n + len(row) - 1 for n, row in zip(tokens_of(rows), rows, strict=True)]
            assert set(lengths) <= {13, 14}


def test_a_separator_takes_its_room(block):
    packs, parts, _ = plan(block, sep=True, length=64)
    for dupe_pass in range(2):
        rows = parts_of(packs, parts, dupe_pass=dupe_pass)
        lengths = [n + len(row) - 1 for n, row in zip(tokens_of(rows), rows, strict=True)]
        # One less where a document ended just before the last place.
        assert set(lengths[1:-1]) == {62, 61}
        assert lengths.count(61) < 0.1 * len(lengths)
        for row, after in itertools.pairwise(rows):
            if (row["end"] - row["start"]).sum() + len(row) - 1 == 61:
                assert after[0]["document"] != row[-1]["document"]


def test_short_rows_are_as_many_as_asked_for(block):
    packs, parts, _ = plan(block, short=0.3, dupe_factor=10, length=32)
    expected = 0.3 * 29 / 30  # a random length may be the full one
    assert abs(packs["short"].mean() - expected) < 4 * (0.21 / len(packs)) ** 0.5
    lengths = np.array(tokens_of([parts[p["first_part"] : p["end_part"]] for p in packs]))
    assert set(lengths[packs["short"] == 1].tolist()) == set(range(1, 30))
    assert (lengths[packs["short"] == 0] == 30).mean() > 0.95


def test_parts_are_inside_the_sentences_they_name(block):
    packs, parts, _ = plan(block, length=16, sep=True, dupe_factor=3)
    offsets = block.sentence_offsets
    assert (offsets[parts["first_sentence"]] <= parts["start"]).all()
    assert (parts["start"] < offsets[parts["first_sentence"] + 1]).all()
    assert (offsets[parts["end_sentence"] - 1] < parts["end"]).all()
    assert (parts["end"] <= offsets[parts["end_sentence"]]).all()
    assert (block.first_sentence[parts["document"]] <= parts["first_sentence"]).all()
    assert (parts["end_sentence"] <= block.end_sentence[parts["document"]]).all()
    assert len(set(packs["mask_seed"].tolist())) == len(packs)
    assert len(set(packs["shuffle_key"].tolist())) == len(packs)


def test_the_first_pass_is_the_same_however_many_follow(block):
    one, one_parts, _ = plan(block, dupe_factor=1)
    three, three_parts, _ = plan(block, dupe_factor=3)
    assert (three[: len(one)] == one).all()
    assert (three_parts[: len(one_parts)] == one_parts).all()


def test_no_documents_give_no_rows():
    packs, parts, _ = plan(block_of([]))
    assert len(packs) == len(parts) == 0
