"""One update: the loss of all its rows, wherever they are, its gradient, and the optimizer."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import BertForPreTraining

from train.batches import place, place_batch, split_batch
from train.config import TrainConfig
from train.data import Batch
from train.distributed import Ranks
from train.interrupts import termination
from train.model import SummedLosses
from train.optim import BertAdamW, learning_rate, parameter_groups

__all__ = ["Stepper", "Update", "autocast"]

#: The buffers are constants. Newer versions of torch warn of the older name.
_NAMES = inspect.signature(DistributedDataParallel).parameters
_KEEP_BUFFERS: dict[str, Any] = {
    "forward_sync_buffers" if "forward_sync_buffers" in _NAMES else "broadcast_buffers": False
}


class Update(NamedTuple):
    """What an update was, over all processes.

    Attributes:
      losses: float32 (2,), means over its masked tokens and over its pairs; on the device, so that
        nothing waits for it.
      gradient_norm: before it was clipped; on the device.
      learning_rate: of this update.
      tokens: without padding.
    """

    losses: torch.Tensor
    gradient_norm: torch.Tensor
    learning_rate: float
    tokens: int


class Stepper:
    """Makes updates of a model.

    The loss of an update is the mean over all its masked tokens, plus the mean over all its pairs,
    however its rows are spread over processes and parts (``gradient_accumulation_steps``): each part
    is divided by the counts of the whole update, which the processes tell each other first.

    Args:
      config: of the run.
      model: on its device, in training mode.
      ranks: the processes.
    """

    def __init__(self, config: TrainConfig, model: BertForPreTraining, *, ranks: Ranks):
        self._config = config
        self._ranks = ranks
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._losses: torch.nn.Module = SummedLosses(model)
        if ranks.world > 1:
            self._losses = DistributedDataParallel(self._losses, **_KEEP_BUFFERS)
        self._call: Any = torch.compile(self._losses) if config.compile else self._losses
        self.optimizer = _make_optimizer(config, model)
        self.scaler = torch.amp.GradScaler(ranks.device.type, enabled=config.precision == "float16")

    def update(self, batch: Batch, *, step: int) -> Update | None:
        """Update number ``step``, from 0, on this process' rows of it; None if SIGTERM has come.

        All processes get None for the same step.
        """
        parts = split_batch(batch, parts=self._config.gradient_accumulation_steps)
        counts = self._counts(batch)
        if counts[-1]:
            return None
        masked, rows, tokens = counts[:3].tolist()
        weights = torch.tensor([1 / max(1, masked), 1 / rows]) if rows else torch.zeros(2)
        if "next_sentence_label" not in batch:
            weights[1] = 0
        # Dropout is a function of the seed, the step and the process: there is no state to restore.
        seed = np.random.SeedSequence([self._config.seed, step, self._ranks.rank])
        torch.manual_seed(int(seed.generate_state(1)[0]))
        self.optimizer.zero_grad()
        losses = self._backward(parts, place(weights, self._ranks.device))
        norm = self._clip()
        rate = self._rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return Update(self._ranks.sum(losses), norm, rate, int(tokens))

    def state(self) -> dict[str, Any]:
        """What it takes to go on, beside the model."""
        return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` gave."""
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])

    def _counts(self, batch: Batch) -> torch.Tensor:
        """Float64 (4,) of all processes: masked tokens, rows, tokens, and who was told to end."""
        counted = [
            batch["masked_lm_weights"].sum().item(),
            len(batch["input_ids"]),
            batch["attention_mask"].sum().item(),
            termination.asked,
        ]
        return self._ranks.sum(torch.tensor(counted, dtype=torch.float64))

    def _backward(self, parts: list[Batch], weights: torch.Tensor) -> torch.Tensor:
        """Adds up the gradients of the parts; their share of the losses, (2,)."""
        total = torch.zeros_like(weights)
        for number, part in enumerate(parts):
            share = weights
            if not len(part["input_ids"]):  # every process has to take as many parts
                part, share = _one_row(part), torch.zeros_like(weights)
            waits: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if isinstance(self._losses, DistributedDataParallel) and number < len(parts) - 1:
                waits = self._losses.no_sync()
            with waits:
                with autocast(self._config, self._ranks.device):
                    losses = self._call(place_batch(part, self._ranks.device)).float() * share
                # The processes' gradients are averaged, and are to be added.
                self.scaler.scale(losses.sum() * self._ranks.world).backward()
            total += losses.detach()
        return total

    def _clip(self) -> torch.Tensor:
        """Shortens the gradient to ``max_grad_norm``; how long it was."""
        self.scaler.unscale_(self.optimizer)
        longest = self._config.max_grad_norm or float("inf")
        return torch.nn.utils.clip_grad_norm_(self._parameters, longest)

    def _rate(self, step: int) -> float:
        config = self._config
        assert config.warmup_steps is not None
        return learning_rate(
            step, peak=config.learning_rate, warmup_steps=config.warmup_steps, steps=config.steps
        )


def autocast(config: TrainConfig, device: torch.device) -> torch.autocast:
    """The context in which matrix products have the precision that was asked for."""
    kind = getattr(torch, config.precision)
    if kind == torch.float32:
        return torch.autocast(device.type, enabled=False)
    return torch.autocast(device.type, dtype=kind)


def _make_optimizer(config: TrainConfig, model: BertForPreTraining) -> torch.optim.Optimizer:
    groups = parameter_groups(model, weight_decay=config.weight_decay)
    betas = (0.9, config.adam_beta2)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=1e-6, foreach=True)
    return BertAdamW(groups, betas=betas)


def _one_row(like: Batch) -> Batch:
    """A row that says nothing, for a process without rows."""
    return {
        name: (torch.ones if name == "attention_mask" else torch.zeros)(
            (1, *tensor.shape[1:]), dtype=tensor.dtype
        )
        for name, tensor in like.items()
    }
