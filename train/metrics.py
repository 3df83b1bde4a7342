"""What a run says, for programs: JSON lines, TensorBoard, and a picture of the losses.

``metrics.jsonl`` has an object a line. ``kind`` is ``run`` (what the run is; ``baseline_loss`` is that of
``train.baseline``), ``train`` (means since the line before) or ``validation``; ``step`` counts updates
made. Losses are in nats.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from train.board import Board
from train.saving import saving

__all__ = ["WRITTEN", "Metrics", "draw_losses"]

_LINES = "metrics.jsonl"
_TENSORBOARD = "tensorboard"
_PICTURE = "loss.png"

#: Names of what a run says, beside its checkpoints and its model.
WRITTEN = frozenset({_LINES, _TENSORBOARD, _PICTURE, "predictions.txt"})


class Metrics:
    """Writes them to the output directory; what is there of steps after ``first`` is taken back first.

    Args:
      output: the directory.
      first: updates made before.

    Raises:
      BuildError: something cannot be written. Later too.
    """

    def __init__(self, output: Path, *, first: int):
        self._output = output
        kept = [line for line in _read(output / _LINES) if 0 < line["step"] <= first]
        temporary = output / f".{_LINES}.tmp"
        with saving(output / _LINES):
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf8")
            os.replace(temporary, output / _LINES)
        if not first and (output / _TENSORBOARD).exists():  # of a run before its first checkpoint
            shutil.rmtree(output / _TENSORBOARD)
        with saving(output / _TENSORBOARD):
            self._board = Board(output / _TENSORBOARD, first=first or None)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """One line, and its numbers to TensorBoard; what is None is left out."""
        there = {name: value for name, value in values.items() if value is not None}
        # JSON has no nan, and one may be what there is to be said.
        line = {"kind": kind, "step": step} | {
            name: value if not isinstance(value, float) or math.isfinite(value) else str(value)
            for name, value in there.items()
        }
        path = self._output / _LINES
        with saving(path), path.open("a", encoding="utf8") as file:
            file.write(json.dumps(line) + "\n")
        if kind != "run":
            with saving(self._output / _TENSORBOARD):
                self._board.add(step, {f"{kind}/{name}": value for name, value in there.items()})

    def draw(self) -> None:
        """The picture, anew."""
        with saving(self._output / _PICTURE):
            draw_losses(_read(self._output / _LINES), self._output / _PICTURE)

    def close(self) -> None:
        """No more is to come."""
        self._board.close()


def draw_losses(lines: list[dict[str, Any]], path: Path) -> None:
    """A PNG: the loss of masked tokens by step, held-out rows and token frequencies beside it."""
    figure = Figure(figsize=(8, 5), dpi=100)
    axes = figure.add_subplot()
    for kind, style in (("train", "-"), ("validation", "o-")):
        points = [
            (line["step"], line["masked_lm_loss"])
            for line in lines
            if line["kind"] == kind and isinstance(line.get("masked_lm_loss"), float)
        ]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=kind)
    for line in lines[-1::-1]:
        if line["kind"] == "run":
            axes.axhline(line["baseline_loss"], ls="--", c="gray", label="token frequencies alone")
            break
    axes.set(xlabel="step", ylabel="loss of masked tokens, nats")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path.with_name(f".{path.name}.tmp"), format="png")
    os.replace(path.with_name(f".{path.name}.tmp"), path)


def _read(path: Path) -> list[dict[str, Any]]:
    """The lines of the file that are whole.

    What a crash of the machine has left, or somebody's editor, is no reason not to go on: the losses
    to come do not depend on it.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf8", errors="replace").split("\n")[:-1]
    return [line for line in map(_parse, lines) if line]


def _parse(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(line, dict) and isinstance(line.get("step"), int) and "kind" in line
    return line if whole else None
