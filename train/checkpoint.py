"""What a run leaves in its output directory: checkpoints and the trained model.

::

  OUTPUT/
    config.json model.safetensors tokenizer.json ...   the trained model; config.json comes last
    checkpoint-1000/   the same of that step, and training_state.pt: what it takes to go on

A checkpoint is whole or absent: it is written under a temporary name and renamed.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import BertForPreTraining, PreTrainedTokenizerFast

from schemas.errors import ConfigError
from schemas.manifest import Manifest, open_file
from train.optim import BertAdamW

__all__ = ["Exporter", "check_output", "last_checkpoint", "load_checkpoint", "save_checkpoint"]

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_TEMPORARY = re.compile(r"\.(?:checkpoint-\d+|export)\.tmp")
_STATE = "training_state.pt"


class Exporter:
    """Writes a model as ``transformers`` loads it, with the tokenizer of the data set.

    Args:
      directory: the data set.
      manifest: its manifest.
    """

    def __init__(self, directory: str, manifest: Manifest):
        with open_file(posixpath.join(directory, manifest.tokenizer.file)) as file:
            self._text = file.read()
        self._about = manifest.tokenizer

    def write(self, model: BertForPreTraining, folder: Path) -> None:
        """Write config, weights and tokenizer into ``folder``, which is made."""
        model.save_pretrained(folder)
        tokenizer = Tokenizer.from_buffer(self._text)
        names = ("pad", "unk", "cls", "sep", "mask")
        # Says of itself what it is; BertTokenizerFast would lower-case text unless told not to.
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            model_max_length=model.config.max_position_embeddings,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
            **{f"{n}_token": tokenizer.id_to_token(getattr(self._about, f"{n}_id")) for n in names},
        ).save_pretrained(folder)
        (folder / "tokenizer.json").write_bytes(self._text)  # as it was, to the byte

    def export(self, model: BertForPreTraining, output: Path) -> None:
        """Write the trained model into ``output`` itself, beside the checkpoints."""
        temporary = output / ".export.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        self.write(model, temporary)
        _flush(temporary)
        names = sorted(os.listdir(temporary), key=lambda name: (name == "config.json", name))
        for name in names:
            os.replace(temporary / name, output / name)
        temporary.rmdir()


def check_output(output: Path, *, resume: bool) -> None:
    """Make the directory; refuse, with ``ConfigError``, to write over anything in it."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("output", str(output), f"cannot be made: {error.strerror}") from None
    for name in os.listdir(output):
        if _TEMPORARY.fullmatch(name):
            shutil.rmtree(output / name)
    if any(output.iterdir()) and not (resume and last_checkpoint(output)):
        remedy = "give an empty directory"
        if last_checkpoint(output):
            remedy = "--resume goes on with it, or give an empty directory"
        raise ConfigError("output", str(output), f"already holds something; {remedy}")


def last_checkpoint(output: Path) -> Path | None:
    """The checkpoint of the highest step, or None."""
    found = [path for path in output.iterdir() if _CHECKPOINT.fullmatch(path.name)]
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def save_checkpoint(
    output: Path,
    *,
    step: int,
    settings: dict[str, Any],
    model: BertForPreTraining,
    optimizer: BertAdamW,
    exporter: Exporter,
) -> None:
    """Write ``checkpoint-STEP``, whole or not at all, then remove those before it.

    Args:
      output: where to.
      step: updates made so far.
      settings: what a run that goes on must agree with; plain values.
      model, optimizer: as they are after that many updates.
      exporter: of the data set.
    """
    path = output / f"checkpoint-{step}"
    temporary = _temporary(path)
    exporter.write(model, temporary)
    state = {"step": step, "settings": settings, "optimizer": optimizer.state_dict()}
    torch.save(state, temporary / _STATE)
    _flush(temporary)
    os.replace(temporary, path)
    for other in list(output.iterdir()):
        if _CHECKPOINT.fullmatch(other.name) and other != path:
            # Renamed first, so that no half of it can be taken for a checkpoint.
            os.replace(other, _temporary(other))
            shutil.rmtree(_temporary(other))


def load_checkpoint(
    path: Path, *, settings: dict[str, Any]
) -> tuple[BertForPreTraining, dict, int]:
    """Model, state of the optimizer, and step; ``ConfigError`` if it was made with other settings."""
    state = torch.load(path / _STATE, weights_only=True, map_location="cpu")
    for name, value in settings.items():
        if (old := state["settings"].get(name)) != value:
            raise ConfigError(
                "resume",
                True,
                f"{path} was made with {name}={old}, not {value}; give that, or another --output",
            )
    model = BertForPreTraining.from_pretrained(path, local_files_only=True)
    return model, state["optimizer"], state["step"]


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _flush(folder: Path) -> None:
    """To the disk, before the names say that it is there."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
