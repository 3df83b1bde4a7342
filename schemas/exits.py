"""How the process of a command ends: at once, once the command is done."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn

__all__ = ["leave"]

#: For what libraries have registered to be done last: removing temporary files, for one.
_SECONDS = 5.0


def leave(code: int) -> NoReturn:
    """Ends the process with an exit code, whatever the threads of libraries are at.

    At its own end Python waits for threads, and native code for locks that threads hold which Python
    has ended in the middle of something: torch's that wait for a process that is lost, gRPC's, those of
    Beam's workers. Of thousands of commands a few have said their last line and stayed for good.
    """
    try:
        _flush()
        tidying = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        tidying.start()
        tidying.join(_SECONDS)
        _flush()
    finally:
        os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
