"""The audit's rules on the predictions of one pass of a row: order, number, fates, whole words."""

from __future__ import annotations

import numpy as np
from numba import njit

from transforms.audit_chance import bits_of_masks
from transforms.audit_counts import Counted
from transforms.audit_rules import REGULAR, SPECIAL, SUBWORD, UNITS, Rule

__all__ = ["check_masks", "check_predictions", "check_words"]

_PIECE, _WORD = UNITS["piece"], UNITS["word"]


@njit(cache=True, nogil=True)
def check_predictions(  # type: ignore[no-untyped-def]
    ids, text, start, n, positions, others, i, j, shift, kinds, s, flag, fates, counts
):
    """Order and fate of each prediction; notes in ``fates`` 1 [MASK], 2 kept, 3 random, at its place.

    Returns the flags.
    """
    before = -1
    for p in range(i, j):
        at = int(positions[p])
        if at <= before:
            flag |= 1 << Rule.POSITION_ORDER
        before = at
        if at >= n:
            flag |= 1 << Rule.POSITION_RANGE
            continue
        now = others[p + shift] if s.shared else ids[start + at]
        original = text[start + at]
        if now >= s.vocab_size:
            flag |= 1 << Rule.ID_RANGE
            now = ids.dtype.type(s.unk_id)
        if kinds[original] & SPECIAL:
            flag |= 1 << Rule.MASKED_SPECIAL
        counts[Counted.DRAWABLE] += not s.regular_only or kinds[original] & REGULAR != 0
        if now == s.mask_id:
            fates[at] = 1
            counts[Counted.MASK] += 1
        elif now == original:
            fates[at] = 2
            counts[Counted.KEPT] += 1
        else:
            fates[at] = 3
            counts[Counted.RANDOM] += 1
            if s.regular_only and not s.exact_reference and not (kinds[now] & REGULAR):
                flag |= 1 << Rule.RANDOM_SPECIAL
    return flag


@njit(cache=True, nogil=True)
def _check_word(pieces, masks, kept, random, room, s, flag, counts):  # type: ignore[no-untyped-def]
    """Holds one word to the rules, by how many of its pieces have which fate."""
    masked = masks + kept + random
    if masked and masked < pieces:
        flag |= 1 << Rule.HALF_WORD
    if not masked and s.fill_up and pieces <= room:
        flag |= 1 << Rule.TOO_FEW_PREDICTIONS
    if s.unit != _PIECE and masked:
        if s.unit == _WORD:
            counts[Counted.SQUARES] += masked * masked
        if masks and masks < masked and s.regular_only:
            flag |= 1 << Rule.UNIT_FATE
        counts[Counted.MIXED] += not masks and kept > 0 and random > 0
    return flag


@njit(cache=True, nogil=True)
def check_words(text, start, n, kinds, joins, at, room, s, fates, flag, counts):  # type: ignore[no-untyped-def]
    """Whole words whole: ``joins[at + k]`` is not 0 where token k goes on with the word before it.

    A word ends at [CLS] and [SEP], but in the reference not at [SEP].
    """
    pieces, masks, kept, random = 0, 0, 0, 0
    for k in range(n):
        kind = kinds[text[start + k]]
        if (kind & SPECIAL) != 0 and (s.exact_reference or pieces == 0):
            continue
        if pieces and (kind & SPECIAL != 0 or not joins[at + k]):
            flag = _check_word(pieces, masks, kept, random, room, s, flag, counts)
            pieces, masks, kept, random = 0, 0, 0, 0
            if kind & SPECIAL:
                continue
        pieces += 1
        masks += fates[k] == 1
        kept += fates[k] == 2
        random += fates[k] == 3
    if pieces:
        flag = _check_word(pieces, masks, kept, random, room, s, flag, counts)
    return flag


@njit(cache=True, nogil=True)
def _check_neighbours(text, start, n, positions, i, j, kinds, fates, flag):  # type: ignore[no-untyped-def]
    """Whole words whole, where nothing else is asked of them: what a prediction belongs to is predicted."""
    for p in range(i, j):
        at = int(positions[p])
        if at >= n - 1 or at < 1 or kinds[text[start + at]] & SPECIAL:
            continue
        goes_on = (kinds[text[start + at]] & SUBWORD) and not (
            kinds[text[start + at - 1]] & SPECIAL
        )
        if goes_on and fates[at - 1] == 0:
            flag |= 1 << Rule.HALF_WORD
        if (kinds[text[start + at + 1]] & SUBWORD) and fates[at + 1] == 0:
            flag |= 1 << Rule.HALF_WORD
    return flag


@njit(cache=True, nogil=True)
def check_masks(  # type: ignore[no-untyped-def]
    ids,
    text,
    start,
    n,
    positions,
    others,
    i,
    j,
    shift,
    kinds,
    s,
    specials,
    flag,
    fates,
    joins,
    logs,
    sizes,
    counts,
):
    """The predictions ``i`` to ``j`` of one pass of a row: flags, and the bits of ``bits_of_masks``."""
    flag = check_predictions(
        ids, text, start, n, positions, others, i, j, shift, kinds, s, flag, fates, counts
    )
    asked = min(s.max_predictions, max(1, int(np.rint(n * s.masked_lm_prob))))
    taken = j - i
    counts[Counted.PREDICTIONS] += taken
    counts[Counted.WANTED] += asked
    if taken > asked or (s.exact_count and taken != min(asked, n - specials)):
        flag |= 1 << Rule.PREDICTIONS
    if s.whole_words and s.words_known:
        room = asked - taken
        if room <= 0 and s.unit == _PIECE and not s.exact_reference:
            flag = _check_neighbours(text, start, n, positions, i, j, kinds, fates, flag)
        else:
            for k in range(n):
                joins[k] = kinds[text[start + k]] & SUBWORD
            flag = check_words(text, start, n, kinds, joins, 0, room, s, fates, flag, counts)
    if s.unit == _PIECE:
        counts[Counted.SQUARES] += taken
    elif s.unit != _WORD:
        counts[Counted.SQUARES] += _squares_of_runs(positions, i, j)
    bits = bits_of_masks(text, start, n, kinds, positions, i, j, specials, s, fates, logs, sizes)
    for q in range(i, j):
        if positions[q] < n:
            fates[positions[q]] = 0
    return flag, bits


@njit(cache=True, nogil=True)
def _squares_of_runs(positions, i, j):  # type: ignore[no-untyped-def]
    """Sum of the squares of the lengths of runs of neighbouring positions."""
    total = 0
    run = 0
    for p in range(i, j):
        run = run + 1 if p > i and positions[p] == positions[p - 1] + 1 else 1
        total += 2 * run - 1
    return total
