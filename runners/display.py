"""Shows how far something is: a bar on a terminal, a line every half a minute elsewhere."""

from __future__ import annotations

import abc
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress

__all__ = ["Display"]

#: Seconds between two lines where there is no terminal.
_QUIET_INTERVAL = 30.0


class Display(abc.ABC):
    """A context: while it is open, a thread looks and shows, a few times a second.

    Args:
      quiet: show nothing.
      look: called in the thread, whether anything is shown or not.
    """

    def __init__(self, *, quiet: bool, look: Callable[[], None] | None = None):
        console = Console(stderr=True)
        self._quiet = quiet
        self._look = look
        self._bar = None if quiet or not console.is_terminal else self._make_bar(console)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        if self._bar:
            self._show(self._bar)
            self._bar.stop()

    @property
    def _seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._started

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            if self._look:
                self._look()
            if self._bar:
                self._show(self._bar)
            elif not self._quiet and time.monotonic() - self._last_line > _QUIET_INTERVAL:
                self._last_line = time.monotonic()
                print(self._line(), file=sys.stderr, flush=True)

    @abc.abstractmethod
    def _make_bar(self, console: Console) -> Progress:
        """The bar, for a terminal."""

    @abc.abstractmethod
    def _show(self, bar: Progress) -> None:
        """Brings the bar up to date."""

    @abc.abstractmethod
    def _line(self) -> str:
        """The same in a line."""
