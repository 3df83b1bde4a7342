"""The audit's parts without a build: intervals, blocks, segments that fit at several places."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.check_shares import wilson
from schemas.arrow import token_batch
from transforms.audit_block import CorpusBlock, Coverage, find_documents
from transforms.audit_columns import halves
from transforms.audit_pairs import note_part


def test_wilson_is_the_interval_of_the_textbook():
    # Brown, Cai, DasGupta 2001: for 0 of 10 the upper end is z^2 / (n + z^2).
    assert wilson(0, 10) == pytest.approx((0, 1.959964**2 / (10 + 1.959964**2)))
    assert wilson(50, 100) == pytest.approx((0.40383, 0.59617), abs=1e-5)
    assert wilson(0, 0) == (0, 1)


@given(st.integers(1, 10**9), st.floats(0, 1))
def test_wilson_holds_the_share_and_narrows(n, share):
    part = round(n * share)
    low, high = wilson(part, n)
    assert 0 <= low <= part / n + 1e-12
    assert part / n - 1e-12 <= high <= 1
    assert high - low <= 2 * 1.96 / (2 * math.sqrt(n)) + 1e-9


def block_of(documents: list[tuple[bytes, list[list[int]]]]) -> CorpusBlock:
    schema = token_batch(100)
    columns = [[key for key, _ in documents], [sentences for _, sentences in documents]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    half = len(documents) // 2
    batch = pa.record_batch(arrays, schema=schema)
    return CorpusBlock.of([batch.slice(half), batch.slice(0, half)], schema)


def test_a_block_is_sorted_and_knows_its_copies():
    a, b, c, empty = (bytes([i]) * 16 for i in (9, 5, 7, 1))
    block = block_of(
        [(a, [[1, 2], [3]]), (b, [[4]]), (c, [[5]]), (empty, []), (b, [[4]]), (c, [[5], [6]])]
    )
    assert block.first_copy.tolist() == [0, 0, 2, 2, 4]
    assert block.end_copy.tolist() == [2, 2, 4, 4, 5]
    assert block.alike.tolist() == [True, True, False, False, True]
    assert block.counts(6) == {
        "documents": 6,
        "duplicate_documents": 2,
        "documents_without_tokens": 1,
        "one_sentence_documents": 3,
        "sentences": 7,
        "tokens": 8,
        "unknown_tokens": 1,
    }
    keys = pa.array([a, bytes(16), c, b, b"\xff" * 16], pa.binary(16))
    found = find_documents(block, *halves(keys))
    assert found.tolist() == [4, -1, 2, 0, -1]
    assert block.key(4) == a.hex()


def test_an_empty_block():
    block = block_of([])
    assert not len(block.low)
    assert Coverage.of(block, passes=2, pairs=True).covered(block) == (0, 0)


def test_what_fits_at_several_places_covers_between_least_and_most():
    key = b"k" * 16
    block = block_of([(key, [[1, 1, 1, 1, 2]]), (key, [[1, 1, 1, 1, 2]])])
    coverage = Coverage.of(block, passes=1, pairs=True)
    note_part(coverage.least, coverage.most, 0, 1, 3)  # 1 1 1: from 0 or from 1
    assert coverage.covered(block) == (2, 4)
    note_part(coverage.least, coverage.most, 0, 0, 4)
    # Two parts may be of one copy, or one of each.
    assert coverage.covered(block) == (4, 8)
