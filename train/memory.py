"""Keeps memory that was given back, for the next step. Nothing here needs torch."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_memory"]

#: Of ``mallopt`` in glibc's ``malloc.h``.
_TRIM_THRESHOLD = -1
_MMAP_MAX = -4


def keep_memory() -> bool:
    """Tell glibc to keep what is freed; whether it was told.

    A step on a CPU takes and frees hundreds of megabytes, in pieces that glibc maps anew each time: 80,000
    page faults a step of tiny, a quarter of its time. It concerns the whole process, and is for the
    command.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, -1))
