"""Finds where a damaged file can be read again: at its next member, or frame of zst.

The search begins behind the first byte of the member that is damaged, and not at the damage: a library
may go on into the next member before it sees that something is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from transforms.formats.compression import DAMAGE, decompress
from transforms.formats.zstandard_frames import FRAME_MAGIC

__all__ = ["next_member"]

#: What a member begins with, and how many bytes that is.
_BEGINS = {
    "gz": (re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"), 4),
    "bz2": (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), 10),
    "xz": (re.compile(rb"\xfd7zXZ\0"), 6),
    "zst": (re.compile(re.escape(FRAME_MAGIC)), 4),
}
_STEP_BYTES = 1 << 20
#: A member of which so much can be decompressed is one: of bytes that only look like the beginning of
#: one it is a few, and no checksum is right.
_TRIAL_BYTES = 64 << 10


def next_member(compression: str, read_at: Callable[[int, int], bytes], start: int) -> int | None:
    """Where the next member begins that can be read, at ``start`` or later; None if there is none.

    One that is damaged itself, before the first 64 KiB of its content are through, is passed over.

    Args:
      compression: of the file.
      read_at: gives the bytes from an offset on, at most so many; fewer only at the file's end.
    """
    if compression not in _BEGINS:
        return None
    begins, size = _BEGINS[compression]
    offset, tail = start, b""
    while data := read_at(offset, _STEP_BYTES):
        window = tail + data
        for match in begins.finditer(window):
            found = offset - len(tail) + match.start()
            if _can_be_read(compression, read_at, found):
                return found
        offset += len(data)
        tail = window[-(size - 1) :]
    return None


def _can_be_read(compression: str, read_at: Callable[[int, int], bytes], start: int) -> bool:
    """Whether a member begins here: all of it is sound, or the first ``_TRIAL_BYTES`` of its content."""
    offset, members, size = start, 0, 0

    def read() -> bytes:
        nonlocal offset
        data = read_at(offset, _TRIAL_BYTES)
        offset += len(data)
        return data

    def began(unused_waiting: int) -> None:
        nonlocal members
        members += 1

    try:
        for content in decompress(compression, read, lambda: _TRIAL_BYTES, began=began):
            size += len(content)
            if members > 1 or size >= _TRIAL_BYTES:
                return True
    except DAMAGE:
        return members > 1
    return True
