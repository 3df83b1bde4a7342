"""What a run says of itself before its first update, and what there is to be beaten."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transformers import BertForPreTraining

from train.baseline import frequency_baseline
from train.config import TrainConfig
from train.distributed import Ranks
from train.metrics import Metrics
from train.phase_data import PhaseData
from train.progress import PAIRS

__all__ = ["introduce"]


def introduce(
    config: TrainConfig,
    phases: Sequence[PhaseData],
    model: BertForPreTraining,
    *,
    ranks: Ranks,
    first: int,
    metrics: Metrics,
) -> None:
    """Print it, and write it as a line of kind ``run``.

    Args:
      config: of the run.
      phases: what it reads.
      model: what it trains.
      ranks: the processes.
      first: updates made before.
      metrics: where the line goes.
    """
    parameters = model.num_parameters()
    layers, hidden = model.config.num_hidden_layers, model.config.hidden_size
    processes = f" in {ranks.world} processes" if ranks.world > 1 else ""
    print(f"BERT of {layers} x {hidden}: {parameters:,} parameters, on {ranks.device}{processes}")
    for phase, dataset, _ in phases:
        about = dataset.data_set
        print(
            f"{phase.steps:,} steps of {phase.batch_size} rows of {about.name}/{about.split}: "
            f"{about.examples:,} examples, {len(dataset):,} steps an epoch"
        )
    baseline = frequency_baseline(
        config.data,
        max_seq_length=phases[0].length,
        seed=config.seed,
        validation=phases[0].validation is not None,
    )
    manifest = phases[0].train.manifest
    guess, text = _blind_guess(manifest.tokenizer.vocab_size, PAIRS.get(manifest.objective))
    print(f"A blind guess has loss {text}; {baseline.describe()}", flush=True)
    metrics.write(
        "run",
        first + 1,
        parameters=parameters,
        layers=layers,
        hidden_size=hidden,
        blind_loss=guess,
        baseline_loss=baseline.entropy,
        baseline_validation_loss=baseline.validation,
    )


def _blind_guess(vocab_size: int, pairs: str | None) -> tuple[float, str]:
    """Its loss, and the same for people: with its parts, where the pairs have one."""
    masked, paired = math.log(vocab_size), math.log(2)
    if not pairs:
        return masked, f"{masked:.4f}"
    text = f"{masked + paired:.4f} (masked tokens {masked:.4f}, {pairs} {paired:.4f})"
    return masked + paired, text
