"""The phases of a run: how long the rows are, and for how many of the updates."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from schemas.errors import ConfigError

__all__ = ["Phase", "parse_phases", "plan_phases"]


class Phase(NamedTuple):
    """Updates ``first_step`` to ``first_step + steps`` on rows of one length.

    Attributes:
      max_seq_length: of the data set that is read; None for the shortest there is.
      first_step: number of its first update in the run, from 0.
      steps: how many.
      batch_size: rows an update, over all processes.
    """

    max_seq_length: int | None
    first_step: int
    steps: int
    batch_size: int


def parse_phases(text: str) -> list[tuple[int, float]]:
    """Lengths and shares of ``seq128:0.9,seq512:0.1``; ``ConfigError`` if they are none."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"seq(\d+):(\d*\.?\d+)", part.strip())
        if not match or not int(match[1]) or not float(match[2]):
            raise ConfigError("phases", text, "must be like seq128:0.9,seq512:0.1")
        found.append((int(match[1]), float(match[2])))
    if not math.isclose(sum(share for _, share in found), 1, abs_tol=1e-6):
        raise ConfigError("phases", text, "the shares must add up to 1")
    return found


def plan_phases(
    phases: str | None,
    *,
    max_seq_length: int | None,
    steps: int,
    batch_size: Sequence[int],
) -> tuple[Phase, ...]:
    """The phases in order; together they have all the steps.

    Args:
      phases: see :func:`parse_phases`; None for a single one.
      max_seq_length: of the single one.
      steps: updates of the run.
      batch_size: of each phase, or one for all of them.

    Raises:
      ConfigError: phases without a step, more or fewer batch sizes than phases, both a length and phases.
    """
    if phases is None:
        parts: list[tuple[int | None, float]] = [(max_seq_length, 1.0)]
    elif max_seq_length is not None:
        raise ConfigError(
            "max_seq_length", max_seq_length, "--phases has the lengths; leave it out"
        )
    else:
        parts = [*parse_phases(phases)]
    sizes = [*batch_size] * (len(parts) if len(batch_size) == 1 else 1)
    if len(sizes) != len(parts):
        raise ConfigError(
            "batch_size",
            ",".join(map(str, batch_size)),
            f"one, or one for each of {len(parts)} phases",
        )
    planned, first, share = [], 0, 0.0
    for number, ((length, part), size) in enumerate(zip(parts, sizes, strict=True), 1):
        share += part
        # The shares add up to 1 but for a rounding, which may be a step of many.
        end = steps if number == len(parts) else round(share * steps)
        if end <= first:
            raise ConfigError("phases", phases, f"none of {steps} steps is left for seq{length}")
        planned.append(Phase(length, first, end - first, size))
        first = end
    return tuple(planned)
