"""The model that a run begins with: a new one, or the weights of another run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertForPreTraining

from schemas.errors import ConfigError
from schemas.manifest import TokenizerInfo
from train.config import TrainConfig
from train.model import draw_weights, make_model
from train.shapes import model_shape

__all__ = ["start_model"]

#: What is left out of models that were saved without a head; the pooler is part of that of the pairs.
_HEADS = ("cls.", "bert.pooler.")

#: How names of files with weights end.
_WEIGHTS = (".safetensors", ".bin")


def start_model(
    config: TrainConfig, *, about: TokenizerInfo, tokenizer: Tokenizer, max_seq_length: int
) -> BertForPreTraining:
    """The model after no update.

    Args:
      config: of the run.
      about, tokenizer: of the data set.
      max_seq_length: of its longest rows that the run takes.

    Raises:
      ConfigError: ``init`` is no BERT, cannot be read, has no encoder, or is of another vocabulary
        or shape.
    """
    if config.init is None:
        assert config.model
        return make_model(
            config.model,
            vocab_size=about.vocab_size,
            pad_id=about.pad_id,
            seed=config.seed,
            max_seq_length=max_seq_length,
            dropout=config.dropout,
        )
    folder = Path(config.init)
    if not (folder / "config.json").is_file():
        raise ConfigError(
            "init", config.init, "no model is there; name a directory with config.json"
        )
    shape = _read_shape(config.init)
    _check(config, shape, folder, about=about, tokenizer=tokenizer, max_seq_length=max_seq_length)
    shape.hidden_dropout_prob = shape.attention_probs_dropout_prob = config.dropout
    return _load(config, shape)


def _read_shape(init: str) -> BertConfig:
    path = Path(init) / "config.json"
    try:
        kind = json.loads(path.read_text(encoding="utf8")).get("model_type")
        if kind != BertConfig.model_type:
            raise ConfigError("init", init, f"{path} is of a model of type {kind}; it must be bert")
        return BertConfig.from_pretrained(init, local_files_only=True)
    except ConfigError:
        raise
    except Exception as error:  # whatever a broken file makes of its reader
        raise ConfigError("init", init, f"{path} cannot be read: {error}") from None


def _load(config: TrainConfig, shape: BertConfig) -> BertForPreTraining:
    """The model of ``init``; what heads it has not are drawn from the seed, as new ones are."""
    assert config.init
    try:
        loaded: Any = BertForPreTraining.from_pretrained(
            config.init, config=shape, local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # each format of weights has errors of its own
        files = [p.name for p in Path(config.init).glob("*") if p.suffix in _WEIGHTS]
        what = " ".join(sorted(files)) or "weights"
        remedy = f"{what} in it cannot be read: {error}; copy or save it again"
        raise ConfigError("init", config.init, remedy) from None
    model: BertForPreTraining = loaded[0].float()
    missing = set(loaded[1]["missing_keys"])
    if encoder := sorted(name for name in missing if not name.startswith(_HEADS)):
        raise ConfigError(
            "init",
            config.init,
            f"its weights have no {encoder[0]}, nor {len(encoder) - 1} others of the encoder; "
            "name a model that save_pretrained wrote",
        )
    torch.manual_seed(config.seed)
    draw_weights(p for name, p in model.named_parameters() if name in missing)
    if missing and int(os.environ.get("RANK", 0)) == 0:
        parts = sorted({".".join(name.split(".")[:2]) for name in missing})
        print(f"{config.init} has no {', '.join(parts)}: new ones are drawn", flush=True)
    return model


def _check(
    config: TrainConfig,
    shape: BertConfig,
    folder: Path,
    *,
    about: TokenizerInfo,
    tokenizer: Tokenizer,
    max_seq_length: int,
) -> None:
    assert config.init
    if shape.vocab_size != about.vocab_size or _vocabulary(folder) not in (
        None,
        tokenizer.get_vocab(),
    ):
        raise ConfigError(
            "init",
            config.init,
            f"its vocabulary ({shape.vocab_size:,} entries) is not that of the data set "
            f"({about.vocab_size:,}); build the data with its tokenizer",
        )
    found = (shape.num_hidden_layers, shape.hidden_size)
    if config.model is not None and found != model_shape(config.model):
        raise ConfigError(
            "model", config.model, f"{folder} has the shape {found[0]},{found[1]}; leave it out"
        )
    if shape.max_position_embeddings < max_seq_length:
        raise ConfigError(
            "init",
            config.init,
            f"it has {shape.max_position_embeddings} positions, the rows are up to "
            f"{max_seq_length} tokens; give a shorter --max_seq_length",
        )


def _vocabulary(folder: Path) -> dict[str, int] | None:
    """The ids of the tokens, if they are there; ``ConfigError`` if they cannot be read."""
    for name in ("tokenizer.json", "vocab.txt"):
        path = folder / name
        if not path.is_file():
            continue
        try:
            if name == "tokenizer.json":
                return Tokenizer.from_file(str(path)).get_vocab()
            return {token: i for i, token in enumerate(path.read_text("utf8").splitlines())}
        except Exception as error:  # tokenizers raises nothing narrower
            raise ConfigError("init", str(folder), f"{path} cannot be read: {error}") from None
    return None
