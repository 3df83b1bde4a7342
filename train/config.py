"""The settings of a training run, checked. Nothing here needs torch."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

from schemas.errors import ConfigError

__all__ = ["PRESETS", "TrainConfig", "model_shape"]

#: Layers and hidden size: those of Devlin et al. (base, large) and Turc et al., arXiv:1908.08962.
PRESETS = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}

#: BERT's size of an attention head.
HEAD_SIZE = 64

#: The smallest value each number may have; a learning rate of 0 would train nothing.
_AT_LEAST = {
    "steps": 1,
    "batch_size": 1,
    "warmup_steps": 0,
    "max_seq_length": 1,
    "seed": 0,
    "log_every": 1,
    "save_checkpoints_steps": 1,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What ``bert-train`` is told; ``ConfigError`` for a value that is not allowed.

    Attributes:
      data: a finished data set.
      output: the directory of checkpoints and of the trained model.
      model: a preset, or layers and hidden size as ``"L,H"``.
      steps: updates in all; the learning rate reaches 0 there.
      batch_size: rows an update.
      learning_rate: the peak.
      warmup_steps: updates until the peak; None becomes a hundredth of ``steps``, as in BERT.
      max_seq_length: which of the data set's lengths; None for the shortest.
      seed: of the weights, the order of the rows and the dropout.
      resume: go on from the last checkpoint in ``output``.
      log_every: steps between two lines of progress.
      save_checkpoints_steps: steps between two checkpoints; the last step has one as well.
    """

    data: str
    output: str
    model: str = "tiny"
    steps: int = 10_000
    batch_size: int = 32
    learning_rate: float = 1e-4
    warmup_steps: int | None = None
    max_seq_length: int | None = None
    seed: int = 12_345
    resume: bool = False
    log_every: int = 50
    save_checkpoints_steps: int = 1_000

    def __post_init__(self) -> None:
        model_shape(self.model)
        for name, low in _AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise ConfigError(name, value, f"must be a whole number, at least {low}")
        if not 0 < self.learning_rate < math.inf:
            raise ConfigError("learning_rate", self.learning_rate, "must be a number above 0")
        if self.warmup_steps is None:
            object.__setattr__(self, "warmup_steps", self.steps // 100)
        elif self.warmup_steps > self.steps:
            raise ConfigError(
                "warmup_steps", self.warmup_steps, f"is more than --steps={self.steps}"
            )

    def decides(self) -> dict[str, Any]:
        """The settings that decide the losses: a run is resumed with the same ones only."""
        about_the_run = {"data", "output", "resume", "log_every", "save_checkpoints_steps"}
        return {k: v for k, v in dataclasses.asdict(self).items() if k not in about_the_run}


def model_shape(model: str) -> tuple[int, int]:
    """Layers and hidden size of a preset or an ``"L,H"``; ``ConfigError`` if it is neither."""
    if model in PRESETS:
        return PRESETS[model]
    if match := re.fullmatch(r"(\d+),(\d+)", model):
        layers, hidden = int(match[1]), int(match[2])
        if layers and hidden and hidden % HEAD_SIZE == 0:
            return layers, hidden
    raise ConfigError(
        "model",
        model,
        f"must be one of {', '.join(PRESETS)}, or layers and hidden size, such as 4,256, "
        f"the size a multiple of {HEAD_SIZE}",
    )
