"""What a process takes at a time of its rows of an update, and where."""

from __future__ import annotations

import torch

from train.data import Batch
from train.model import gather_masked

__all__ = ["place", "place_batch", "split_batch"]


def split_batch(batch: Batch, *, parts: int) -> list[Batch]:
    """Parts of the batch, one after the other; the last ones may be without rows."""
    if parts == 1:
        return [batch]
    size = -(-len(batch["input_ids"]) // parts)
    cuts = [slice(i * size, (i + 1) * size) for i in range(parts)]
    return [{name: tensor[cut] for name, tensor in batch.items()} for cut in cuts]


def place_batch(batch: Batch, device: torch.device) -> Batch:
    """The batch there, as the model takes it; see ``train.model.gather_masked``."""
    return {name: place(tensor, device) for name, tensor in gather_masked(batch).items()}


def place(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the CPU there; a GPU is not waited for, which pageable memory would take."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
