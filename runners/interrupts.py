"""Ends a build in order when it is told to stop: by Ctrl-C, SIGTERM, or a worker's death.

Python raises an interrupt wherever the main thread is, in the middle of Beam, which wraps it in a
``RuntimeError``, or of a compiled kernel, which makes a ``SystemError`` of it. So why the build was
stopped is remembered here, and raised in place of whatever came out.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

__all__ = ["InterruptedBuildError", "Interrupts", "interruptible"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: Wrappers pass Ctrl-C on to a process that the terminal sent it to already.
_SAME_INTERRUPT = 2.0

#: Some code swallows an interrupt. Longer than Beam takes to shut down: its servers have 5 seconds.
_LOST_INTERRUPT = 8.0


class InterruptedBuildError(KeyboardInterrupt):
    """A signal ended the build.

    Attributes:
      signum: which.
      goes_on: whether the job runs on elsewhere, without the command.
    """

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum
        self.goes_on = False


class Interrupts:
    """Why the build was told to stop, if it was, and what is to be done at once then."""

    def __init__(self) -> None:
        self.cause: BaseException | None = None
        #: Signals that the one who started the process wants to be ignored: nohup, ``&`` in a script.
        self.ignored: set[int] = set()
        #: Whether ``handle`` is the signals' handler.
        self.installed = False
        self._last = 0.0
        self._callbacks: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """A context in which an interrupt calls ``callback``, in the main thread, first of all."""
        self._callbacks.append(callback)
        try:
            yield
        finally:
            self._callbacks.remove(callback)

    def stop(self, cause: BaseException) -> None:
        """End the build with ``cause``; for other threads than the main one."""
        if self.cause is None:
            self.cause = cause
            self._interrupt_main_thread()

    def insist(self) -> None:
        """Interrupt once more if the build goes on although it was told to stop; for other threads."""
        if self.cause is not None and time.monotonic() - self._last > _LOST_INTERRUPT:
            self._interrupt_main_thread()

    def handle(self, signum: int, unused_frame: FrameType | None) -> None:
        """The signals' handler."""
        now = time.monotonic()
        if now - self._last < _SAME_INTERRUPT or (self.cause is None and signum in self.ignored):
            return
        self._last = now
        if self.cause is None:
            self.cause = InterruptedBuildError(signum)
        for callback in list(self._callbacks):
            callback()
        # Never another cause itself: Beam has many an ``except Exception``.
        raise InterruptedBuildError(signum)

    def _interrupt_main_thread(self) -> None:
        # That thread and no other: it may be waiting for a lock, which only a signal of its own ends.
        if self.installed:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupts]:
    """A context that ends with the cause of an interrupt, whatever else was made of it.

    Outside of the main thread no signal arrives, and it does nothing: a worker's death is not seen.

    Raises:
      InterruptedBuildError: a signal came; or what :meth:`Interrupts.stop` was given.
    """
    interrupts = Interrupts()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for signum in _SIGNALS:
            before[signum] = signal.signal(signum, interrupts.handle)
        interrupts.installed = True
        interrupts.ignored = {s for s, handler in before.items() if handler is signal.SIG_IGN}
    try:
        yield interrupts
    except BaseException as error:
        if interrupts.cause is None:
            raise
        raise interrupts.cause from error
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
