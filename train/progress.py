"""The losses of a run, and the lines it prints of them."""

from __future__ import annotations

import math
import time

import torch

from schemas.errors import BuildError
from train.config import TrainConfig
from train.metrics import Metrics
from train.step import Update

__all__ = ["PAIRS", "Progress"]

#: What the label of the pairs is called in what is printed; rows of mlm have none.
PAIRS = {"nsp": "next sentence", "sop": "sentence order"}


class Progress:
    """Adds up the losses, and prints a line every ``log_every`` steps and before a checkpoint.

    The sum is where the losses are: asking for one would wait for it.

    Args:
      config: of the run.
      first: updates made before.
      pairs: what the loss of the pairs is called; None where there are none.
      metrics: where the same goes; None in all processes but the first, which print nothing.
    """

    def __init__(
        self, config: TrainConfig, *, first: int, pairs: str | None, metrics: Metrics | None
    ):
        self._config = config
        self._first = first
        self._pairs = pairs
        self._metrics = metrics
        #: The mean loss of each line.
        self.losses: list[float] = []
        self._sum: torch.Tensor | None = None  # of the losses since the last line, float64 (2,)
        self._since_line = self._updates = self._tokens = 0
        self._last: Update | None = None
        self._trained = 0.0
        self._since = time.monotonic()

    def add(self, step: int, update: Update) -> None:
        """Note one update of number ``step``, from 0.

        Raises:
          BuildError: the mean of the losses for a line, or the gradient, is not a finite number.
        """
        losses = update.losses.double()
        self._sum = losses if self._sum is None else self._sum + losses
        self._last = update
        self._since_line += 1
        self._updates += 1
        self._tokens += update.tokens
        done = step + 1
        every = (self._config.log_every, self._config.save_checkpoints_steps)
        if all(done % n for n in every) and done not in (self._first + 1, self._config.steps):
            return
        self.show(done)

    def show(self, done: int) -> None:
        """The line of the updates since the last one, if there are any; raises what :meth:`add` does."""
        if self._sum is None or self._last is None:
            return
        masked_lm, next_sentence = (self._sum / self._since_line).tolist()
        norm = float(self._last.gradient_norm)
        self._sum, self._since_line = None, 0
        self.losses.append(masked_lm + next_sentence)
        seconds = self._trained + time.monotonic() - self._since
        values = {
            "loss": masked_lm + next_sentence,
            "masked_lm_loss": masked_lm,
            "next_sentence_loss": next_sentence if self._pairs else None,
            "learning_rate": self._last.learning_rate,
            "gradient_norm": norm,
            "tokens_per_second": self._tokens / seconds,
            "seconds": seconds,
        }
        if self._metrics:
            self._metrics.write("train", done, **values)
            left = seconds / self._updates * (self._config.steps - done)
            self._print(done, values, left=left)
        self._refuse(done, masked_lm + next_sentence, norm)

    def _refuse(self, done: int, loss: float, norm: float) -> None:
        # With float16 a gradient may be infinite: then the scaler has left that update out.
        small = self._config.precision == "float16"
        if not math.isfinite(loss) or not (small or math.isfinite(norm)):
            raise BuildError(
                f"the loss is {loss} and the gradient {norm} at step {done}: "
                "give a smaller --learning_rate, or more --warmup_steps"
            )

    def pause(self) -> None:
        """Time from here on is not training."""
        self._trained += time.monotonic() - self._since

    def go_on(self) -> None:
        """Time from here on is training again."""
        self._since = time.monotonic()

    def _print(self, done: int, values: dict[str, float | None], *, left: float) -> None:
        names = {"masked tokens": "masked_lm_loss"} | (
            {self._pairs: "next_sentence_loss"} if self._pairs else {}
        )
        each = ", ".join(f"{name} {values[key]:.4f}" for name, key in names.items())
        print(
            f"step {done:,} of {self._config.steps:,}: loss {values['loss']:.4f} ({each}), "
            f"{values['tokens_per_second']:,.0f} tokens/s, {_clock(left)} left",
            flush=True,
        )


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
