"""Loss and accuracy of a model on held-out rows."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy
from transformers import BertForPreTraining

from train.data import PretrainingDataset, to_device
from train.model import predict

__all__ = ["Evaluation", "evaluate"]

#: Validation stops after so many batches, as in BERT (``max_eval_steps``); always the same ones.
_EVALUATION_BATCHES = 100


class Evaluation(NamedTuple):
    """Means over the validation rows: losses in nats, accuracies as shares."""

    masked_lm_loss: float
    masked_lm_accuracy: float
    next_sentence_loss: float
    next_sentence_accuracy: float

    def __str__(self) -> str:
        return (
            f"masked tokens: loss {self.masked_lm_loss:.4f}, {self.masked_lm_accuracy:.1%} right; "
            f"next sentence: loss {self.next_sentence_loss:.4f}, "
            f"{self.next_sentence_accuracy:.1%} right"
        )


@torch.no_grad()
def evaluate(model: BertForPreTraining, dataset: PretrainingDataset) -> Evaluation:
    """Loss and accuracy over the first batches of epoch 0, without dropout.

    The model is in training mode afterwards.
    """
    model.eval()
    sums = torch.zeros(4, dtype=torch.float64)
    tokens = rows = 0
    for batch in itertools.islice(dataset.batches(epoch=0), _EVALUATION_BATCHES):
        batch = to_device(batch, model.device)
        found = predict(model, batch)
        for i, (logits, labels) in enumerate(
            [
                (found.masked_lm, found.masked_lm_ids),
                (found.next_sentence, batch["next_sentence_label"]),
            ]
        ):
            sums[2 * i] += cross_entropy(logits, labels, reduction="sum").item()
            sums[2 * i + 1] += (logits.argmax(-1) == labels).sum().item()
        tokens += len(found.masked_lm_ids)
        rows += len(found.next_sentence)
    model.train()
    return Evaluation(*(sums / torch.tensor([tokens, tokens, rows, rows])).tolist())
