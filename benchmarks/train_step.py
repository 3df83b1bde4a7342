"""Seconds an update of ours, against the ``Trainer`` of transformers, in one run.

    python -m benchmarks.train_step DATA [--models tiny mini] [--batch_size 32] [--steps 5] [--rounds 3]

Both have the same model, batches, AdamW of torch with the same settings, clipping and dropout. The
``Trainer`` calls ``BertForPreTraining`` with labels (B, T), -100 where there
is nothing to predict. They take turns, in processes of their own, so that a busy machine hurts both;
the median step counts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch
from transformers import (
    BertForPreTraining,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    get_linear_schedule_with_warmup,
)

from train.collator import IGNORED
from train.config import TrainConfig
from train.data import Batch, PretrainingDataset
from train.distributed import Ranks
from train.memory import keep_memory
from train.model import make_model
from train.optim import parameter_groups
from train.step import Stepper

_STEPS = 1_000
_PEAK = 1e-4


class _Clock(TrainerCallback):
    """The time of each step, from one beginning to the next."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())

    def steps(self) -> list[float]:
        """Seconds, without the first step, which sets things up."""
        return [b - a for a, b in itertools.pairwise(self.times)][1:]


def _as_labels(batch: Batch) -> Batch:
    """The batch as ``BertForPreTraining`` takes it."""
    labels = torch.full_like(batch["input_ids"], IGNORED)
    rows, columns = torch.nonzero(batch["masked_lm_weights"], as_tuple=True)
    labels[rows, batch["masked_lm_positions"][rows, columns]] = batch["masked_lm_ids"][
        rows, columns
    ]
    kept = {name: x for name, x in batch.items() if not name.startswith("masked_lm")}
    return kept | {"labels": labels}


def _ours(stepper: Stepper, batches: list[Batch]) -> list[float]:
    times = []
    for step, batch in enumerate(batches):
        start = time.perf_counter()
        update = stepper.update(batch, step=step)
        assert update is not None
        float(update.gradient_norm)  # as a step of the Trainer: it waits for the device
        times.append(time.perf_counter() - start)
    return times[1:]


def _theirs(model: BertForPreTraining, batches: list[Batch], optimizer: Any) -> list[float]:
    clock = _Clock()
    schedule = get_linear_schedule_with_warmup(optimizer, _STEPS // 100, _STEPS)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=len(batches),
            per_device_train_batch_size=1,  # of whole batches, which are made already
            max_grad_norm=1.0,
            remove_unused_columns=False,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
        )
        Trainer(
            model=model,
            args=arguments,
            train_dataset=[_as_labels(batch) for batch in batches],
            data_collator=lambda features: features[0],
            callbacks=[clock],
            optimizers=(optimizer, schedule),
        ).train()
    return clock.steps()


def _times(side: str, name: str, given: argparse.Namespace) -> list[float]:
    """Seconds of each update of one side, in this process."""
    dataset = PretrainingDataset(given.data, batch_size=given.batch_size)
    about = dataset.manifest.tokenizer
    model = make_model(name, vocab_size=about.vocab_size, pad_id=about.pad_id, seed=1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).train()  # type: ignore[arg-type]
    # One more than is timed, the first.
    batches = list(itertools.islice(dataset.batches(), given.steps + 1))
    if side == "ours":
        keep_memory()  # as the command does
        config = TrainConfig(
            data=given.data, output="", steps=_STEPS, learning_rate=_PEAK, optimizer="adamw"
        )
        return _ours(Stepper(config, model, ranks=Ranks(0, 1, device)), batches)
    groups = parameter_groups(model)
    return _theirs(model, batches, torch.optim.AdamW(groups, lr=_PEAK, eps=1e-6, foreach=True))


def _compare(name: str, given: argparse.Namespace) -> tuple[float, float]:
    """Seconds an update, ours and theirs: medians over processes that take turns."""
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for side in [*times] * given.rounds:
        command = [sys.executable, "-m", "benchmarks.train_step", given.data, "--side", side]
        command += ["--models", name, "--steps", str(given.steps)]
        command += ["--batch_size", str(given.batch_size)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        times[side] += json.loads(done.stdout.splitlines()[-1])
    return statistics.median(times["ours"]), statistics.median(times["theirs"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", help="a data set of nsp or sop")
    parser.add_argument("--models", nargs="+", default=["tiny", "mini"])
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=5, help="of each in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        print(json.dumps(_times(given.side, given.models[0], given)))
        return
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)
    print("| model | ours, s a step | Trainer, s a step | times |\n|---|---|---|---|", flush=True)
    for name in given.models:
        ours, theirs = _compare(name, given)
        print(f"| {name} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.1f} |", flush=True)


if __name__ == "__main__":
    main()
