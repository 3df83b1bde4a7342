"""The compiled half of splitting: finds the sentences in a batch's UTF-8.

The rules are those of ``transforms.splitting.split_sentences``, which is what they are checked
against; only the batch functions of SplitSentences use this.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from transforms.splitting import BLANKED_MARKS, CLOSING_MARKS, OPENING_MARKS

__all__ = ["slice_sentences"]

_SPACE, _MARK, _CLOSING, _OPENING, _SMALL = 1, 2, 4, 8, 16
_NEWLINE = 10


def _kinds() -> np.ndarray:
    """uint8[65536]: what a character is, as far as the rules ask. Others are nothing."""
    kinds = np.zeros(1 << 16, np.uint8)
    for code in range(1 << 16):
        character = chr(code)
        kinds[code] = _SPACE * character.isspace() + _SMALL * character.islower()
    for flags, marks in (
        (_MARK, BLANKED_MARKS),
        (_MARK | _CLOSING, CLOSING_MARKS),
        (_OPENING, OPENING_MARKS),
    ):
        for mark in marks:
            kinds[ord(mark)] |= flags
    return kinds


_KINDS = _kinds()


def slice_sentences(
    data: np.ndarray, documents: np.ndarray, lengths: np.ndarray, pieces: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Slices documents into stripped, non-empty sentences.

    Args:
      data: uint8[bytes], UTF-8.
      documents: int64[n + 1], offsets of the documents into ``data``.
      lengths: int64[pieces], characters of each piece (``transforms.splitting.shown_pieces``).
      pieces: int64[n + 1], offsets of the documents into ``lengths``.

    Returns:
      int64[2 * sentences] where each starts and ends in ``data``, ascending; int32[n + 1] offsets
      of the documents into the sentences.

    Raises:
      RuntimeError: the pieces of a document are not as long as its text.
    """
    # A piece ends a sentence of its own and perhaps the one before it, a document one more.
    limit = 2 * len(lengths) + len(documents)
    bounds = np.empty(2 * limit, np.int64)
    firsts = np.zeros(len(documents), np.int32)
    count = _slice(data, documents, lengths, pieces, _KINDS, bounds, firsts)
    if count < 0:
        raise RuntimeError(
            f"the splitter lost or added characters in document {-count - 1} of a batch"
        )
    return bounds[: 2 * count], firsts


@njit(cache=True, nogil=True)
def _slice(data, documents, lengths, pieces, kinds, bounds, firsts):  # type: ignore[no-untyped-def]
    """Fills ``bounds`` and ``firsts``.

    Returns:
      The number of sentences, or -1 - the document whose pieces do not fit.
    """
    count = 0
    for d in range(len(documents) - 1):
        start = i = documents[d]
        stop = documents[d + 1]
        for p in range(pieces[d], pieces[d + 1]):
            if i < stop and data[i] == _NEWLINE:
                count = _emit(data, start, i, kinds, bounds, count)
                while i < stop and data[i] == _NEWLINE:
                    i += 1
                start = i
            i = _skip(data, i, stop, lengths[p])
            if i > stop:
                return -1 - d
            # Nearly all boundaries are `x. X` in ASCII; the rules are for the others.
            cut = i
            if i - start < 2 or i == stop or not _plain(data[i - 2], data[i - 1], data[i]):
                cut = _cut(data, start, i, stop, kinds)
            if cut > start:
                count = _emit(data, start, cut, kinds, bounds, count)
                start = cut
        while i < stop and data[i] == _NEWLINE:
            i += 1
        if i != stop:
            return -1 - d
        count = _emit(data, start, stop, kinds, bounds, count)
        firsts[d + 1] = count
    return count


