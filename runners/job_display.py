"""Shows how far a job elsewhere is: its state, and what its runner or its workers have counted.

What is not known is not shown: some runners say nothing of a job's counters before its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from runners.display import Display

__all__ = ["JobDisplay", "describe_amounts"]


def describe_amounts(amounts: Mapping[str, int], *, blocks: int) -> str:
    """What is done so far, by the names of ``transforms.progress``; empty where nothing is known.

    Args:
      amounts: the counts.
      blocks: how many will be written.
    """
    read, text = amounts.get("documents", 0), amounts.get("text_bytes", 0)
    parts = [f"{read:,} documents read, {text / 1e6:,.1f} MB of text"] if read else []
    if amounts.get("rejects"):
        parts.append(f"{amounts['rejects']:,} records refused")
    if parts or amounts.get("blocks"):
        parts.append(f"{min(amounts.get('blocks', 0), blocks):,} of {blocks:,} blocks written")
    return ", ".join(parts)


class JobDisplay(Display):
    """A context: while it is open, a thread shows how the job is.

    Args:
      state: says it in a word; called a few times a second, and must not wait.
      amounts: what is done so far; the same.
      blocks: how many will be written.
      quiet: show nothing.
    """

    def __init__(
        self,
        *,
        state: Callable[[], str],
        amounts: Callable[[], Mapping[str, int]],
        blocks: int,
        quiet: bool = False,
    ):
        self._state = state
        self._amounts = amounts
        self._blocks = max(1, blocks)
        super().__init__(quiet=quiet)

    def _make_bar(self, console: Console) -> Progress:
        bar = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = bar.add_task("", total=self._blocks, amount="")
        return bar

    def _show(self, bar: Progress) -> None:
        amounts = self._amounts()
        bar.update(
            self._task,
            description=self._state(),
            completed=min(amounts.get("blocks", 0), self._blocks),
            amount=describe_amounts(amounts, blocks=self._blocks),
        )

    def _line(self) -> str:
        amounts = describe_amounts(self._amounts(), blocks=self._blocks)
        return f"{self._seconds:.0f} s: {self._state()}{', ' * bool(amounts)}{amounts}"
