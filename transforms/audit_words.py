"""Whole words where the vocabulary alone does not tell them: by the corpus, marked as a build marks it."""

from __future__ import annotations

import numpy as np
from numba import njit

from transforms.audit_columns import RowGroup
from transforms.audit_masks import check_predictions, check_words
from transforms.audit_rows import RowFindings
from transforms.audit_rules import AuditRules, Rule

__all__ = ["check_marks"]


def check_marks(
    group: RowGroup, found: RowFindings, rules: AuditRules, marks: np.ndarray, known: np.ndarray
) -> None:
    """Holds rows to the words of the corpus; adds to the flags of ``found``.

    Args:
      group, found, rules: as in ``audit_rows``.
      marks: uint8[tokens], where the text of a row goes on with the word before it.
      known: bool[rows], the row's place in the corpus is known, and with it its marks.
    """
    _check_marks(
        group.ids,
        group.offsets,
        group.continues,
        group.continues_offsets,
        group.pass_offsets,
        group.positions,
        group.position_offsets,
        group.others,
        group.other_offsets,
        rules.kinds,
        rules.settings,
        found.text,
        found.flags,
        found.counts,
        marks,
        known,
    )


@njit(cache=True, nogil=True)
def _check_marks(  # type: ignore[no-untyped-def]
    ids,
    offsets,
    continues,
    continues_offsets,
    pass_offsets,
    positions,
    position_offsets,
    others,
    other_offsets,
    kinds,
    s,
    text,
    flags,
    counts,
    marks,
    known,
):
    unusable = 1 << Rule.LIST_LENGTHS | 1 << Rule.PASSES | 1 << Rule.POSITION_RANGE
    fates = np.zeros(np.diff(offsets).max() if len(known) else 0, np.uint8)
    unused = np.zeros(len(counts), np.int64)  # all of it is counted already
    for r in range(len(known)):
        if not known[r] or flags[r] & unusable:
            continue
        start = offsets[r]
        n = offsets[r + 1] - start
        if s.continues:
            at = continues_offsets[r]
            for k in range(n):
                if (continues[at + k] != 0) != (s.whole_words and marks[start + k] != 0):
                    flags[r] |= 1 << Rule.CONTINUES_WORD
        asked = min(s.max_predictions, max(1, int(np.rint(n * s.masked_lm_prob))))
        for p in range(pass_offsets[r], pass_offsets[r + 1] if s.whole_words else 0):
            i, j = position_offsets[p], position_offsets[p + 1]
            shift = other_offsets[p] - i
            check_predictions(
                ids, text, start, n, positions, others, i, j, shift, kinds, s, 0, fates, unused
            )
            room = asked - (j - i)
            flags[r] = check_words(
                text, start, n, kinds, marks, start, room, s, fates, flags[r], counts
            )
            for q in range(i, j):
                fates[positions[q]] = 0
