"""What the progress display says, as lines and on a terminal."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from runners import display, progress
from runners.progress import ProgressDisplay, SharedCounters, Wording

ALONE = Wording(read="", write="Check rows", done="checked", items="shards", rows="rows")


def shown(wording: Wording, *, quiet: bool = False, **amounts: int) -> None:
    counters = SharedCounters(1)
    counters.listener(0)(**amounts)
    looks, looked_twice = [], threading.Event()

    def look() -> None:
        looks.append(True)
        if len(looks) > 1:  # and so has shown something once
            looked_twice.set()

    with ProgressDisplay(
        counters, raw_bytes=100, blocks=4, quiet=quiet, wording=wording, check=look
    ):
        assert looked_twice.wait(60)


@pytest.mark.parametrize(
    ("wording", "amounts", "words"),
    [
        (progress.BUILDING, {"raw_bytes": 50, "documents": 3}, "read 50%, 3 documents"),
        (progress.BUILDING, {"blocks": 1, "examples": 7}, "written 1 of 4 blocks, 7 examples\n"),
        (ALONE, {}, "checked 0 of 4 shards, 0 rows\n"),
        (ALONE, {"blocks": 4, "examples": 9}, "checked 4 of 4 shards, 9 rows, about 0 s left\n"),
    ],
)
def test_lines_where_there_is_no_terminal(monkeypatch, capsys, wording, amounts, words):
    monkeypatch.setattr(display, "_QUIET_INTERVAL", 0.0)
    shown(wording, **amounts)
    printed = capsys.readouterr()
    assert words in printed.err
    assert not printed.out
    shown(wording, quiet=True, **amounts)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("wording", [progress.BUILDING, ALONE])
def test_a_bar_on_a_terminal(monkeypatch, wording):
    screen = io.StringIO()
    monkeypatch.setattr(
        display, "Console", lambda **_: Console(file=screen, force_terminal=True, width=160)
    )
    shown(wording, blocks=2, examples=9)
    assert f"9 {wording.rows}" in screen.getvalue()
    assert wording.write in screen.getvalue()
    assert ("Read" in screen.getvalue()) == bool(wording.read)
