"""What the audit counts in rows."""

from __future__ import annotations

import enum

__all__ = ["CHANCE_BITS", "Counted"]

#: See ``Counted.EQUAL_BY_CHANCE``.
CHANCE_BITS = 36


class Counted(enum.IntEnum):
    """Places in the counts of a row group."""

    ROWS = 0
    TOKENS = 1
    UNKNOWN = 2
    LABEL_1 = 3
    PREDICTIONS = 4
    WANTED = 5
    MASK = 6
    KEPT = 7
    RANDOM = 8
    #: Sum of the squares of the sizes of what shares one fate.
    SQUARES = 9
    #: Units of which some pieces are kept and some are random: a draw may be the token itself.
    MIXED = 10
    #: Rows shorter than the longest.
    SHORT = 11
    #: Rows of which A is one sentence, labelled 1; and rows made of two parts of one sentence.
    ONE_SENTENCE_1 = 12
    SPLIT = 13
    #: Predictions of which the original is one of the ids that a random token is drawn from.
    DRAWABLE = 14
    #: Passes of a row (layout shared) with the masks of an earlier one, and how many chance explains at
    #: most, in units of 2^-``CHANCE_BITS``.
    EQUAL_PASSES = 15
    EQUAL_BY_CHANCE = 16
