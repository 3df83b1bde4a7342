"""Properties of the masks, over random rows."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.unit.blocks_of_tokens import CLS, IS_SUBWORD, MASK, SEP, VOCAB_SIZE
from transforms.masking import Fates, MaskSettings, mask_at_load
from transforms.masking import mask as mask_in_place


def rows_of(rng, count, *, longest=128, dtype=np.uint16):
    """``[CLS] A [SEP] B [SEP]`` of random tokens; B may begin with a continuation."""
    ids, offsets = [], [0]
    for _ in range(count):
        a, b = rng.integers(1, (longest - 3) // 2, 2)
        row = [CLS, *rng.integers(5, VOCAB_SIZE, a), SEP, *rng.integers(5, VOCAB_SIZE, b), SEP]
        ids += row
        offsets.append(len(ids))
    return np.array(ids, dtype), np.array(offsets, np.int32)


def marks_of(ids, *, whole_words=True):
    """``continues_word``: of the vocabulary, but for special tokens and those after them."""
    marks = IS_SUBWORD[ids] & whole_words
    special = np.isin(ids, [CLS, SEP])
    marks[special | np.concatenate([[True], special[:-1]])] = False
    return marks.astype(np.uint8)


def mask(ids, offsets, *, whole_words=True, prob=0.15, cap=20, seeds=None, **changes):
    if seeds is None:
        seeds = np.arange(len(offsets) - 1).astype(np.uint64) * np.uint64(977)
    settings = MaskSettings(
        cls_id=CLS, sep_id=SEP, mask_id=MASK, random_ids=np.arange(5, VOCAB_SIZE).astype(ids.dtype),
        masked_lm_prob=prob, max_predictions_per_seq=cap, **changes,
    )  # fmt: skip
    marks = marks_of(ids, whole_words=whole_words)
    return mask_in_place(ids.copy(), offsets, marks, seeds, settings=settings)


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


def units_of(ids, offsets):
    """For each row, the words as lists of positions; an empty one is a special token."""
    marks = marks_of(ids)
    for start, end in itertools.pairwise(offsets):
        units: list[list[int]] = []
        for k in range(start, end):
            if ids[k] in (CLS, SEP):
                units.append([])
            elif marks[k]:
                units[-1].append(k - start)
            else:
                units.append([k - start])
        yield units


def runs_of_words(units, chosen):
    """Lengths, in words, of the runs of neighbouring chosen words."""
    runs, run = [], 0
    for unit in [*units, []]:
        if unit and unit[0] in chosen:
            run += 1
        elif run:
            runs.append(run)
            run = 0
    return runs


@pytest.mark.parametrize("size", [2, 3, 5])
def test_ngrams_are_whole_words_within_the_budget(rows, size):
    ids, offsets = rows
    found = mask(ids, offsets, max_ngram_size=size)
    for row, where, units in zip(
        split(ids, offsets), split(found.positions, found.offsets), units_of(ids, offsets),
        strict=True,
    ):  # fmt: skip
        chosen = set(where.tolist())
        assert len(chosen) == len(where) <= min(20, max(1, round(len(row) * 0.15)))
        assert not np.isin(row[where], [CLS, SEP]).any()
        for unit in units:
            assert not unit or len(chosen & set(unit)) in (0, len(unit))


def test_ngram_sizes_have_weights_of_one_over_n():
    """One n-gram a row: with a budget that any size fits in, and words that stand far apart in size."""
    size, rows = 3, 20_000
    # 60 words of one piece; three predictions, so that an n-gram of 3 fills the budget alone.
    ids = np.tile(np.array([CLS, *[6, 7, 8, 9] * 15, SEP], np.uint16), rows)
    offsets = np.arange(0, len(ids) + 1, 62).astype(np.int32)
    found = mask(ids, offsets, cap=3, max_ngram_size=size)
    assert (np.diff(found.offsets) == 3).all()
    whole = sum(
        where.tolist() == list(range(where[0], where[0] + 3))
        for where in np.split(found.positions, found.offsets[1:-1])
    )
    # 3 at once, and by chance from neighbours: 2 then 1 (or 1 then 2) side by side.
    first = {n: (1 / n) / (1 + 1 / 2 + 1 / 3) for n in (1, 2, 3)}
    least = first[3]
    assert least < whole / rows < least + 0.05
    for wrong in (1 / 3, 3 / 6):  # all alike, or n instead of 1/n
        assert abs(whole / rows - wrong) > 0.05


def test_ngrams_make_longer_runs_and_one_is_the_default(rows):
    ids, offsets = rows
    plain, longer = mask(ids, offsets), mask(ids, offsets, max_ngram_size=4)
    again = mask(ids, offsets, max_ngram_size=1)
    assert (plain.input_ids == again.input_ids).all()
    means = [
        np.mean(
            [
                n
                for units, where in zip(
                    units_of(ids, offsets), np.split(m.positions, m.offsets[1:-1]), strict=True
                )
                for n in runs_of_words(units, set(where.tolist()))
            ]
        )
        for m in (plain, longer)
    ]
    assert means[1] > 1.3 * means[0]


def test_an_ngram_never_crosses_a_special_token():
    ids = np.tile(np.array([CLS, 6, SEP, 7, SEP], np.uint16), 500)
    offsets = np.arange(0, len(ids) + 1, 5).astype(np.int32)
    found = mask(ids, offsets, prob=0.4, max_ngram_size=2)
    # Wanted are two; an n-gram of two words would be [6, 7] across [SEP]. Both words one by one are fine.
    assert (np.diff(found.offsets) == 2).all()
    fates = mask(ids, offsets, prob=0.4, max_ngram_size=2, mask_per="ngram")
    both = fates.input_ids.reshape(-1, 5)[:, [1, 3]] == MASK
    assert (both[:, 0] != both[:, 1]).mean() > 0.2


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("mask_per", ["piece", "word", "ngram"])
def test_what_shares_a_fate(rows, mask_per, size):
    ids, offsets = rows
    found = mask(ids, offsets, prob=0.3, cap=100, mask_per=mask_per, max_ngram_size=size)
    at = np.repeat(offsets[:-1], np.diff(found.offsets)) + found.positions
    masked = np.zeros(len(ids), bool)
    masked[at] = found.input_ids[at] == MASK
    chosen = np.zeros(len(ids), bool)
    chosen[at] = True
    split_words = 0
    for start, units in zip(offsets[:-1], units_of(ids, offsets), strict=True):
        for unit in units:
            if unit and chosen[start + unit[0]] and len(unit) > 1:
                fates = masked[start + np.array(unit)]
                split_words += fates.any() and not fates.all()
    if mask_per == "piece":
        assert split_words > 50
    else:
        assert split_words == 0
    shares = found.fates / found.fates.sum()
    assert abs(shares[Fates.MASK_TOKEN] - 0.8) < 0.01


def test_shares_are_what_was_asked_for(rows):
    ids, offsets = rows
    for mask_share, random_share in ((1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.5, 0.3)):
        found = mask(ids, offsets, mask_token_share=mask_share, random_token_share=random_share)
        shares = found.fates / found.fates.sum()
        assert abs(shares[Fates.MASK_TOKEN] - mask_share) < 0.01
        assert abs(shares[Fates.RANDOM_TOKEN] - random_share) < 0.01
        assert abs(shares[Fates.KEPT_TOKEN] - (1 - mask_share - random_share)) < 0.01


def test_masks_at_load_are_a_function_of_seed_epoch_and_row(rows):
    ids, offsets = rows
    settings = MaskSettings(
        cls_id=CLS, sep_id=SEP, mask_id=MASK, random_ids=np.arange(5, VOCAB_SIZE).astype(np.uint16),
        masked_lm_prob=0.15, max_predictions_per_seq=20,
    )  # fmt: skip
    marks, numbers = marks_of(ids).astype(bool), np.arange(100, 3100)

    def load(row=None, *, seed=1, epoch=0):
        some = slice(0, len(ids)) if row is None else slice(offsets[row], offsets[row + 1])
        ends = offsets if row is None else np.array([0, offsets[row + 1] - offsets[row]])
        which = numbers if row is None else numbers[row : row + 1]
        before = ids.copy()
        found = mask_at_load(
            ids[some], ends, marks[some], which, seed=seed, epoch=epoch, settings=settings
        )
        assert (ids == before).all()
        return found

    whole = load()
    restored = whole.input_ids.copy()
    restored[np.repeat(offsets[:-1], np.diff(whole.offsets)) + whole.positions] = whole.labels
    assert (restored == ids).all()
    for row in (0, 17, 2999):
        alone = load(row)
        assert (alone.input_ids == whole.input_ids[offsets[row] : offsets[row + 1]]).all()
    for other in (load(seed=2), load(epoch=1)):
        same = sum(
            a.tolist() == b.tolist()
            for a, b in zip(
                np.split(whole.positions, whole.offsets[1:-1]),
                np.split(other.positions, other.offsets[1:-1]),
                strict=True,
            )
        )
        assert same < 0.1 * len(numbers)


def test_what_does_not_fit_is_refused(rows):
    ids, offsets = rows
    values: dict[str, Any] = {
        "cls_id": CLS, "sep_id": SEP, "mask_id": MASK, "random_ids": np.arange(5, 9, dtype=np.uint16),
        "masked_lm_prob": 0.15, "max_predictions_per_seq": 20,
    }  # fmt: skip
    wrong: list[dict[str, Any]] = [
        {"mask_per": "row"},
        {"random_ids": np.empty(0, np.uint16)},
        {"max_ngram_size": 0},
        {"masked_lm_prob": 1.5},
    ]
    for changes in wrong:
        with pytest.raises(ValueError, match=next(iter(changes))):
            MaskSettings(**(values | changes))
    right: dict[str, Any] = {"input_ids": ids, "offsets": offsets, "continues_word": marks_of(ids)}
    right |= {"rows": np.arange(3000), "seed": 1, "epoch": 0}
    wrong = [
        {"rows": np.arange(2999)},
        {"continues_word": marks_of(ids)[1:]},
        {"offsets": offsets + 1},
        {"offsets": offsets[::-1]},
        {"seed": -1},
        {"seed": 1 << 64},
        {"epoch": -1},
    ]
    for changes in wrong:
        with pytest.raises(ValueError):
            mask_at_load(**(right | changes), settings=MaskSettings(**values))


def test_rows_whose_positions_have_no_room_are_refused():
    ids = np.full(70_000, 7, np.uint16)
    settings = MaskSettings(
        cls_id=CLS, sep_id=SEP, mask_id=MASK, random_ids=np.arange(5, 9, dtype=np.uint16),
        masked_lm_prob=0.15, max_predictions_per_seq=20,
    )  # fmt: skip

    def masked(length: int):
        offsets = np.array([0, length], np.int64)
        marks = np.zeros(length, np.uint8)
        return mask_at_load(
            ids[:length], offsets, marks, np.zeros(1, np.int64), seed=1, epoch=0, settings=settings
        )

    assert len(masked(65_536).positions) == 20
    with pytest.raises(
        ValueError, match="a row has 65537 tokens, and positions are uint16: 65536 at"
    ):
        masked(65_537)
