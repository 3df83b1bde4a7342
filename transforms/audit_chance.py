"""How much chance there is in the masks of a row: what cannot happen twice, and what may."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from transforms.audit_rules import SPECIAL, SUBWORD, UNITS

__all__ = ["CERTAIN_BITS", "bits_of_masks", "largest_likely", "log_factorials"]

#: Rows with the same text and by chance the same masks, one in 2^40, do not happen.
CERTAIN_BITS = 40.0

_PIECE = UNITS["piece"]

#: What happens less often than this in a whole data set does not happen.
_NEVER = 1e-9


def log_factorials(longest: int) -> np.ndarray:
    """float64[longest + 2]: log2 of n!."""
    logs = np.log2(np.maximum(1, np.arange(longest + 2)))
    return np.asarray(np.cumsum(logs))


def largest_likely(mean: float) -> int:
    """The largest count that chance can explain, where ``mean`` are expected at most (Chernoff)."""
    if mean <= 0:
        return 0
    count = math.floor(mean) + 1
    while count - mean + count * math.log(mean / count) > math.log(_NEVER):
        count += 1
    return count - 1


@njit(cache=True, nogil=True)
def _log_choices(n, k, logs):  # type: ignore[no-untyped-def]
    """log2 of the number of ways to choose k of n."""
    if k < 0 or k > n:
        return 0.0
    return logs[n] - logs[k] - logs[n - k]


@njit(cache=True, nogil=True)
def _bits_of_words(text, start, n, kinds, s, fates, logs, sizes):  # type: ignore[no-untyped-def]
    """Words of one size stand for each other: every choice of as many of them is as likely.

    ``sizes`` is int64[2, n] or longer, zero before and after: words of a size, and those masked.
    """
    longest, size = 0, 0
    masked = False
    for k in range(n):
        kind = kinds[text[start + k]]
        if kind & (SPECIAL | SUBWORD) == SUBWORD and size:
            size += 1
            masked |= fates[k] != 0
            continue
        if kind & SPECIAL and s.exact_reference:
            continue
        sizes[0, size] += 1  # of size 0: a special token, or the beginning of the row
        sizes[1, size] += masked
        longest = max(longest, size)
        size = 0 if kind & SPECIAL else 1
        masked = size > 0 and fates[k] != 0
    sizes[0, size] += 1
    sizes[1, size] += masked
    longest = max(longest, size)
    sizes[0, 0] = 0
    sizes[1, 0] = 0
    bits = 0.0
    for size in range(1, longest + 1):
        bits += _log_choices(sizes[0, size], sizes[1, size], logs)
        sizes[0, size] = 0
        sizes[1, size] = 0
    return bits


@njit(cache=True, nogil=True)
def bits_of_masks(  # type: ignore[no-untyped-def]
    text, start, n, kinds, positions, i, j, specials, s, fates, logs, sizes
):
    """-log2 of the most that the probability of these masks of one pass can be.

    Which n-grams are likely, and which words there are where the vocabulary does not tell, is not known:
    then only the fates count. Words are looked at only if the fates are not bits enough.
    """
    bits = 0.0
    for p in range(i, j):
        at = int(positions[p])
        # Of pieces that may share one fate, only the first of neighbours.
        if at >= n or (s.unit != _PIECE and p > i and at == positions[p - 1] + 1):
            continue
        if fates[at] == 1:
            bits += s.bits_masked
        elif fates[at] == 2:
            bits += s.bits_kept
        else:
            bits += s.bits_random
    if s.exact_count:
        bits += _log_choices(max(0, n - specials), j - i, logs)
    elif bits < CERTAIN_BITS and s.fill_up and s.words_known:
        bits += _bits_of_words(text, start, n, kinds, s, fates, logs, sizes)
    return bits
