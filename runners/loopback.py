"""Ends what workers that are threads of this process are doing, when their job has ended before them."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

__all__ = ["stop_steps"]

#: A step is in compiled code, or waits for a disk, for no longer.
_SECONDS = 10.0

_OURS = ("transforms.", "pipeline.")


def stop_steps() -> None:
    """Raises an interrupt in every step of ours that Beam's threads are in, and waits for their end.

    A thread cannot be killed. Left alone it would go on with its shard, and leave half of it under a
    temporary name when the process ends.
    """
    last = time.monotonic() + _SECONDS
    told: set[int] = set()
    while (busy := set(_busy_threads())) and time.monotonic() < last:
        for ident in busy - told:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(ident), ctypes.py_object(KeyboardInterrupt)
            )
        told |= busy
        time.sleep(0.02)


def _busy_threads() -> Iterator[int]:
    frames = sys._current_frames()
    for thread in threading.enumerate():
        beams = type(thread).__module__.startswith("apache_beam.")
        if beams and thread.ident is not None and _is_in_a_step(frames.get(thread.ident)):
            yield thread.ident


def _is_in_a_step(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_OURS):
            return True
        frame = frame.f_back
    return False
