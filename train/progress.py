"""The losses of a run, and the lines it prints of them."""

from __future__ import annotations

import math
import time

import torch

from schemas.errors import BuildError
from train.config import TrainConfig

__all__ = ["Progress"]


class Progress:
    """Keeps the losses, and prints a line every ``log_every`` steps and before a checkpoint.

    Args:
      config: of the run.
      first: updates made before.
    """

    def __init__(self, config: TrainConfig, *, first: int):
        self._config = config
        self._first = first
        self._losses: list[torch.Tensor] = []
        self._shown = 0
        self._tokens = 0
        self._started = time.monotonic()

    def add(self, step: int, loss: torch.Tensor, *, tokens: int) -> None:
        """Note one update of number ``step``, from 0, and its count of tokens.

        Raises:
          BuildError: the mean of the losses for a line is not a finite number.
        """
        self._losses.append(loss)  # where it was worked out: asking for it would wait for it
        self._tokens += tokens
        done = step + 1
        every = (self._config.log_every, self._config.save_checkpoints_steps)
        if all(done % n for n in every) and done not in (self._first + 1, self._config.steps):
            return
        mean = torch.stack(self._losses[self._shown :]).mean(0)
        self._shown = len(self._losses)
        total, masked_lm, next_sentence = mean.tolist()
        if not math.isfinite(total):
            raise BuildError(f"the loss is {total} at step {done}: give a smaller --learning_rate")
        seconds = time.monotonic() - self._started
        left = seconds / len(self._losses) * (self._config.steps - done)
        print(
            f"step {done:,} of {self._config.steps:,}: loss {total:.4f} (masked tokens "
            f"{masked_lm:.4f}, next sentence {next_sentence:.4f}), "
            f"{self._tokens / seconds:,.0f} tokens/s, {int(left) // 60}:{int(left) % 60:02} left",
            flush=True,
        )

    def losses(self) -> list[float]:
        """The loss of each update."""
        return [float(loss[0]) for loss in self._losses]
