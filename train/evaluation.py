"""Loss and accuracy of a model on held-out rows, and what it says of some of them."""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy
from transformers import BertForPreTraining

from train.batches import place_batch
from train.data import Batch, PretrainingDataset
from train.distributed import Ranks
from train.model import Predictions, predict

__all__ = ["EVALUATION_BATCH_SIZE", "Evaluation", "evaluate", "write_predictions"]

#: Validation stops after so many batches, as in BERT (``max_eval_steps``); always the same ones.
_EVALUATION_BATCHES = 100

#: Rows of a batch of validation.
EVALUATION_BATCH_SIZE = 32

#: Tokens of a row that are shown.
_SHOWN = 48


class Evaluation(NamedTuple):
    """Means over the validation rows: losses in nats, accuracies as shares; None where there is nothing.

    The fate of a masked token is what stands in its place: ``[MASK]``, itself, or another one. A
    random token that happens to be the right one counts as kept.
    """

    masked_lm_loss: float
    masked_lm_accuracy: float
    mask_token_accuracy: float | None
    random_token_accuracy: float | None
    kept_token_accuracy: float | None
    next_sentence_loss: float | None = None
    next_sentence_accuracy: float | None = None

    @property
    def perplexity(self) -> float:
        """Of the masked tokens."""
        return math.exp(min(self.masked_lm_loss, 700.0))

    def describe(self, pairs: str | None) -> str:
        """For people; ``pairs`` is what the label of the pairs is called."""
        fates = zip(("[MASK]", "random", "kept"), self[2:5], strict=True)
        each = ", ".join(f"{name} {share:.1%}" for name, share in fates if share is not None)
        text = (
            f"masked tokens: loss {self.masked_lm_loss:.4f}, perplexity {self.perplexity:,.1f}, "
            f"{self.masked_lm_accuracy:.1%} right ({each})"
        )
        if self.next_sentence_loss is None:
            return text
        return (
            f"{text}; {pairs}: loss {self.next_sentence_loss:.4f}, "
            f"{self.next_sentence_accuracy:.1%} right"
        )


@torch.no_grad()
def evaluate(
    model: BertForPreTraining,
    dataset: PretrainingDataset,
    *,
    ranks: Ranks | None = None,
    precision: contextlib.AbstractContextManager[object] | None = None,
) -> Evaluation:
    """Loss and accuracy over the first batches of epoch 0, without dropout.

    Every process takes its share of the batches and gets the whole result. The model is in
    training mode afterwards.
    """
    ranks = ranks or Ranks(0, 1, model.device)
    mask_id = dataset.manifest.tokenizer.mask_id
    model.eval()
    # Of all masked tokens, of those of each fate, and of pairs: loss, right ones, how many.
    sums = torch.zeros(5, 3, dtype=torch.float64)
    batches = itertools.islice(dataset.batches(epoch=0), _EVALUATION_BATCHES)
    with precision or contextlib.nullcontext():
        for batch in itertools.islice(batches, ranks.rank, None, ranks.world):
            there = place_batch(batch, ranks.device)
            found = predict(model, there)
            sums[:4] += _judge_masked(found, there, mask_id=mask_id).cpu()
            if found.next_sentence is not None:
                sums[4] += _judge(found.next_sentence, there["next_sentence_label"]).sum(0).cpu()
    model.train()
    ranks.sum(sums)
    means = [(loss / n, right / n) if n else (None, None) for loss, right, n in sums.tolist()]
    (loss, accuracy), *fates, pairs = means
    return Evaluation(loss or 0.0, accuracy or 0.0, *(fate[1] for fate in fates), *pairs)


def write_predictions(
    model: BertForPreTraining, dataset: PretrainingDataset, tokenizer: Tokenizer, *, rows: int = 3
) -> list[str]:
    """The first rows of epoch 0 as text: ``{right}`` and ``{predicted/original}``."""
    batch = {name: tensor[:rows] for name, tensor in next(dataset.batches(epoch=0)).items()}
    model.eval()
    with torch.no_grad():
        gathered = place_batch(batch, model.device)
        found = predict(model, gathered).masked_lm.argmax(-1).tolist()
    model.train()
    about = dataset.manifest.tokenizer
    special = {about.pad_id, about.unk_id, about.cls_id, about.sep_id, about.mask_id}
    width = batch["input_ids"].shape[1]
    labels = gathered["masked_ids"].tolist()
    at = {n: pair for n, *pair in zip(gathered["masked_at"].tolist(), found, labels, strict=True)}
    lines = []
    for i, row in enumerate(batch["input_ids"].tolist()):
        length = int(batch["attention_mask"][i].sum())
        words: list[str] = []
        open_word = False  # that the next token may belong to
        for k, token in enumerate(row[: min(length, _SHOWN)]):
            predicted, original = (
                str(tokenizer.id_to_token(n)) for n in at.get(i * width + k, (token, token))
            )
            masked = i * width + k in at
            if masked:
                words.append(
                    f"{{{predicted}/{original}}}" if predicted != original else f"{{{original}}}"
                )
            elif open_word and original.startswith("##"):
                words[-1] += original[2:]
            else:
                words.append(original)
            open_word = not masked and token not in special
        lines.append(" ".join(words) + (" ..." if length > _SHOWN else ""))
    return lines


def _judge_masked(found: Predictions, batch: Batch, *, mask_id: int) -> torch.Tensor:
    """Float64 (4, 3), see :func:`evaluate`."""
    judged = _judge(found.masked_lm, found.masked_lm_ids)  # (M, 3)
    stands = batch["input_ids"].flatten()[batch["masked_at"]]
    masked, kept = stands == mask_id, stands == found.masked_lm_ids
    fates = (torch.ones_like(masked), masked, ~masked & ~kept, kept & ~masked)
    return torch.stack([judged[fate].sum(0) for fate in fates])


def _judge(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Float64 (N, 3): the loss of each, whether it is right, and 1."""
    loss = cross_entropy(logits.float(), labels, reduction="none")
    right = logits.argmax(-1) == labels
    return torch.stack([loss, right, torch.ones_like(loss)], 1).double()
