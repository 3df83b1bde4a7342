"""Compiled kernels of the word cache: cut UTF-8 text into units and look each one up.

Only kernels on flat arrays live here; :mod:`transforms.word_cache` owns the arrays and says why
units may be tokenized one by one. Functions that call each other stay in this one file: numba's
cache of compiled code only notices changes of the file itself.

A *unit* is a maximal run of bytes between ASCII white space, except that every ASCII punctuation
character and every *isolated* character (a table made by the caller) is a unit of its own.

The hash table is one flat ``uint64`` array of ``SLOT``-word slots: three words of key and one of
value, so that two slots fill a cache line. A key, with ASCII letters folded to lower case where the
tokenizer does that, is for a unit of

* up to 23 bytes: bytes 0 to 7; bytes 8 to 15; bytes 16 to 22 and ``length << 56``;
* up to ``LONGEST`` bytes: a hash; where its bytes are among the long keys; ``length << 56``.

The bytes of a key are always compared, never only a hash. Longer units are not stored.

A value is ``count | ids << COUNT_BITS``: up to two ids are inline, ``ID_BITS`` each; more are in a
pool, of which the value has the position. The count ``PENDING`` says that the ids are not known yet
and that the rest is the number of the miss.
"""

from __future__ import annotations

from typing import Any

from numba import int64, njit, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "COUNT_BITS",
    "FOLD",
    "ID_BITS",
    "LEAD",
    "LONGEST",
    "PADDING",
    "PENDING",
    "PUNCTUATION",
    "SLOT",
    "SPACE",
    "WORD",
    "look_up",
]

#: Classes of a byte. ``LEAD`` is the first byte of at least one isolated character; every other
#: byte of a non-ASCII character, and every control, is ``WORD``.
WORD, LEAD, PUNCTUATION, SPACE = 0, 1, 2, 3

SLOT = 4
LONGEST = 64
COUNT_BITS = 24
ID_BITS = 20
PENDING = (1 << COUNT_BITS) - 1

#: Bytes that must follow the text, because it is read eight bytes at a time.
PADDING = 32

#: Bit 0x20 of every byte: set, it makes an ASCII letter a small one.
FOLD = 0x2020202020202020


def _each(byte: int) -> Any:
    """A word with ``byte`` in each of its eight bytes."""
    return uint64(byte * 0x0101010101010101)


# Added to a byte below 0x80, each of these sets bit 7 if and only if the byte is at least the
# character: eight bytes are classified at once (Warren, Hacker's Delight, chapter 6).
_FROM_0, _PAST_9 = _each(0x80 - ord("0")), _each(0x80 - ord("9") - 1)
_FROM_A, _PAST_Z = _each(0x80 - ord("A")), _each(0x80 - ord("Z") - 1)
_FROM_a, _PAST_z = _each(0x80 - ord("a")), _each(0x80 - ord("z") - 1)
_SEVEN, _HIGH, _SMALL = _each(0x7F), _each(0x80), _each(0x20)

# Odd constants with well-mixed bits, for multiplicative hashing (Knuth 6.4; those of xxHash).
_MIX_0, _MIX_1, _MIX_2 = (
    uint64(0x9E3779B185EBCA87),
    uint64(0xC2B2AE3D27D4EB4F),
    uint64(0x165667B19E3779F9),
)
_ONE = uint64(1)


