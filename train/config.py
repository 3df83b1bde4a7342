"""The settings of a training run, checked. Nothing here needs torch."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from schemas.errors import ConfigError
from train.phases import Phase, plan_phases
from train.shapes import model_shape

__all__ = ["CHOICES", "TrainConfig"]

#: The smallest value of a setting.
_AT_LEAST = {
    "steps": 1,
    "warmup_steps": 0,
    "max_seq_length": 1,
    "gradient_accumulation_steps": 1,
    "num_workers": 0,
    "weight_decay": 0.0,
    "max_grad_norm": 0.0,
    "seed": 0,
    "log_every": 1,
    "save_checkpoints_steps": 1,
    "keep_checkpoints": 1,
}

#: So that the product of any two has room in float32.
_LARGEST = 1e15

#: What torch's generators and the order of the rows both take.
_HIGHEST_SEED = 2**63 - 1

#: The values of a setting that has few.
CHOICES = {
    "optimizer": ("bert", "adamw"),
    "precision": ("float32", "bfloat16", "float16"),
    "device": ("auto", "cpu", "cuda"),
}

#: What may be another in a run that is resumed. The losses stay the same with another number of
#: processes or accumulation steps too, but for rounding and for what dropout draws.
_ABOUT_THE_RUN = frozenset(
    {
        *("data", "output", "model", "phases", "max_seq_length", "batch_size"),  # see train.train
        *("resume", "init", "log_every", "save_checkpoints_steps", "keep_checkpoints"),
        *("device", "compile", "num_workers", "verify", "gradient_accumulation_steps"),
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What ``bert-train`` is told; ``ConfigError`` for a value that is not allowed.

    Attributes:
      data: a finished data set.
      output: the directory of checkpoints and of the trained model.
      model: a preset, or layers and hidden size as ``"L,H"``; None for tiny, or that of ``init``.
      init: a directory that ``save_pretrained`` wrote, whose weights the run starts from.
      steps: updates in all; the learning rate reaches 0 there.
      batch_size: rows an update, over all processes and accumulation steps; one number, or one for
        each phase.
      learning_rate: the peak.
      warmup_steps: updates until the peak; None becomes a hundredth of ``steps``, as in BERT.
      phases: lengths and their shares of the steps, as ``"seq128:0.9,seq512:0.1"``.
      max_seq_length: which of the data set's lengths, without ``phases``; None for the shortest.
      optimizer: ``bert`` for BERT's own, ``adamw`` for torch's.
      weight_decay: of everything but LayerNorms and biases.
      adam_beta2: of the average of squares.
      max_grad_norm: the longest gradient; 0 for any.
      dropout: share of the activations, and of the attention, that are dropped.
      precision: of the matrix products; the weights are float32 always.
      gradient_accumulation_steps: parts that the rows of an update are taken in.
      compile: by ``torch.compile``.
      num_workers: threads that make batches ahead.
      verify: read all shards before the run and check their sums.
      device: ``auto`` for a GPU if there is one.
      seed: of the weights, the order of the rows and the dropout.
      resume: go on from the last checkpoint in ``output``.
      log_every: steps between two lines of progress.
      save_checkpoints_steps: steps between two checkpoints; the last step has one as well.
      keep_checkpoints: how many of them are left.
    """

    data: str
    output: str
    model: str | None = None
    init: str | None = None
    steps: int = 10_000
    batch_size: tuple[int, ...] | int = 32
    learning_rate: float = 1e-4
    warmup_steps: int | None = None
    phases: str | None = None
    max_seq_length: int | None = None
    optimizer: str = "bert"
    weight_decay: float = 0.01
    adam_beta2: float = 0.999
    max_grad_norm: float = 1.0
    dropout: float = 0.1
    precision: str = "float32"
    gradient_accumulation_steps: int = 1
    compile: bool = False
    num_workers: int = 2
    verify: bool = False
    device: str = "auto"
    seed: int = 12_345
    resume: bool = False
    log_every: int = 50
    save_checkpoints_steps: int = 1_000
    keep_checkpoints: int = 2

    def __post_init__(self) -> None:
        if self.model is None and self.init is None:
            object.__setattr__(self, "model", "tiny")
        if self.model is not None:
            model_shape(self.model)
        self._check_values()
        if self.warmup_steps is None:
            object.__setattr__(self, "warmup_steps", self.steps // 100)
        elif self.warmup_steps > self.steps:
            raise ConfigError(
                "warmup_steps", self.warmup_steps, f"is more than --steps={self.steps}"
            )
        self.plan()

    def _check_values(self) -> None:
        for name, low in _AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and not low <= value < math.inf:
                kind = "number" if isinstance(low, float) else "whole number"
                raise ConfigError(name, value, f"must be a {kind}, at least {low}")
        if self.seed > _HIGHEST_SEED:
            raise ConfigError("seed", self.seed, f"must be at most {_HIGHEST_SEED}")
        if "://" in self.output:
            raise ConfigError(
                "output", self.output, "must be a local directory; copy it from there afterwards"
            )
        for name, allowed in CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                raise ConfigError(name, value, f"must be one of {', '.join(allowed)}")
        for size in self.batch_sizes:
            if size < 1:
                raise ConfigError("batch_size", size, "must be a whole number, at least 1")
            if size % self.gradient_accumulation_steps:
                raise ConfigError(
                    "batch_size",
                    size,
                    "must be a multiple of "
                    f"--gradient_accumulation_steps={self.gradient_accumulation_steps}",
                )
        if not 0 < self.learning_rate <= _LARGEST:
            raise ConfigError(
                "learning_rate",
                self.learning_rate,
                f"must be a number above 0, at most {_LARGEST:g}; BERT's is 1e-4",
            )
        if self.weight_decay > _LARGEST:
            raise ConfigError("weight_decay", self.weight_decay, f"must be at most {_LARGEST:g}")
        for name in ("dropout", "adam_beta2"):
            if not 0 <= (value := getattr(self, name)) < 1:
                raise ConfigError(name, value, "must be at least 0 and below 1")

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """One, or one for each phase."""
        return (self.batch_size,) if isinstance(self.batch_size, int) else self.batch_size

    def plan(self) -> tuple[Phase, ...]:
        """The phases of the run."""
        return plan_phases(
            self.phases,
            max_seq_length=self.max_seq_length,
            steps=self.steps,
            batch_size=self.batch_sizes,
        )

    def decides(self) -> dict[str, Any]:
        """The settings that decide the losses: a run is resumed with the same ones only."""
        return {k: v for k, v in dataclasses.asdict(self).items() if k not in _ABOUT_THE_RUN}
