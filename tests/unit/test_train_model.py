"""The model is BERT's, and its loss that of ``BertForPreTraining``."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch

from schemas.errors import ConfigError
from train.model import make_model, predict, pretraining_loss
from train.shapes import PRESETS, SMALL_MODELS, count_parameters, model_shape

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


#: Millions by hidden size, for 2 to 12 layers: table 1 of arXiv:1908.08962.
ALL_SMALL = {
    128: [4.4, 4.8, 5.2, 5.6, 6.0, 6.4],
    256: [9.7, 11.3, 12.8, 14.4, 16.0, 17.6],
    512: [22.8, 29.1, 35.4, 41.7, 48.0, 54.3],
    768: [39.2, 53.4, 67.5, 81.7, 95.9, 110.1],
}


def test_the_24_small_models():
    assert len(SMALL_MODELS) == 24
    for layers, hidden in SMALL_MODELS:
        with torch.device("meta"):
            model = make_model(f"{layers},{hidden}", vocab_size=30_522, pad_id=0, seed=0)
        counted = count_parameters(layers, hidden, vocab_size=30_522)
        assert model.num_parameters() == counted
        published = ALL_SMALL[hidden][layers // 2 - 1]
        assert counted / 1e6 == pytest.approx(published, abs=0.1)
    assert {PRESETS[name] for name in PRESETS if name != "large"} <= {*SMALL_MODELS}


def test_new_weights_are_cut_at_two_deviations():
    model = make_model("2,128", vocab_size=2_000, pad_id=0, seed=0)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            assert set(parameter.tolist()) == {1.0 if "LayerNorm.weight" in name else 0.0}, name
        else:
            assert parameter.abs().max() <= 0.04
    embeddings = model.bert.embeddings.word_embeddings.weight
    # A normal distribution of 0.02 cut at two deviations has a deviation of 0.88 of that.
    assert embeddings[1:].std().item() == pytest.approx(0.02 * 0.8796, rel=0.01)
    assert embeddings[0].abs().max() == 0


def test_gelu_is_the_tanh_form_within_4_7e_4_of_the_exact():
    model: Any = make_model("1,64", vocab_size=99, pad_id=0, seed=0)
    for act in (
        model.bert.encoder.layer[0].intermediate.intermediate_act_fn,
        model.cls.predictions.transform.transform_act_fn,
    ):
        x = torch.linspace(-8, 8, 160_001, dtype=torch.float64)
        tanh = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        torch.testing.assert_close(act(x), tanh, atol=1e-12, rtol=0)
        furthest = (act(x) - x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))).abs().max().item()
        assert furthest == pytest.approx(4.73e-4, abs=0.01e-4)


def test_a_uniform_guess_over_the_vocabulary_of_bert():
    logits, labels = torch.zeros(7, 30_522), torch.arange(7)
    loss = torch.nn.functional.cross_entropy(logits, labels).item()
    assert loss == pytest.approx(-math.log(1 / 30_522), abs=1e-5)
    assert round(-math.log(1 / 30_522), 4) == 10.3262


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
    assert ours.next_sentence is not None
    assert ours.total.item() == pytest.approx(ours.masked_lm.item() + ours.next_sentence.item())
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, gradient, atol=1e-5, rtol=1e-4)


def test_without_the_label_of_a_pair_the_loss_is_that_of_the_masked_tokens():
    model = make_model("2,128", vocab_size=99, pad_id=0, seed=1).eval()
    batch = make_batch()
    both = pretraining_loss(model, batch)
    del batch["next_sentence_label"]
    loss = pretraining_loss(model, batch)
    loss.total.backward()
    assert loss.next_sentence is None
    assert loss.total.item() == loss.masked_lm.item() == both.masked_lm.item()
    assert model.cls.seq_relationship.weight.grad is None
    assert model.cls.predictions.transform.dense.weight.grad.abs().sum() > 0


def test_a_batch_without_anything_to_predict_is_no_loss():
    model = make_model("1,64", vocab_size=99, pad_id=0, seed=1).eval()
    batch = make_batch()
    batch["masked_lm_weights"] = torch.zeros_like(batch["masked_lm_weights"])
    loss = pretraining_loss(model, batch)
    loss.total.backward()
    assert loss.masked_lm.item() == 0
    assert loss.next_sentence is not None
    assert loss.total.item() == loss.next_sentence.item() > 0


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
    assert loss.next_sentence is not None
    assert loss.next_sentence.item() == pytest.approx(math.log(2), abs=0.1)
