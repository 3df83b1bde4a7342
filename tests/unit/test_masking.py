"""Properties of the masks, over random rows."""

import numpy as np
import pytest

from tests.unit.blocks_of_tokens import CLS, IS_SUBWORD, MASK, SEP, VOCAB_SIZE
from transforms.masking import Fates, mask_rows


def rows_of(rng, count, *, longest=128, dtype=np.uint16):
    """``[CLS] A [SEP] B [SEP]`` of random tokens; B may begin with a continuation."""
    ids, offsets = [], [0]
    for _ in range(count):
        a, b = rng.integers(1, (longest - 3) // 2, 2)
        row = [CLS, *rng.integers(5, VOCAB_SIZE, a), SEP, *rng.integers(5, VOCAB_SIZE, b), SEP]
        ids += row
        offsets.append(len(ids))
    return np.array(ids, dtype), np.array(offsets, np.int32)


def mask(ids, offsets, *, whole_words=True, prob=0.15, cap=20, seeds=None):
    joins = IS_SUBWORD if whole_words else np.zeros_like(IS_SUBWORD)
    if seeds is None:
        seeds = np.arange(len(offsets) - 1).astype(np.uint64) * np.uint64(977)
    masked = ids.copy()
    found = mask_rows(
        masked, offsets, seeds, joins, np.arange(5, VOCAB_SIZE).astype(ids.dtype),
        CLS, SEP, MASK, prob, cap,
    )  # fmt: skip
    return masked, *found


@pytest.fixture(scope="module")
def rows():
    return rows_of(np.random.default_rng(1), 3000)


def split(values, offsets):
    return np.split(values, offsets[1:-1])


@pytest.mark.parametrize(("prob", "cap"), [(0.15, 20), (0.15, 3), (0.9, 100), (0.001, 20)])
@pytest.mark.parametrize("whole_words", [False, True])
def test_counts_positions_and_originals(rows, whole_words, prob, cap):
    ids, offsets = rows
    masked, positions, labels, ends, fates = mask(
        ids, offsets, whole_words=whole_words, prob=prob, cap=cap
    )
    assert ends[-1] == len(positions) == len(labels) == fates.sum()
    for row, now, where, original in zip(
        split(ids, offsets), split(masked, offsets), split(positions, ends), split(labels, ends),
        strict=True,
    ):  # fmt: skip
        wanted = min(cap, max(1, round(len(row) * prob)))
        assert len(where) <= wanted if whole_words else len(where) == min(wanted, len(row) - 3)
        assert (np.diff(where.astype(int)) > 0).all()
        assert not np.isin(row[where], [CLS, SEP]).any()
        assert (row[where] == original).all()
        restored = now.copy()
        restored[where] = original
        assert (restored == row).all()


def test_rounding_is_half_to_even():
    # 10 * 0.25 = 2.5 and 14 * 0.25 = 3.5: Python's round gives 2 and 4.
    for length, wanted in ((10, 2), (14, 4)):
        ids = np.array([CLS, *[7] * (length - 4), SEP, 8, SEP], np.uint16)
        *_, ends, _ = mask(ids, np.array([0, length], np.int32), prob=0.25)
        assert ends[-1] == wanted


def test_whole_words_stay_whole_and_never_cross_the_separator(rows):
    ids, offsets = rows
    _, positions, _, ends, _ = mask(ids, offsets)
    seen_broken_start = 0
    for row, where in zip(split(ids, offsets), split(positions, ends), strict=True):
        special = np.isin(row, [CLS, SEP])
        start = ~IS_SUBWORD[row] | special | np.roll(special, 1)
        word = np.cumsum(start)
        chosen = np.zeros(len(row), bool)
        chosen[where] = True
        for w in np.unique(word[chosen]):
            assert chosen[word == w].all()
        b = np.flatnonzero(special)[1] + 1
        seen_broken_start += IS_SUBWORD[row[b]] and chosen[b] and not chosen[b - 2]
    assert seen_broken_start > 0


def test_a_word_longer_than_the_budget_is_skipped():
    ids = np.array([CLS, 6, 500, 505, 510, 515, SEP, 7, SEP], np.uint16)
    offsets = np.array([0, 9], np.int32)
    for seed in range(50):
        _, positions, _, _, _ = mask(ids, offsets, seeds=np.array([seed], np.uint64))
        assert positions.tolist() == [7]


def test_fates_are_80_10_10_and_random_ids_are_regular(rows):
    ids, offsets = rows
    masked, positions, labels, ends, fates = mask(ids, offsets, whole_words=False)
    total = fates.sum()
    for fate, share in (
        (Fates.MASK_TOKEN, 0.8),
        (Fates.RANDOM_TOKEN, 0.1),
        (Fates.KEPT_TOKEN, 0.1),
    ):
        assert abs(fates[fate] / total - share) < 4 * (share * (1 - share) / total) ** 0.5
    at = np.repeat(offsets[:-1], np.diff(ends)) + positions
    now = masked[at]
    assert (now == MASK).sum() == fates[Fates.MASK_TOKEN]
    replaced = now[(now != MASK) & (now != labels)]
    assert replaced.min() >= 5
    assert len(np.unique(replaced)) > 900


def test_every_position_is_as_likely():
    ids = np.tile(np.array([CLS, *range(5, 45), SEP, *range(50, 90), SEP], np.uint16), 4000)
    offsets = np.arange(0, len(ids) + 1, 83).astype(np.int32)
    seeds = np.arange(4000).astype(np.uint64)
    _, positions, _, _, _ = mask(ids, offsets, seeds=seeds)
    counts = np.bincount(positions, minlength=83)
    counts = np.delete(counts, [0, 41, 82])
    expected = counts.sum() / 80
    # Chi-squared with 79 degrees of freedom; draws without replacement vary a little less.
    assert ((counts - expected) ** 2 / expected).sum() < 79 + 5 * (2 * 79) ** 0.5


def test_a_row_is_masked_the_same_wherever_it_stands(rows):
    ids, offsets = rows
    seeds = np.arange(3000).astype(np.uint64)
    whole = mask(ids, offsets, seeds=seeds)
    for r in (0, 17, 2999):
        one = ids[offsets[r] : offsets[r + 1]]
        masked, positions, labels, _, _ = mask(
            one, np.array([0, len(one)], np.int32), seeds=seeds[r : r + 1]
        )
        span = slice(whole[3][r], whole[3][r + 1])
        assert (masked == whole[0][offsets[r] : offsets[r + 1]]).all()
        assert (positions == whole[1][span]).all()
        assert (labels == whole[2][span]).all()


def test_wide_ids():
    ids, offsets = rows_of(np.random.default_rng(3), 10, dtype=np.uint32)
    masked, _, labels, _, _ = mask(ids, offsets)
    assert masked.dtype == labels.dtype == np.uint32


def test_no_rows():
    masked, positions, _, ends, fates = mask(np.empty(0, np.uint16), np.zeros(1, np.int32))
    assert len(masked) == len(positions) == fates.sum() == 0
    assert ends.tolist() == [0]
