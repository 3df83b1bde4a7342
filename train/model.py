"""The model, which is that of ``transformers``, and its loss on a batch of ``train.data``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForPreTraining

from train.config import HEAD_SIZE, model_shape
from train.data import Batch

__all__ = ["Loss", "Predictions", "make_model", "predict", "pretraining_loss"]

#: BERT's number of position embeddings; more only for longer rows.
_POSITIONS = 512


class Predictions(NamedTuple):
    """Of a batch of B rows with M masked tokens, over a vocabulary of V.

    Attributes:
      masked_lm: logits (M, V), the rows' masked tokens one after the other.
      masked_lm_ids: int64 (M,), what they should be.
      next_sentence: logits (B, 2).
    """

    masked_lm: torch.Tensor
    masked_lm_ids: torch.Tensor
    next_sentence: torch.Tensor


class Loss(NamedTuple):
    """Scalars: ``total`` is the sum of the other two, means over masked tokens and over rows."""

    total: torch.Tensor
    masked_lm: torch.Tensor
    next_sentence: torch.Tensor


def make_model(
    model: str, *, vocab_size: int, pad_id: int, seed: int, max_seq_length: int = _POSITIONS
) -> BertForPreTraining:
    """A new model with weights drawn from the seed.

    Args:
      model: see ``train.config.model_shape``.
      vocab_size: rows of the embedding.
      pad_id: of ``[PAD]``; its embedding stays 0.
      seed: of torch's global generator, which is set.
      max_seq_length: of the longest rows it must take.
    """
    layers, hidden = model_shape(model)
    torch.manual_seed(seed)
    return BertForPreTraining(
        BertConfig(
            vocab_size=vocab_size,
            num_hidden_layers=layers,
            hidden_size=hidden,
            intermediate_size=4 * hidden,
            num_attention_heads=hidden // HEAD_SIZE,
            max_position_embeddings=max(_POSITIONS, max_seq_length),
            pad_token_id=pad_id,
        )
    )


def predict(model: BertForPreTraining, batch: Batch) -> Predictions:
    """Both heads; that of the masked tokens sees these alone, a seventh of all."""
    states = model.bert(
        input_ids=batch["input_ids"],
        token_type_ids=batch["token_type_ids"],
        attention_mask=batch["attention_mask"],
    )
    rows, columns = torch.nonzero(batch["masked_lm_weights"], as_tuple=True)  # (M,), (M,)
    positions = batch["masked_lm_positions"][rows, columns]  # (M,)
    masked = states.last_hidden_state[rows, positions]  # (M, H)
    return Predictions(
        masked_lm=model.cls.predictions(masked),
        masked_lm_ids=batch["masked_lm_ids"][rows, columns],
        next_sentence=model.cls.seq_relationship(states.pooler_output),
    )


def pretraining_loss(model: BertForPreTraining, batch: Batch) -> Loss:
    """The mean over the masked tokens of the batch, plus the mean over its pairs (nats)."""
    predictions = predict(model, batch)
    masked_lm = cross_entropy(predictions.masked_lm, predictions.masked_lm_ids)
    next_sentence = cross_entropy(predictions.next_sentence, batch["next_sentence_label"])
    return Loss(masked_lm + next_sentence, masked_lm, next_sentence)
