"""Trains BERT on a data set: the loop and what it prints."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import BertForPreTraining
from transformers.utils import logging

from train.checkpoint import (
    Exporter,
    check_output,
    last_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from train.config import TrainConfig
from train.data import Batch, PretrainingDataset, to_device
from train.evaluation import Evaluation, evaluate
from train.model import make_model, pretraining_loss
from train.optim import BertAdamW, learning_rate, parameter_groups
from train.progress import Progress

__all__ = ["Report", "train"]

#: Longest gradient, all parameters taken together.
_CLIP_NORM = 1.0


class Report(NamedTuple):
    """What came of a run.

    Attributes:
      first_step: updates that had been made when it started.
      losses: the loss of each update it made.
      evaluation: after the last one; None without a validation split.
    """

    first_step: int
    losses: list[float]
    evaluation: Evaluation | None


def train(config: TrainConfig) -> Report:
    """Train, with checkpoints, and leave a model in ``config.output`` that ``transformers`` loads.

    Raises:
      ConfigError: the data set cannot be used, or there is something else in the output directory.
      BuildError: the loss is not a number any more.
    """
    dataset = PretrainingDataset(
        config.data,
        batch_size=config.batch_size,
        max_seq_length=config.max_seq_length,
        seed=config.seed,
    )
    logging.disable_progress_bar()  # for one file, of a second
    output = Path(config.output)
    check_output(output, resume=config.resume)
    exporter = Exporter(config.data, dataset.manifest)
    validation = _validation(config, dataset)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    length = dataset.data_set.max_seq_length
    settings: dict[str, Any] = {
        **config.decides(),
        "max_seq_length": length,
        "data": dataset.digest[:12],
    }
    first, model, optimizer = _start(config, settings, dataset, device=device)
    print(_header(config, dataset, model, device=device), flush=True)

    progress = Progress(config, first=first)
    evaluation = None
    batches = itertools.islice(_endless(dataset, first), config.steps - first)
    for step, batch in enumerate(batches, first):
        loss = _update(config, model, optimizer, batch, step=step, device=device)
        progress.add(step, loss, tokens=int(batch["attention_mask"].sum()))
        done = step + 1
        if done % config.save_checkpoints_steps == 0 or done == config.steps:
            if validation:
                evaluation = evaluate(model, validation)
                print(f"step {done:,}: validation: {evaluation}", flush=True)
            save_checkpoint(
                output,
                step=done,
                settings=settings,
                model=model,
                optimizer=optimizer,
                exporter=exporter,
            )
    exporter.export(model, output)
    print(f"Done: the model is in {config.output}", flush=True)
    return Report(first, progress.losses(), evaluation)


def _validation(config: TrainConfig, dataset: PretrainingDataset) -> PretrainingDataset | None:
    name = dataset.data_set.name
    for other in dataset.manifest.data_sets:
        if (other.name, other.split) == (name, "validation") and other.examples:
            return PretrainingDataset(
                config.data,
                batch_size=config.batch_size,
                max_seq_length=other.max_seq_length,
                split="validation",
            )
    return None


def _start(
    config: TrainConfig,
    settings: dict[str, Any],
    dataset: PretrainingDataset,
    *,
    device: torch.device,
) -> tuple[int, BertForPreTraining, BertAdamW]:
    """Updates made so far, the model and the optimizer: new, or as the last checkpoint has them."""
    path = last_checkpoint(Path(config.output)) if config.resume else None
    step, state = 0, None
    if path:
        model, state, step = load_checkpoint(path, settings=settings)
    else:
        model = make_model(
            config.model,
            vocab_size=dataset.manifest.tokenizer.vocab_size,
            pad_id=dataset.manifest.tokenizer.pad_id,
            seed=config.seed,
            max_seq_length=dataset.data_set.max_seq_length,
        )
    model.to(device).train()  # type: ignore[arg-type]
    optimizer = BertAdamW(parameter_groups(model))
    if state:
        optimizer.load_state_dict(state)
    return step, model, optimizer


def _endless(dataset: PretrainingDataset, step: int) -> Iterator[Batch]:
    """The batches of all updates from number ``step`` on, epoch after epoch."""
    epoch, start = divmod(step, len(dataset))
    while True:
        yield from dataset.batches(epoch=epoch, start=start)
        epoch, start = epoch + 1, 0


def _update(
    config: TrainConfig,
    model: BertForPreTraining,
    optimizer: BertAdamW,
    batch: Batch,
    *,
    step: int,
    device: torch.device,
) -> torch.Tensor:
    """One update; its losses (3,): total, masked tokens, next sentence."""
    # Dropout is a function of the seed and the step: then there is no state of it to restore.
    torch.manual_seed(int(np.random.SeedSequence([config.seed, step]).generate_state(1)[0]))
    loss = pretraining_loss(model, to_device(batch, device))
    optimizer.zero_grad()
    loss.total.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
    assert config.warmup_steps is not None
    rate = learning_rate(
        step, peak=config.learning_rate, warmup_steps=config.warmup_steps, steps=config.steps
    )
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return torch.stack(loss).detach()


def _header(
    config: TrainConfig,
    dataset: PretrainingDataset,
    model: BertForPreTraining,
    *,
    device: torch.device,
) -> str:
    about = dataset.data_set
    guess = math.log(dataset.manifest.tokenizer.vocab_size) + math.log(2)
    return (
        f"{config.model}: {model.num_parameters():,} parameters, on {device}; "
        f"{about.name}/{about.split}: {about.examples:,} examples, {len(dataset):,} steps an epoch "
        f"of {config.batch_size}; a blind guess has loss {guess:.4f}"
    )