@njit(cache=True, nogil=True)
def _skip(data, i, stop, characters):  # type: ignore[no-untyped-def]
    """Where the text goes on after some characters; behind ``stop`` where it has fewer."""
    while characters:
        # As many bytes hold as many characters but for the continuation bytes among them.
        end = i + characters
        if end > stop:
            return end
        characters = 0
        for at in range(i, end):
            characters += data[at] & 0xC0 == 0x80
        i = end
    while i < stop and data[i] & 0xC0 == 0x80:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _emit(data, start, end, kinds, bounds, count):  # type: ignore[no-untyped-def]
    """Notes a sentence, stripped, unless nothing is left of it. Returns the number of sentences."""
    while start < end and data[end - 1] == 32:
        end -= 1
    if start < end and not (32 < data[start] < 128 and 32 < data[end - 1] < 128):
        while start < end and _kind(data, start, end, kinds) & _SPACE:
            start = _next(data, start)
        while start < end and _kind(data, _previous(data, end), end, kinds) & _SPACE:
            end = _previous(data, end)
    if start >= end:
        return count
    bounds[2 * count] = start
    bounds[2 * count + 1] = end
    return count + 1


@njit(cache=True, nogil=True)
def _cut(data, start, end, stop, kinds):  # type: ignore[no-untyped-def]
    """``transforms.splitting._cut`` on bytes."""
    if end <= start or end == stop or data[end] == _NEWLINE:
        return end
    last = _previous(data, end)
    before = max(_previous(data, last), start) if last > start else last
    near = _kind(data, last, stop, kinds) | _kind(data, before, stop, kinds)
    if not near & _MARK and not _kind(data, end, stop, kinds) & _CLOSING:
        return end
    cut = end
    while _kind(data, cut, stop, kinds) & _CLOSING and (
        not _kind(data, _previous(data, cut), stop, kinds) & _SPACE
        or _kind(data, _next(data, cut), stop, kinds) & _SPACE
    ):
        cut = _next(data, cut)
    if cut == end:
        while cut > start and _kind(data, _previous(data, cut), stop, kinds) & _MARK:
            cut = _previous(data, cut)
        if cut == start or not _kind(data, _previous(data, cut), stop, kinds) & _SPACE:
            cut = end
        elif (
            cut == end
            and before > start
            and _kind(data, before, stop, kinds) & _OPENING
            and _kind(data, _previous(data, before), stop, kinds) & _SPACE
        ):
            cut = before
    return start if _goes_on(data, start, cut, stop, kinds) else cut


@njit(cache=True, nogil=True)
def _goes_on(data, start, cut, stop, kinds):  # type: ignore[no-untyped-def]
    """``transforms.splitting._goes_on`` on bytes."""
    quoted = cut
    while quoted > start and _kind(data, _previous(data, quoted), stop, kinds) & _SPACE:
        quoted = _previous(data, quoted)
    while cut < stop and data[cut] == 32:
        cut += 1
    if quoted == start or not _kind(data, cut, stop, kinds) & _SMALL:
        return False
    return _kind(data, _previous(data, quoted), stop, kinds) & _MARK != 0


@njit(cache=True, nogil=True)
def _plain(stop, space, first):  # type: ignore[no-untyped-def]
    """Whether three bytes at a boundary are ASCII without a mark among them."""
    ended = stop == 46 or stop == 33 or stop == 63
    return ended and space == 32 and 39 < first < 96


@njit(cache=True, nogil=True)
def _next(data, i):  # type: ignore[no-untyped-def]
    """The start of the character after the one that starts at ``i``."""
    lead = data[i]
    if lead < 0x80:
        return i + 1
    if lead < 0xE0:
        return i + 2
    return i + 3 if lead < 0xF0 else i + 4


@njit(cache=True, nogil=True)
def _previous(data, i):  # type: ignore[no-untyped-def]
    """The start of the character before ``i``."""
    i -= 1
    while data[i] & 0xC0 == 0x80:
        i -= 1
    return i


@njit(cache=True, nogil=True)
def _kind(data, i, stop, kinds):  # type: ignore[no-untyped-def]
    """What the character at ``i`` is; nothing at the end of the text and beyond the BMP."""
    if i >= stop or data[i] >= 0xF0:
        return np.uint8(0)
    lead = np.int64(data[i])
    if lead < 0x80:
        return kinds[lead]
    if lead < 0xE0:
        return kinds[(lead & 0x1F) << 6 | data[i + 1] & 0x3F]
    return kinds[(lead & 0x0F) << 12 | (data[i + 1] & 0x3F) << 6 | data[i + 2] & 0x3F]