@intrinsic
def _trailing_zeros(typingctx: Any, word: Any) -> Any:
    """The number of zero bits below the lowest set one: one instruction, which numba lacks."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], cgutils.false_bit)  # of zero: 64

    return types.uint64(types.uint64), generate


@njit(cache=True, nogil=True)
def _load(data: Any, at: Any) -> Any:
    """Eight bytes as a number, the first one lowest. LLVM makes it a single load."""
    i = uint64(at)
    low = (
        uint64(data[i])
        | (uint64(data[i + uint64(1)]) << uint64(8))
        | (uint64(data[i + uint64(2)]) << uint64(16))
        | (uint64(data[i + uint64(3)]) << uint64(24))
    )
    high = (
        uint64(data[i + uint64(4)])
        | (uint64(data[i + uint64(5)]) << uint64(8))
        | (uint64(data[i + uint64(6)]) << uint64(16))
        | (uint64(data[i + uint64(7)]) << uint64(24))
    )
    return low | (high << uint64(32))


@njit(cache=True, nogil=True)
def _first_stop(word: Any) -> Any:
    """0x80 in the first byte that is no ASCII letter or digit; 0 if all eight are."""
    seven = word & _SEVEN
    small = seven | _SMALL
    letter = (small + _FROM_a) & ~(small + _PAST_z)
    digit = (seven + _FROM_0) & ~(seven + _PAST_9)
    stops = (~(letter | digit) | word) & _HIGH
    return stops & (~stops + _ONE)


@njit(cache=True, nogil=True)
def _key_word(data: Any, at: Any, length: Any, fold: Any) -> Any:
    """Up to eight bytes of a key: folded, and zero from ``length`` on."""
    word = _load(data, at)
    seven = word & _SEVEN
    capital = (seven + _FROM_A) & ~(seven + _PAST_Z) & ~word & _HIGH
    word |= (capital >> uint64(2)) & fold
    if length < 8:
        word &= (_ONE << uint64(8 * length)) - _ONE
    return word


@njit(cache=True, nogil=True)
def _unit_end(data: Any, start: Any, end: Any, classes: Any, isolated: Any) -> Any:
    """Where the unit at ``start`` ends, whatever it is made of."""
    at = start
    while at < end:
        kind = classes[data[at]]
        if kind >= PUNCTUATION:
            break
        step = 1
        if kind == LEAD:
            byte = int64(data[at])
            step = 2 + int64(byte >= 0xE0) + int64(byte >= 0xF0)
            point = byte & (0x7F >> step)
            for k in range(1, step):
                point = (point << 6) | (int64(data[at + k]) & 0x3F)
            if point < len(isolated) and isolated[point]:
                if at == start:
                    at += step
                break
        at += step
    return min(at, end)


@njit(cache=True, nogil=True)
def _home(table: Any, k0: Any, k1: Any, k2: Any) -> Any:
    """Where to begin to look for a key: the top bits of a product, which depend on every bit."""
    slots = uint64(len(table) // SLOT)
    product = (k0 ^ (k1 * _MIX_1) ^ (k2 * _MIX_2)) * _MIX_0
    return product >> (uint64(64) - _trailing_zeros(slots))


@njit(cache=True, nogil=True)
def _slot(table: Any, k0: Any, k1: Any, k2: Any) -> Any:
    """The slot of a key of up to 23 bytes, or the empty one where it would go."""
    last = uint64(len(table) // SLOT - 1)
    j = _home(table, k0, k1, k2)
    while True:
        slot = j * uint64(SLOT)
        found = table[slot + uint64(2)]
        if found == k2 and table[slot] == k0 and table[slot + uint64(1)] == k1:
            return slot
        if found == 0:
            return slot
        j = (j + _ONE) & last


@njit(cache=True, nogil=True)
def _long_key(data: Any, start: Any, length: Any, fold: Any, keys: Any, at: Any) -> Any:
    """Write the unit's words to ``keys[at:]`` and return their hash."""
    digest = _MIX_0
    for k in range(0, length, 8):
        word = _key_word(data, start + k, length - k, fold)
        keys[at + k // 8] = word
        digest = (digest ^ word) * _MIX_1
        digest ^= digest >> uint64(29)
    return digest


@njit(cache=True, nogil=True)
def _long_slot(table: Any, k0: Any, k2: Any, keys: Any, at: Any) -> Any:
    """The same as ``_slot`` for the long key that has just been written to ``keys[at:]``."""
    last = uint64(len(table) // SLOT - 1)
    words = int64((k2 >> uint64(56)) + uint64(7)) // 8
    j = _home(table, k0, uint64(0), k2)
    while True:
        slot = j * uint64(SLOT)
        found = table[slot + uint64(2)]
        if found == 0:
            return slot
        if found == k2 and table[slot] == k0:
            other = int64(table[slot + uint64(1)])
            same = True
            for w in range(words):
                same = same and keys[other + w] == keys[at + w]
            if same:
                return slot
        j = (j + _ONE) & last


@njit(cache=True, nogil=True)
def look_up(
    data: Any,
    offsets: Any,
    classes: Any,
    isolated: Any,
    fold: Any,
    table: Any,
    keys: Any,
    used: Any,
    values: Any,
    unit_offsets: Any,
    misses: Any,
) -> Any:
    """Cut the sentences into units and give the value of each; enter the unknown as pending.

    Args:
      data: uint8, the text, followed by ``PADDING`` bytes.
      offsets: int64 [sentences + 1], where sentences begin and end in it.
      classes: uint8 [256], the class of each byte.
      isolated: uint8 [code points], 1 for the non-ASCII characters that are units of their own.
      fold: ``FOLD`` if ASCII capitals are to be read as small letters, else 0.
      table: uint64 [slots * SLOT], a power of two of slots, at least two; never full.
      keys: uint64, the words of the long keys, with room for two more keys than ``used`` allows.
      used: int64 [4]: entries of the table, and the most there may be; words of ``keys``, and the
        most there may be. Updated.
      values: uint64 [at least bytes of text], written: one a unit.
      unit_offsets: int64 [sentences + 1], written: where each sentence's units are.
      misses: int64 [at least bytes of text, 4], written, a row each: start and length of the unit,
        its slot or -1 when it is not stored, 1 when it is one run of ASCII letters and digits or
        one ASCII punctuation character, else 0.

    Returns:
      The number of misses.
    """
    n = 0
    missed = 0
    for s in range(len(offsets) - 1):
        unit_offsets[s] = n
        i = offsets[s]
        end = offsets[s + 1]
        while i < end:
            start = i
            k0 = _load(data, i)
            k1 = uint64(0)
            stop = _first_stop(k0)
            if stop == uint64(0x80):  # no letter or digit
                kind = classes[data[i]]
                if kind == SPACE:
                    i += 1
                    continue
                k0 &= uint64(0xFF)
                plain = kind == PUNCTUATION
                i += int64(plain)
            elif stop != 0:  # up to seven of them
                i += int64(_trailing_zeros(stop) >> uint64(3))
                k0 = (k0 | fold) & ((stop - _ONE) >> uint64(7))
                plain = i <= end and classes[data[i]] >= PUNCTUATION
            else:  # up to fifteen
                k0 |= fold
                k1 = _load(data, i + 8)
                stop = _first_stop(k1)
                k1 = (k1 | fold) & ((stop - _ONE) >> uint64(7))
                i += 8 + int64(_trailing_zeros(stop) >> uint64(3))
                plain = stop != 0 and i <= end and classes[data[i]] >= PUNCTUATION
            k2 = uint64(i - start) << uint64(56)

            fits = True
            long = False
            if not plain:  # other bytes, or more of them, or the sentence ends within the word
                run = i - start  # of letters and digits, as far as was looked
                i = _unit_end(data, start, end, classes, isolated)
                length = i - start
                plain = length <= run
                long = length > 23
                fits = length <= LONGEST
                k2 = uint64(length) << uint64(56)
                if long and fits:
                    k0 = _long_key(data, start, length, fold, keys, used[2])
                elif fits:
                    k0 = _key_word(data, start, length, fold)
                    k1 = _key_word(data, start + 8, max(length - 8, 0), fold)
                    k2 |= _key_word(data, start + 16, max(length - 16, 0), fold)

            if not long:
                slot = _slot(table, k0, k1, k2)
            elif fits:
                slot = _long_slot(table, k0, k2, keys, used[2])
            else:
                slot = uint64(0)

            if fits and table[slot + uint64(2)] != 0:
                values[n] = table[slot + uint64(3)]
            else:
                values[n] = uint64(PENDING) | (uint64(missed) << uint64(COUNT_BITS))
                misses[missed, 0] = start
                misses[missed, 1] = i - start
                misses[missed, 2] = -1
                misses[missed, 3] = plain
                if fits and used[0] < used[1] and used[2] < used[3]:
                    misses[missed, 2] = slot
                    table[slot] = k0
                    table[slot + uint64(1)] = uint64(used[2]) if long else k1
                    table[slot + uint64(2)] = k2
                    table[slot + uint64(3)] = values[n]
                    used[0] += 1
                    if long:
                        used[2] += (i - start + 7) // 8
                missed += 1
            n += 1
            if i < end and data[i] == 0x20:  # the usual case, without another classification
                i += 1
    unit_offsets[len(offsets) - 1] = n
    return missed
