"""BERT's optimizer and learning rate, as in ``optimization.py`` of google-research/bert."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

__all__ = ["BertAdamW", "learning_rate", "parameter_groups"]

_NOT_DECAYED = re.compile(r"LayerNorm|layer_norm|bias")


class BertAdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay and without bias correction; torch's AdamW corrects it.

    Each step is ``p -= lr * (m / (sqrt(v) + eps) + weight_decay * p)``.

    Args:
      params: parameters, or groups of them (:func:`parameter_groups`).
      lr: set it before each step, by :func:`learning_rate`.
      betas: of the averages m and v.
      eps: added to the root.
      weight_decay: for groups that do not say their own.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ):
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update; parameters without a gradient stay as they are."""
        if closure is not None:
            raise NotImplementedError("one gradient, one step: there is nothing to evaluate again")
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            for p in parameters:
                if not self.state[p]:
                    self.state[p] = {"m": torch.zeros_like(p), "v": torch.zeros_like(p)}
            gradients = [p.grad for p in parameters]
            m = [self.state[p]["m"] for p in parameters]
            v = [self.state[p]["v"] for p in parameters]
            beta1, beta2 = group["betas"]
            torch._foreach_lerp_(m, gradients, 1 - beta1)
            torch._foreach_mul_(v, beta2)
            torch._foreach_addcmul_(v, gradients, gradients, 1 - beta2)
            roots = torch._foreach_sqrt(v)
            torch._foreach_add_(roots, group["eps"])
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_addcdiv_(parameters, m, roots, -group["lr"])


def parameter_groups(model: torch.nn.Module, *, weight_decay: float = 0.01) -> list[dict[str, Any]]:
    """Two groups: what is decayed, and LayerNorms and biases, which are not."""
    decayed: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (others if _NOT_DECAYED.search(name) else decayed).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


def learning_rate(step: int, *, peak: float, warmup_steps: int, steps: int) -> float:
    """That of update number ``step``, counted from 0.

    It rises from 0, and reaches 0 at ``steps`` on a line that starts at the peak at step 0, not where
    the warm-up ends: 0.99 of the peak there, if the warm-up is a hundredth of all steps.
    """
    if step < warmup_steps:
        return peak * step / warmup_steps
    return peak * (1 - min(step, steps) / steps)
