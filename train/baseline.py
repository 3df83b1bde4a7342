"""How well a model does that knows only how frequent each token is: what there is to be beaten."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from train.data import PretrainingDataset

__all__ = ["Baseline", "frequency_baseline"]

#: Rows that are looked at: a million masked tokens, and one window of the data set.
_BATCHES = 128
_BATCH_SIZE = 512


class Baseline(NamedTuple):
    """Losses in nats a masked token.

    Attributes:
      entropy: of the masked tokens of the training rows: the least that frequencies alone allow.
      validation: of these frequencies, plus one each, on the masked tokens of the validation rows;
        None without any.
    """

    entropy: float
    validation: float | None

    def describe(self) -> str:
        """For people."""
        text = f"a model of token frequencies alone has loss {self.entropy:.4f} on masked tokens"
        return text + (
            "" if self.validation is None else f", {self.validation:.4f} on held-out ones"
        )


def frequency_baseline(
    directory: str, *, max_seq_length: int | None, seed: int, validation: bool
) -> Baseline:
    """Counts the masked tokens of the first rows of epoch 0, in one pass."""

    def count(split: str) -> np.ndarray:
        dataset = PretrainingDataset(
            directory,
            batch_size=_BATCH_SIZE,
            max_seq_length=max_seq_length,
            split=split,
            seed=seed,
        )
        counts = np.zeros(dataset.manifest.tokenizer.vocab_size)
        for batch in itertools.islice(dataset.batches(epoch=0), _BATCHES):
            labels = batch["masked_lm_ids"][batch["masked_lm_weights"] > 0]
            counts += np.bincount(labels.numpy(), minlength=len(counts))
        return counts

    train = count("train")
    share = train[train > 0] / train.sum()
    held_out = None
    if validation:
        logs = np.log((train + 1) / (train + 1).sum())
        counts = count("validation")
        held_out = float(-(counts * logs).sum() / max(1, counts.sum()))
    return Baseline(float(-(share * np.log(share)).sum()), held_out)
