"""What a run leaves in its output directory: checkpoints and the trained model.

::

  OUTPUT/
    config.json model.safetensors tokenizer.json ...   the trained model; config.json comes last
    checkpoint-1000/   the same of that step, and training_state.pt: what it takes to go on
    metrics.jsonl tensorboard/ loss.png predictions.txt   what it said; see ``train.metrics``

A checkpoint is whole or absent: it is written under a temporary name and renamed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import BertForPreTraining

from schemas.errors import ConfigError
from train.export import Exporter, flush, temporary_name, writing
from train.metrics import WRITTEN
from train.shapes import model_shape

__all__ = [
    "Checkpoint",
    "check_output",
    "last_checkpoint",
    "load_checkpoint",
    "save_checkpoint",
]

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_TEMPORARY = re.compile(r"\.(?:checkpoint-\d+|export|metrics\.jsonl|loss\.png)\.tmp")
_STATE = "training_state.pt"

#: What the latter has; see ``train.train``.
_PARTS = frozenset({"step", "settings", "optimizer", "scaler", "loaders"})


def check_output(output: Path, *, resume: bool) -> None:
    """Make the directory; refuse, with ``ConfigError``, to write over anything in it.

    A run that ended before its first checkpoint has left a log, which ``resume`` begins anew.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("output", str(output), f"cannot be made: {error.strerror}") from None
    try:
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise ConfigError("output", str(output), f"cannot be written: {error.strerror}") from None
    for name in os.listdir(output):
        if _TEMPORARY.fullmatch(name):
            path = output / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    left = {path.name for path in output.iterdir()}
    begun = bool(last_checkpoint(output)) or left <= WRITTEN
    if left and not (resume and begun):
        remedy = "give an empty directory"
        if begun:
            remedy = "--resume goes on with it, or give an empty directory"
        raise ConfigError("output", str(output), f"already holds something; {remedy}")


def last_checkpoint(output: Path) -> Path | None:
    """The checkpoint of the highest step, or None."""
    found = _checkpoints(output)
    return found[-1] if found else None


def save_checkpoint(
    output: Path,
    *,
    step: int,
    settings: dict[str, Any],
    model: BertForPreTraining,
    state: dict[str, Any],
    exporter: Exporter,
    keep: int,
) -> None:
    """Write ``checkpoint-STEP``, whole or not at all, then remove all but the last ones.

    Args:
      output: where to.
      step: updates made so far.
      settings: what a run that goes on must agree with; plain values.
      model: as it is after that many updates.
      state: of the optimizer, see ``Stepper.state``.
      exporter: of the data set.
      keep: how many are left.

    Raises:
      BuildError: it cannot be written.
    """
    path = output / f"checkpoint-{step}"
    if path.exists():  # of the run that this one goes on with
        return
    temporary = temporary_name(path)
    with writing(path, temporary):
        exporter.write(model, temporary)
        # Given a name, torch keeps to itself what the system says of a disk that is full.
        with (temporary / _STATE).open("wb") as file:
            torch.save({"step": step, "settings": settings, **state}, file)
        flush(temporary)
        os.replace(temporary, path)
    for other in _checkpoints(output)[:-keep]:
        # Renamed first, so that no half of it can be taken for a checkpoint.
        os.replace(other, temporary_name(other))
        shutil.rmtree(temporary_name(other))


class Checkpoint(NamedTuple):
    """What a run goes on from: updates made, the model after them, the state of the optimizer."""

    step: int
    model: BertForPreTraining
    state: dict[str, Any]


def load_checkpoint(path: Path, *, settings: dict[str, Any], model: str | None) -> Checkpoint:
    """The checkpoint.

    Args:
      path: where it is.
      settings: as they were given to :func:`save_checkpoint`.
      model: see ``train.shapes.model_shape``; None for any.

    Raises:
      ConfigError: it was made with other settings, is of another shape, or cannot be read.
    """
    state = _read_state(path)
    for name, value in settings.items():
        if (old := state["settings"].get(name)) != value:
            raise ConfigError(
                "resume",
                True,
                f"{path} was made with {name}={old}, not {value}; give that, or another --output",
            )
    loaded = _read_model(path)
    shape = (loaded.config.num_hidden_layers, loaded.config.hidden_size)
    if model is not None and shape != model_shape(model):
        raise ConfigError("model", model, f"{path} has the shape {shape[0]},{shape[1]}; give that")
    return Checkpoint(state["step"], loaded, state)


def _read_state(path: Path) -> dict[str, Any]:
    file = path / _STATE
    try:
        state = torch.load(file, weights_only=True, map_location="cpu")
    except Exception as error:  # what was cut or damaged has many
        raise _unreadable(file, error) from None
    if missing := sorted(_PARTS - set(state)):
        raise _unreadable(file, f"it has no {', '.join(missing)}")
    return state


def _read_model(path: Path) -> BertForPreTraining:
    config, weights = path / "config.json", path / "model.safetensors"
    try:
        json.loads(config.read_text(encoding="utf8"))  # without one, transformers makes one up
    except (OSError, ValueError) as error:
        raise _unreadable(config, error) from None
    try:
        loaded: Any = BertForPreTraining.from_pretrained(
            path, local_files_only=True, output_loading_info=True
        )
    except Exception as error:
        raise _unreadable(weights, error if weights.exists() else "it is missing") from None
    if missing := sorted(loaded[1]["missing_keys"]):
        raise _unreadable(weights, f"it has no {missing[0]}")
    return loaded[0]


def _unreadable(file: Path, why: Exception | str) -> ConfigError:
    if isinstance(why, Exception):  # those of the libraries are long, and of other things
        why = getattr(why, "strerror", None) or type(why).__name__
    return ConfigError(
        "resume",
        True,
        f"{file} cannot be read: {why}; delete {file.parent}, then --resume goes on from the "
        "checkpoint before it, or anew",
    )


def _checkpoints(output: Path) -> list[Path]:
    """All of them, the last one last."""
    found = [path for path in output.iterdir() if _CHECKPOINT.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))
