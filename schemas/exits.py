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

    At its own end Python waits for threads, and ends others in the middle of native code, which may
    hold a lock that the rest of the end waits for. Of thousands of commands three have said their last
    line and stayed for good, one with torch's threads in it, two with Beam's and gRPC's; what each was
    waiting for is not known.
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
