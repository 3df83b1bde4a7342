"""The processes of a run: one, or several that ``torchrun`` has started, each with its device."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist

from schemas.errors import BuildError, ConfigError

__all__ = ["Ranks", "join_ranks"]

#: What torch and gloo say of a process that is gone, in several spellings.
_GONE = ("gloo", "Connection", "NCCL", "connect() timed out", "recvValue")


@dataclasses.dataclass(frozen=True)
class Ranks:
    """The processes of a run.

    Attributes:
      rank: number of this one, from 0; the first prints and saves.
      world: how many.
      device: of this one.
    """

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this one prints and saves."""
        return self.rank == 0

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, in place; a tensor on the CPU or on the device."""
        if self.world > 1:
            dist.all_reduce(values)
        return values


@contextlib.contextmanager
def join_ranks(device: str) -> Iterator[Ranks]:
    """The processes of this run, until the block ends.

    Args:
      device: ``auto``, ``cpu`` or ``cuda``.

    Raises:
      ConfigError: ``cuda`` where there is none, or more processes than there are GPUs.
      BuildError: another process is gone.
    """
    world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    here = _choose_device(device)
    if world == 1:
        yield Ranks(0, 1, here)
        return
    try:
        # What is on the CPU goes by gloo, so that nothing has to wait for a GPU to learn of it.
        dist.init_process_group("cpu:gloo,cuda:nccl" if here.type == "cuda" else "gloo")
        yield Ranks(rank, world, here)
    except (RuntimeError, dist.DistError) as error:
        if isinstance(error, torch.OutOfMemoryError) or not _is_gone(error):
            raise
        raise BuildError(
            "another process of this run has ended; see what it said, then start all of them again "
            "with --resume"
        ) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _choose_device(device: str) -> torch.device:
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError("device", device, "torch finds no GPU here; give --device cpu")
    local, there = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if local >= there:
        raise ConfigError("device", device, f"there are {there} GPUs: start no more processes")
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def _is_gone(error: Exception) -> bool:
    return isinstance(error, dist.DistError) or any(text in str(error) for text in _GONE)
