"""Shows how far a local build is: bytes, rate, time left; as a bar on a terminal, as lines elsewhere.

The numbers come from ``transforms.progress``, which every worker process reports to: here they are
added up in memory the processes share. They are for the eye; totals come from the manifest.
"""

from __future__ import annotations

import mmap
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from transforms.progress import Listener

__all__ = ["ProgressDisplay", "SharedCounters"]

#: What is counted; see ``transforms.progress.report``.
_AMOUNTS = ("raw_bytes", "text_bytes", "documents", "rejects", "blocks", "examples")

#: Seconds between two lines where there is no terminal.
_QUIET_INTERVAL = 30.0


class SharedCounters:
    """Counters of several processes in one piece of memory; make it before they fork.

    Args:
      processes: how many, the driver included.
    """

    def __init__(self, processes: int):
        self._memory = mmap.mmap(-1, processes * len(_AMOUNTS) * 8)
        self._counts = np.frombuffer(self._memory, np.int64).reshape(processes, len(_AMOUNTS))

    def listener(self, process: int) -> Listener:
        """What ``transforms.progress.set_listener`` wants, for the process of this number."""
        row = self._counts[process]

        def listen(**amounts: int) -> None:
            for name, amount in amounts.items():
                row[_AMOUNTS.index(name)] += amount

        return listen

    def totals(self) -> dict[str, int]:
        """The sums over all processes so far."""
        return dict(zip(_AMOUNTS, (int(n) for n in self._counts.sum(axis=0)), strict=True))


class ProgressDisplay:
    """A context: while it is open, a thread shows progress and calls ``check`` a few times a second.

    Args:
      counters: where the numbers come from.
      raw_bytes: the input's bytes on disk.
      blocks: how many blocks will be written.
      quiet: show nothing, only ``check``.
      check: called in the thread.
    """

    def __init__(
        self,
        counters: SharedCounters,
        *,
        raw_bytes: int,
        blocks: int,
        quiet: bool = False,
        check: Callable[[], None] | None = None,
    ):
        self._counters = counters
        self._raw_bytes = max(1, raw_bytes)
        self._blocks = max(1, blocks)
        self._check = check or (lambda: None)
        self._console = Console(stderr=True)
        self._bar = None if quiet or not self._console.is_terminal else self._make_bar()
        self._quiet = quiet
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> ProgressDisplay:
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
            self._show()
            self._bar.stop()

    def _make_bar(self) -> Progress:
        bar = Progress(
            TextColumn("{task.description:<15}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._read = bar.add_task("Read, tokenize", total=self._raw_bytes, amount="")
        self._write = bar.add_task("Pair, mask", total=self._blocks, amount="", start=False)
        return bar

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self._check()
            if self._bar:
                self._show()
            elif not self._quiet and time.monotonic() - self._last_line > _QUIET_INTERVAL:
                self._last_line = time.monotonic()
                print(self._line(), file=sys.stderr, flush=True)

    def _show(self) -> None:
        assert self._bar is not None
        totals = self._counters.totals()
        seconds = time.monotonic() - self._started
        rate = totals["text_bytes"] / 1e6 / seconds
        self._bar.update(
            self._read,
            completed=min(totals["raw_bytes"], self._raw_bytes),
            amount=f"{totals['documents']:,} documents, {totals['text_bytes'] / 1e6:,.0f} MB of text"
            + (f", {rate:.1f} MB/s" if not totals["blocks"] else ""),
        )
        if totals["blocks"]:
            self._bar.start_task(self._write)
            self._bar.update(
                self._write,
                completed=min(totals["blocks"], self._blocks),
                amount=f"{totals['examples']:,} examples",
            )

    def _line(self) -> str:
        totals = self._counters.totals()
        seconds = time.monotonic() - self._started
        if totals["blocks"]:
            return (
                f"{seconds:.0f} s: written {totals['blocks']} of {self._blocks} blocks, "
                f"{totals['examples']:,} examples"
            )
        share = min(1.0, totals["raw_bytes"] / self._raw_bytes)
        left = f"about {seconds / share - seconds:.0f} s left for reading" if share else "starting"
        return (
            f"{seconds:.0f} s: read {share:.0%}, {totals['documents']:,} documents, "
            f"{totals['text_bytes'] / 1e6 / seconds:.1f} MB/s, {left}"
        )
