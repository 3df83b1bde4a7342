"""Trains BERT on a data set: the loop, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import BertForPreTraining
from transformers.utils import logging

from schemas.errors import BuildError
from train.checkpoint import check_output, last_checkpoint, load_checkpoint, save_checkpoint
from train.config import TrainConfig
from train.distributed import Ranks, join_ranks
from train.evaluation import Evaluation, evaluate, write_predictions
from train.export import Exporter
from train.interrupts import TerminatedError
from train.introduction import introduce
from train.manifest import masks_depend_on
from train.metrics import Metrics
from train.phase_data import PhaseData, endless, open_phase
from train.progress import PAIRS, Progress
from train.saving import saving
from train.start import start_model
from train.step import Stepper, autocast

__all__ = ["Report", "train"]


class Report(NamedTuple):
    """What came of a run.

    Attributes:
      first_step: updates that had been made when it started.
      losses: the mean loss of the updates of each line of its log.
      evaluation: after the last one; None without a validation split.
    """

    first_step: int
    losses: list[float]
    evaluation: Evaluation | None


def train(config: TrainConfig) -> Report:
    """Train, with checkpoints, and leave a model in ``config.output`` that ``transformers`` loads.

    Raises:
      ConfigError: the data set cannot be used, or there is something else in the output directory.
      BuildError: the loss is not a number any more, something cannot be written, or another process
        of the run is gone.
      TerminatedError: SIGTERM has come; the checkpoint of the last update is there.
    """
    logging.disable_progress_bar()  # for one file, of a second
    logging.set_verbosity_error()
    with join_ranks(config.device) as ranks:
        run = _Run(config, ranks)
        try:
            return run.run()
        finally:
            if run.metrics:
                run.metrics.close()


class _Run:
    """One call of :func:`train`; its parts share all of this."""

    def __init__(self, config: TrainConfig, ranks: Ranks):
        self.config, self.ranks = config, ranks
        self.data = [open_phase(config, phase, ranks=ranks) for phase in config.plan()]
        self.manifest = self.data[0].train.manifest
        self.pairs = PAIRS.get(self.manifest.objective)
        self.output = Path(config.output)
        if ranks.first:
            check_output(self.output, resume=config.resume)
        ranks.sum(torch.zeros(1))  # the others wait for it, and for a directory
        self.exporter = Exporter(config.data, self.manifest)
        #: Where reading the rows of each length has come to; later phases of it go on there.
        self.read: dict[int, dict[str, Any]] = {}
        self.first, self.model, state = self._start()
        if not self.pairs:  # what has no gradient is not waited for
            for name, parameter in self.model.named_parameters():
                if "pooler" in name or "seq_relationship" in name:
                    parameter.requires_grad_(False)
        self.model.to(ranks.device).train()  # type: ignore[arg-type]
        self.stepper = Stepper(config, self.model, ranks=ranks)
        if state:
            self.stepper.load(state)
        self.metrics = Metrics(self.output, first=self.first) if ranks.first else None
        self.progress = Progress(config, first=self.first, pairs=self.pairs, metrics=self.metrics)
        self.evaluation: Evaluation | None = None

    def run(self) -> Report:
        """All updates that are left, and the export."""
        if self.metrics:
            introduce(
                self.config,
                self.data,
                self.model,
                ranks=self.ranks,
                first=self.first,
                metrics=self.metrics,
            )
        self.progress.go_on()
        for data in self.data:
            self._phase(data)
        if self.metrics:
            self.exporter.export(self.model, self.output)
            self.metrics.draw()
            self._show(self.data[-1])
            print(f"Done: the model is in {self.config.output}", flush=True)
        return Report(self.first, self.progress.losses, self.evaluation)

    def _phase(self, data: PhaseData) -> None:
        """What is left of the updates of a phase."""
        start = max(0, self.first - data.phase.first_step)
        if start >= data.phase.steps:
            return
        if data.length in self.read:
            data.train.load_state_dict(self.read[data.length])
        numbers = range(data.phase.first_step + start, data.phase.first_step + data.phase.steps)
        for step, batch in zip(numbers, endless(data.train), strict=False):
            update = self.stepper.update(batch, step=step)
            if update is None:
                self._terminate(step)
            else:
                self.read[data.length] = data.train.state_dict()
                self.progress.add(step, update)
                self._after(step + 1, data)

    def _after(self, done: int, data: PhaseData) -> None:
        """What comes after so many updates: validation and a checkpoint, every so often."""
        if done % self.config.save_checkpoints_steps and done != self.config.steps:
            return
        self.progress.pause()
        if data.validation:
            self.evaluation = evaluate(
                self.model,
                data.validation,
                ranks=self.ranks,
                precision=autocast(self.config, self.ranks.device),
            )
            if self.metrics:
                values = {**self.evaluation._asdict(), "perplexity": self.evaluation.perplexity}
                self.metrics.write("validation", done, **values)
                text = self.evaluation.describe(self.pairs)
                print(f"step {done:,}: validation: {text}", flush=True)
        if self.metrics:
            self._save(done)
            self.metrics.draw()
        self.progress.go_on()

    def _terminate(self, done: int) -> None:
        try:
            self.progress.show(done)
            if done > self.first and self.ranks.first:
                self._save(done)
        except BuildError as error:
            raise TerminatedError(f"terminated, and not saved: {error}") from None
        raise TerminatedError(
            f"terminated after {done:,} of {self.config.steps:,} steps; --resume goes on from there"
        )

    def _save(self, done: int) -> None:
        save_checkpoint(
            self.output,
            step=done,
            settings=self._settings(),
            model=self.model,
            state={**self.stepper.state(), "loaders": self.read},
            exporter=self.exporter,
            keep=self.config.keep_checkpoints,
        )

    def _settings(self) -> dict[str, Any]:
        """What decides the losses, and has to be the same in a run that goes on."""
        phases = ", ".join(
            f"{d.phase.steps} x {d.phase.batch_size} x {d.length}" for d in self.data
        )
        digests = " ".join(d.train.digest[:12] for d in self.data)
        predictions = ", ".join(str(d.train.data_set.max_predictions_per_seq) for d in self.data)
        return {
            **self.config.decides(),
            "phases": phases,
            "data": digests,
            **masks_depend_on(self.manifest),
            "max_predictions_per_seq": predictions,
            "tokenizer": self.manifest.tokenizer.digest[:12],
        }

    def _start(self) -> tuple[int, BertForPreTraining, dict[str, Any] | None]:
        """Updates made so far, the model, and the optimizer's state if there is any yet."""
        config = self.config
        path = last_checkpoint(self.output) if config.resume else None
        if path:
            found = load_checkpoint(path, settings=self._settings(), model=config.model)
            self.read = found.state["loaders"]
            return found
        if config.resume and self.ranks.first:
            print(f"No checkpoint in {config.output} yet: starting at step 0", flush=True)
        model = start_model(
            config,
            about=self.manifest.tokenizer,
            tokenizer=self.exporter.tokenizer,
            max_seq_length=max(d.length for d in self.data),
        )
        return 0, model, None

    def _show(self, data: PhaseData) -> None:
        """A few predictions as text, printed and written."""
        name = "held-out" if data.validation else "training"
        lines = write_predictions(
            self.model, data.validation or data.train, self.exporter.tokenizer
        )
        text = "\n".join(
            [f"Predictions on {name} rows, {{right}} and {{predicted/original}}:", *lines]
        )
        path = self.output / "predictions.txt"
        with saving(path):
            path.write_text(text + "\n", encoding="utf8")
        print(text, flush=True)
