"""Keeps what Beam, its job servers and its workers log, print and let fail off the terminal.

What went wrong reaches the command as an error, and is said once. With ``--debug`` all of it is shown.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

import grpc  # type: ignore[import-untyped]

__all__ = ["debugging", "without_beams_noise"]

_LOGGER = logging.getLogger(__name__)

#: Loggers of those whose threads go on for a moment after the job.
_LATE = ("apache_beam", "grpc")


def debugging() -> bool:
    """Whether ``--debug`` was given."""
    return _LOGGER.isEnabledFor(logging.DEBUG)


@contextlib.contextmanager
def without_beams_noise() -> Iterator[None]:
    """A context in which nothing of Beam's is printed; with ``--debug``, everything is."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_logging())
        if not debugging():
            _say_nothing_of_lost_servers()
            _print_nothing_of_workers()
        yield


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """Messages of a job, with Java's stack traces of 200 lines, go to the root logger."""
    root, beams = logging.getLogger(), logging.getLogger("apache_beam")
    handlers, level, beams_level = root.handlers[:], root.level, beams.level
    if debugging():
        logging.basicConfig(format="%(name)s: %(message)s")
        root.setLevel(min(level, logging.INFO))
        beams.setLevel(logging.INFO)
    else:
        root.handlers[:] = [logging.NullHandler()]  # without one, Beam's first message adds its own
    try:
        yield
    finally:
        # For good as well: a late thread logs, and Beam's options may have made one of these handlers, of
        # the stream as it was before ours.
        for handler in [*handlers, logging.lastResort]:
            if handler and not debugging():
                handler.addFilter(_is_in_time)
        root.handlers[:] = handlers
        root.setLevel(level)
        beams.setLevel(beams_level)


def _say_nothing_of_lost_servers() -> None:
    """Of threads that fail as their connection ends: some do long after the job, so it is for good."""
    if not isinstance(threading.excepthook, _Hook):
        threading.excepthook = _Hook(threading.excepthook)
        sys.unraisablehook = _Hook(sys.unraisablehook)


class _Hook:
    """Python's hook for what fails where nobody can catch it, for all but a server that was lost."""

    def __init__(self, before: Callable[[Any], object]):
        self._before = before

    def __call__(self, failure: Any) -> None:
        if debugging() or not isinstance(failure.exc_value, grpc.RpcError):
            self._before(failure)


class _WithoutBeamsThreads:
    """A stream that takes nothing from threads of Beam's: a worker prints every traceback."""

    def __init__(self, stream: IO[str]):
        self._stream = stream

    def write(self, text: str) -> int:
        beams = type(threading.current_thread()).__module__.startswith("apache_beam.")
        if beams and not debugging():
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _print_nothing_of_workers() -> None:
    """For good, too: a thread whose step was ended prints that when it gets to it."""
    if not isinstance(sys.stderr, _WithoutBeamsThreads):
        sys.stderr = _WithoutBeamsThreads(sys.stderr)


def _is_in_time(record: logging.LogRecord) -> bool:
    """False for what Beam's and gRPC's threads log beside, or behind, the command's own."""
    ours = record.thread == threading.main_thread().ident
    return ours or debugging() or not record.name.startswith(_LATE)
