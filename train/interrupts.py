"""SIGTERM, which ends a run after the update it is at. Nothing here needs torch."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from schemas.errors import BuildError

__all__ = ["TERMINATED", "TerminatedError", "termination"]

#: A shell's exit code for it.
TERMINATED = 128 + signal.SIGTERM


class TerminatedError(BuildError):
    """The run was told to end, and has saved what it had."""


class _Termination:
    """Whether SIGTERM has come; the second one ends the process at once."""

    def __init__(self) -> None:
        self.asked = False

    def watch(self) -> None:
        """Begin; nothing happens outside the main thread, which has no say in signals."""
        self.asked = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.asked = True


#: Of this process.
termination = _Termination()
