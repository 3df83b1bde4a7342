"""The model, which is that of ``transformers``, and its loss on a batch of ``train.data``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForPreTraining

from train.data import Batch
from train.shapes import HEAD_SIZE, POSITIONS, model_shape

__all__ = [
    "Loss",
    "Predictions",
    "SummedLosses",
    "draw_weights",
    "gather_masked",
    "make_model",
    "predict",
    "pretraining_loss",
]

#: BERT's spread of new weights, cut at twice of it (``create_initializer`` in ``modeling.py``).
_SPREAD = 0.02


class Predictions(NamedTuple):
    """Of a batch of B rows with M masked tokens, over a vocabulary of V.

    Attributes:
      masked_lm: logits (M, V), the rows' masked tokens one after the other.
      masked_lm_ids: int64 (M,), what they should be.
      next_sentence: logits (B, 2); None where the rows have no such label.
    """

    masked_lm: torch.Tensor
    masked_lm_ids: torch.Tensor
    next_sentence: torch.Tensor | None


class Loss(NamedTuple):
    """Scalars: ``total`` is the sum of the other two, means over masked tokens and over rows.

    ``next_sentence`` is None where the rows have no such label, and the total is the other one then.
    """

    total: torch.Tensor
    masked_lm: torch.Tensor
    next_sentence: torch.Tensor | None


def make_model(
    model: str,
    *,
    vocab_size: int,
    pad_id: int,
    seed: int,
    max_seq_length: int = POSITIONS,
    dropout: float = 0.1,
) -> BertForPreTraining:
    """A new model with weights drawn from the seed.

    It is the original's: ``modeling.py`` of google-research/bert has the tanh form of GELU, which
    ``transformers`` calls ``gelu_pytorch_tanh`` (within 4.7e-4 of the exact one), and draws weights
    from a normal distribution cut at two deviations. The embedding of ``[PAD]`` starts at 0.

    Args:
      model: see ``train.shapes.model_shape``.
      vocab_size: rows of the embedding.
      pad_id: of ``[PAD]``.
      seed: of torch's global generator, which is set.
      max_seq_length: of the longest rows it must take.
      dropout: of activations and attention.
    """
    layers, hidden = model_shape(model)
    torch.manual_seed(seed)
    made = BertForPreTraining(
        BertConfig(
            vocab_size=vocab_size,
            num_hidden_layers=layers,
            hidden_size=hidden,
            intermediate_size=4 * hidden,
            num_attention_heads=hidden // HEAD_SIZE,
            max_position_embeddings=max(POSITIONS, max_seq_length),
            pad_token_id=pad_id,
            hidden_act="gelu_pytorch_tanh",
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            initializer_range=_SPREAD,
        )
    )
    draw_weights(made.parameters())
    with torch.no_grad():
        made.bert.embeddings.word_embeddings.weight[pad_id] = 0
    return made


def draw_weights(parameters: Iterable[torch.Tensor]) -> None:
    """Draw the matrices among new parameters, in their order, from torch's global generator."""
    with torch.no_grad():
        for parameter in parameters:
            if parameter.ndim == 2:  # biases are 0 and LayerNorms 1 already
                torch.nn.init.trunc_normal_(parameter, std=_SPREAD, a=-2 * _SPREAD, b=2 * _SPREAD)


def gather_masked(batch: Batch) -> Batch:
    """The batch with two other tensors instead of the ``masked_lm_`` ones.

    * ``masked_at`` int64 (M,): where the masked tokens are, as ``row * T + position``
    * ``masked_ids`` int64 (M,): what they should be

    It is done on the CPU, where it waits for nothing.
    """
    if "masked_at" in batch:
        return batch
    rows, columns = torch.nonzero(batch["masked_lm_weights"], as_tuple=True)  # (M,), (M,)
    positions = batch["masked_lm_positions"][rows, columns]
    others = {name: x for name, x in batch.items() if not name.startswith("masked_lm_")}
    return others | {
        "masked_at": rows * batch["input_ids"].shape[1] + positions,
        "masked_ids": batch["masked_lm_ids"][rows, columns],
    }


def predict(model: BertForPreTraining, batch: Batch) -> Predictions:
    """Both heads; that of the masked tokens sees these alone, a seventh of all.

    Without ``next_sentence_label`` in the batch the other head is left out.
    """
    batch = gather_masked(batch)
    states = model.bert(
        input_ids=batch["input_ids"],
        token_type_ids=batch["token_type_ids"],
        attention_mask=batch["attention_mask"],
    )
    masked = states.last_hidden_state.flatten(0, 1)[batch["masked_at"]]  # (M, H)
    paired = "next_sentence_label" in batch
    return Predictions(
        masked_lm=model.cls.predictions(masked),
        masked_lm_ids=batch["masked_ids"],
        next_sentence=model.cls.seq_relationship(states.pooler_output) if paired else None,
    )


class SummedLosses(torch.nn.Module):
    """Losses of a batch as sums, which can be added up over parts of a batch and over processes.

    Called with a batch, it gives float32 (2,): the losses of all masked tokens and of all pairs, the
    latter 0 where there are no pairs.
    """

    def __init__(self, model: BertForPreTraining):
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> torch.Tensor:
        predictions = predict(self.model, batch)
        masked_lm = cross_entropy(predictions.masked_lm, predictions.masked_lm_ids, reduction="sum")
        if predictions.next_sentence is None:
            return torch.stack([masked_lm, torch.zeros_like(masked_lm)])
        next_sentence = cross_entropy(
            predictions.next_sentence, batch["next_sentence_label"], reduction="sum"
        )
        return torch.stack([masked_lm, next_sentence])


def pretraining_loss(model: BertForPreTraining, batch: Batch) -> Loss:
    """The mean over the masked tokens of the batch, plus the mean over its pairs if any (nats).

    Without a masked token, which a few short rows may be, the first mean is 0.
    """
    batch = gather_masked(batch)
    masked_lm, next_sentence = SummedLosses(model)(batch)
    masked_lm = masked_lm / max(1, len(batch["masked_ids"]))
    if "next_sentence_label" not in batch:
        return Loss(masked_lm, masked_lm, None)
    next_sentence = next_sentence / len(batch["next_sentence_label"])
    return Loss(masked_lm + next_sentence, masked_lm, next_sentence)
