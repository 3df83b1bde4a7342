"""Models as ``transformers`` loads them, in folders that are whole or absent."""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer
from transformers import BertForPreTraining, PreTrainedTokenizerFast

from schemas.manifest import Manifest
from schemas.stores import open_file
from train.saving import saving

__all__ = ["Exporter", "flush", "temporary_name", "writing"]


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

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the data set."""
        return Tokenizer.from_buffer(self._text)

    def write(self, model: BertForPreTraining, folder: Path) -> None:
        """Write config, weights and tokenizer into ``folder``, which is made."""
        model.save_pretrained(folder)
        tokenizer = self.tokenizer
        names = ("pad", "unk", "cls", "sep", "mask")
        # Says of itself what it is; BertTokenizerFast would lower-case text unless told not to.
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            model_max_length=model.config.max_position_embeddings,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
            **{f"{n}_token": tokenizer.id_to_token(getattr(self._about, f"{n}_id")) for n in names},
        ).save_pretrained(folder)
        (folder / "tokenizer.json").write_bytes(self._text)  # as it was, to the byte
        # safetensors makes files that nobody else may read.
        mode = (folder / "config.json").stat().st_mode
        for path in folder.iterdir():
            path.chmod(mode)

    def export(self, model: BertForPreTraining, output: Path) -> None:
        """Write the trained model into ``output`` itself, beside the checkpoints.

        Raises:
          BuildError: it cannot be written.
        """
        temporary = temporary_name(output / "export")
        with writing(output / "model.safetensors", temporary):
            self.write(model, temporary)
            flush(temporary)
            names = sorted(os.listdir(temporary), key=lambda name: (name == "config.json", name))
            for name in names:
                os.replace(temporary / name, output / name)
        temporary.rmdir()


@contextlib.contextmanager
def writing(path: Path, temporary: Path) -> Iterator[None]:
    """Around what writes the folder ``temporary``, and moves it to ``path`` last.

    Raises:
      BuildError: that cannot be done. Whatever ends the block early, ``temporary`` is gone.
    """
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with saving(path):
            yield
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def temporary_name(path: Path) -> Path:
    """Beside it; ``train.checkpoint.check_output`` removes what has such a name."""
    return path.with_name(f".{path.name}.tmp")


def flush(folder: Path) -> None:
    """To the disk, before the names say that it is there."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
