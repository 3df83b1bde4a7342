"""Shows how far a local run is: bytes, rate, time left; as a bar on a terminal, as lines elsewhere.

The numbers come from ``transforms.progress``, which every worker process reports to: here they are
added up in memory the processes share. They are for the eye; totals come from the manifest.
"""

from __future__ import annotations

import dataclasses
import mmap
from collections.abc import Callable

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

from runners.display import Display
from transforms.progress import Listener

__all__ = ["BUILDING", "ProgressDisplay", "SharedCounters", "Wording"]

#: What is counted; see ``transforms.progress.report``.
_AMOUNTS = ("raw_bytes", "text_bytes", "documents", "rejects", "blocks", "examples")


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


@dataclasses.dataclass(frozen=True)
class Wording:
    """What the display says.

    Attributes:
      read, write: the two halves of the work; ``read`` is empty where there is only one.
      done: what became of a block, in the lines.
      items, rows: what blocks and examples are called.
    """

    read: str = "Read, tokenize"
    write: str = "Pair, mask"
    done: str = "written"
    items: str = "blocks"
    rows: str = "examples"


BUILDING = Wording()


class ProgressDisplay(Display):
    """A context: while it is open, a thread shows progress and calls ``check`` a few times a second.

    Args:
      counters: where the numbers come from.
      raw_bytes: the input's bytes on disk.
      blocks: how many blocks will be written.
      quiet: show nothing, only ``check``.
      wording: what it says.
      check: called in the thread.
    """

    def __init__(
        self,
        counters: SharedCounters,
        *,
        raw_bytes: int,
        blocks: int,
        quiet: bool = False,
        wording: Wording = BUILDING,
        check: Callable[[], None] | None = None,
    ):
        self._counters = counters
        self._raw_bytes = max(1, raw_bytes)
        self._blocks = max(1, blocks)
        self._wording = wording
        super().__init__(quiet=quiet, look=check)

    def _make_bar(self, console: Console) -> Progress:
        bar = Progress(
            TextColumn("{task.description:<15}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        words = self._wording
        if words.read:
            self._read = bar.add_task(words.read, total=self._raw_bytes, amount="")
        self._write = bar.add_task(words.write, total=self._blocks, amount="", start=not words.read)
        return bar

    def _show(self, bar: Progress) -> None:
        totals = self._counters.totals()
        if self._wording.read:
            self._show_reading(bar, totals)
        if totals["blocks"]:
            bar.start_task(self._write)
            bar.update(
                self._write,
                completed=min(totals["blocks"], self._blocks),
                amount=f"{totals['examples']:,} {self._wording.rows}",
            )

    def _show_reading(self, bar: Progress, totals: dict[str, int]) -> None:
        rate = totals["text_bytes"] / 1e6 / self._seconds
        bar.update(
            self._read,
            completed=min(totals["raw_bytes"], self._raw_bytes),
            amount=f"{totals['documents']:,} documents, {totals['text_bytes'] / 1e6:,.0f} MB of text"
            + (f", {rate:.1f} MB/s" if not totals["blocks"] else ""),
        )

    def _line(self) -> str:
        totals = self._counters.totals()
        seconds = self._seconds
        words, blocks = self._wording, totals["blocks"]
        if blocks or not words.read:
            rest = seconds * (self._blocks - blocks) / blocks if blocks else 0.0
            left = f", about {rest:.0f} s left" if blocks and not words.read else ""
            return (
                f"{seconds:.0f} s: {words.done} {blocks} of {self._blocks} {words.items}, "
                f"{totals['examples']:,} {words.rows}{left}"
            )
        share = min(1.0, totals["raw_bytes"] / self._raw_bytes)
        left = f"about {seconds / share - seconds:.0f} s left for reading" if share else "starting"
        return (
            f"{seconds:.0f} s: read {share:.0%}, {totals['documents']:,} documents, "
            f"{totals['text_bytes'] / 1e6 / seconds:.1f} MB/s, {left}"
        )
