"""The model is BERT's, and its loss that of ``BertForPreTraining``."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch

from schemas.errors import ConfigError
from train.config import PRESETS, model_shape
from train.model import make_model, predict, pretraining_loss

#: BertModel's, with 30,522 entries: google-research/bert and arXiv:1908.08962 round them.
PUBLISHED = {
    "tiny": (4_385_920, 4.4),
    "mini": (11_170_560, 11.3),
    "small": (28_763_648, 29.1),
    "medium": (41_373_184, 41.7),
    "base": (109_482_240, 110.1),
    "large": (335_141_888, 340.0),
}


def make_batch(*, vocab_size: int = 99) -> dict:
    B, T, P = 5, 24, 6
    draw = torch.Generator().manual_seed(5)
    lengths = torch.tensor([24, 17, 9, 20, 12])[:, None]
    counts = torch.tensor([6, 2, 1, 4, 3])[:, None]
    mask = torch.arange(T) < lengths
    weights = torch.arange(P) < counts
    positions = torch.stack([torch.randperm(9, generator=draw)[:P].sort()[0] for _ in range(B)])
    return {
        "input_ids": torch.randint(5, vocab_size, (B, T), generator=draw) * mask,
        "token_type_ids": (torch.arange(T) >= lengths // 2).long() * mask,
        "attention_mask": mask.long(),
        "masked_lm_positions": positions * weights,
        "masked_lm_ids": torch.randint(5, vocab_size, (B, P), generator=draw) * weights,
        "masked_lm_weights": weights.float(),
        "next_sentence_label": torch.tensor([0, 1, 1, 0, 1]),
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_parameter_counts_are_the_published_ones(preset):
    with torch.device("meta"):
        model = make_model(preset, vocab_size=30_522, pad_id=0, seed=0)
    exact, millions = PUBLISHED[preset]
    assert model.bert.num_parameters() == exact
    assert model.num_parameters() / 1e6 == pytest.approx(millions, rel=0.02)
    assert model.config.num_attention_heads * 64 == model.config.hidden_size


def test_any_layers_and_hidden_size():
    assert model_shape("3,192") == (3, 192)
    for wrong in ("huge", "2,100", "0,128", "2,0", "2", "2,128,2", ""):
        with pytest.raises(ConfigError, match="--model="):
            model_shape(wrong)


def test_weights_are_a_function_of_the_seed():
    def weight(seed):
        model = make_model("1,64", vocab_size=99, pad_id=0, seed=seed)
        return model.get_parameter("bert.encoder.layer.0.intermediate.dense.weight")

    assert torch.equal(weight(1), weight(1))
    assert not torch.equal(weight(1), weight(2))


def test_longer_rows_get_more_positions():
    def positions(length):
        model = make_model("1,64", vocab_size=99, pad_id=0, seed=0, max_seq_length=length)
        return model.config.max_position_embeddings

    assert (positions(128), positions(640)) == (512, 640)


def test_the_loss_and_its_gradient_are_those_of_transformers():
    model = make_model("2,128", vocab_size=99, pad_id=0, seed=1).eval()
    batch = make_batch()
    labels = torch.full_like(batch["input_ids"], -100)
    for row, n in enumerate(batch["masked_lm_weights"].sum(1).int().tolist()):
        labels[row, batch["masked_lm_positions"][row, :n]] = batch["masked_lm_ids"][row, :n]
    names = ("input_ids", "token_type_ids", "attention_mask", "next_sentence_label")
    theirs = model(**{name: batch[name] for name in names}, labels=labels).loss
    theirs.backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    ours = pretraining_loss(model, batch)
    ours.total.backward()
    assert ours.total.item() == pytest.approx(theirs.item(), abs=1e-5)
    assert ours.total.item() == pytest.approx(ours.masked_lm.item() + ours.next_sentence.item())
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, gradient, atol=1e-5, rtol=1e-4)


def test_padding_decides_nothing():
    model = make_model("1,64", vocab_size=99, pad_id=0, seed=1).eval()
    batch = make_batch()
    loss = pretraining_loss(model, batch)
    wider = {
        name: torch.nn.functional.pad(tensor, (0, 8)) if tensor.ndim == 2 else tensor
        for name, tensor in batch.items()
    }
    assert pretraining_loss(model, wider).total.item() == pytest.approx(loss.total.item(), abs=1e-5)
    assert len(predict(model, batch).masked_lm) == 16  # what is to be predicted, and no padding


def test_a_new_model_guesses_blindly():
    model = make_model("tiny", vocab_size=30_522, pad_id=0, seed=1).eval()
    loss = pretraining_loss(model, make_batch(vocab_size=30_522))
    assert loss.masked_lm.item() == pytest.approx(math.log(30_522), abs=0.15)
    assert loss.next_sentence.item() == pytest.approx(math.log(2), abs=0.1)
