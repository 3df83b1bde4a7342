"""What each phase of a run reads, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from schemas.errors import ConfigError
from train.config import TrainConfig
from train.data import Batch, PretrainingDataset
from train.distributed import Ranks
from train.evaluation import EVALUATION_BATCH_SIZE
from train.phases import Phase

__all__ = ["PhaseData", "endless", "open_phase"]


class PhaseData(NamedTuple):
    """What a phase reads."""

    phase: Phase
    train: PretrainingDataset
    validation: PretrainingDataset | None

    @property
    def length(self) -> int:
        return self.train.data_set.max_seq_length


def endless(dataset: PretrainingDataset) -> Iterator[Batch]:
    """The batches of all updates that are left, epoch after epoch."""
    while True:
        yield from dataset


def open_phase(config: TrainConfig, phase: Phase, *, ranks: Ranks) -> PhaseData:
    """The rows of a phase, and the validation rows of the same length if there are any.

    Raises:
      ConfigError: the data set cannot be used, or the rows of an update cannot be shared evenly.
    """
    parts = config.gradient_accumulation_steps * ranks.world
    if phase.batch_size % parts:
        raise ConfigError(
            "batch_size",
            phase.batch_size,
            f"must be a multiple of {parts}: {ranks.world} processes, each of which takes its rows in "
            f"{config.gradient_accumulation_steps} parts",
        )
    try:
        dataset = PretrainingDataset(
            config.data,
            batch_size=phase.batch_size // ranks.world,
            max_seq_length=phase.max_seq_length,
            seed=config.seed,
            rank=ranks.rank,
            world_size=ranks.world,
            num_workers=config.num_workers,
            verify=config.verify,
        )
    except ConfigError as error:
        if error.field != "max_seq_length":
            raise
        lengths = sorted({p.max_seq_length for p in config.plan() if p.max_seq_length})
        remedy = (
            f"{error.remedy}; give --max_seq_length or --phases of what there is, or build the data "
            f"with --max_seq_length {','.join(map(str, lengths))}"
        )
        if config.phases:
            remedy = f"seq{phase.max_seq_length}: {remedy}"
            raise ConfigError("phases", config.phases, remedy) from None
        raise ConfigError(error.field, error.value, remedy) from None
    name = dataset.data_set.name
    validation = None
    for other in dataset.manifest.data_sets:
        if (other.name, other.split) == (name, "validation") and other.examples:
            validation = PretrainingDataset(
                config.data,
                batch_size=EVALUATION_BATCH_SIZE,
                max_seq_length=other.max_seq_length,
                split="validation",
            )
    return PhaseData(phase, dataset, validation)
