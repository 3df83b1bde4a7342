"""Counts documents with characters that hint at a wrong encoding or a damaged source.

Text stays as it is: the tokenizer drops what it drops. A pass over the bytes of a whole batch, in a
compiled kernel: some tens of gigabytes a second.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

__all__ = ["CHARACTER_COUNTS", "count_characters"]

#: What is counted: documents with a control character that is no white space (NUL, escape, DEL, most of
#: U+0080 to U+009F), and documents with U+FFFD, which stands where a character was lost.
CHARACTER_COUNTS = ("documents_with_control_characters", "documents_with_replacement_characters")


def count_characters(texts: pa.LargeStringArray) -> dict[str, int]:
    """Numbers of documents, by ``CHARACTER_COUNTS``.

    Args:
      texts: a document each, without nulls.
    """
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return dict.fromkeys(CHARACTER_COUNTS, 0)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    found = _count(np.frombuffer(data, np.uint8), ends)
    return dict(zip(CHARACTER_COUNTS, map(int, found), strict=True))


@njit(cache=True, nogil=True)
def _count(data, offsets):  # type: ignore[no-untyped-def]
    """Documents of each kind."""
    controls = replacements = 0
    for i in range(len(offsets) - 1):
        text = data[offsets[i] : offsets[i + 1]]
        control, leads = _look(text)
        controls += control != 0 or (leads != 0 and _has_c1(text) != 0)
        replacements += leads != 0 and _has_replacement(text) != 0
    return controls, replacements


# Loops without a branch or an index below 0, and with nothing wider than a byte (``max`` of two bytes is
# one, their ``|`` is not): the compiler takes 32 bytes or more at a time.


@njit(cache=True, nogil=True)
def _look(text):  # type: ignore[no-untyped-def]
    """Whether there is an ASCII control character, and whether a lead byte of what else is counted."""
    control = leads = np.uint8(0)
    for j in range(len(text)):
        byte = text[j]
        low = (byte < np.uint8(0x09)) | ((byte > np.uint8(0x0D)) & (byte < np.uint8(0x1C)))
        control = max(control, np.uint8(low | (byte == np.uint8(0x7F))))
        leads = max(leads, np.uint8((byte == np.uint8(0xC2)) | (byte == np.uint8(0xEF))))
    return control, leads


@njit(cache=True, nogil=True)
def _has_c1(text):  # type: ignore[no-untyped-def]
    """U+0080 to U+009F, but for U+0085, which is white space."""
    found = np.uint8(0)
    first, second = text[:-1], text[1:]
    for j in range(len(second)):
        byte = second[j]
        inside = (byte < np.uint8(0xA0)) & (byte != np.uint8(0x85))
        found = max(found, np.uint8((first[j] == np.uint8(0xC2)) & inside))
    return found


@njit(cache=True, nogil=True)
def _has_replacement(text):  # type: ignore[no-untyped-def]
    """U+FFFD."""
    found = np.uint8(0)
    first, second, third = text[:-2], text[1:-1], text[2:]
    for j in range(len(third)):
        ends = (second[j] == np.uint8(0xBF)) & (third[j] == np.uint8(0xBD))
        found = max(found, np.uint8((first[j] == np.uint8(0xEF)) & ends))
    return found
