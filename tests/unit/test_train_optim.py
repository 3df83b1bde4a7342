"""The optimizer and the learning rate, against steps worked out by hand."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch

from train.model import make_model
from train.optim import BertAdamW, learning_rate, parameter_groups


def one(value: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor([value], dtype=torch.float64))


def test_two_steps_worked_out_by_hand():
    p = one(2.0)
    optimizer = BertAdamW([p], lr=0.1)  # betas 0.9 and 0.999, eps 1e-6, decay 0.01
    p.grad = torch.tensor([0.5], dtype=torch.float64)
    optimizer.step()
    # m = 0.1 * 0.5 = 0.05, v = 0.001 * 0.25 = 0.00025, sqrt(v) = 0.0158113883
    # m / (sqrt(v) + 1e-6) = 3.1620776, decay 0.01 * 2 = 0.02; 2 - 0.1 * 3.1820776
    assert p.item() == pytest.approx(1.68179224, abs=1e-7)
    first = p.item()
    p.grad = torch.tensor([-1.0], dtype=torch.float64)
    optimizer.step()
    # m = 0.9 * 0.05 - 0.1 = -0.055, v = 0.999 * 0.00025 + 0.001 = 0.00124975
    update = -0.055 / (math.sqrt(0.00124975) + 1e-6) + 0.01 * first
    assert p.item() == pytest.approx(first - 0.1 * update, abs=1e-12)


def test_the_first_step_is_not_that_of_torch_adamw():
    """torch's is corrected for bias: the first step is lr * sign(gradient)."""
    ours, theirs = one(0.0), one(0.0)
    for p, kind in ((ours, BertAdamW), (theirs, torch.optim.AdamW)):
        p.grad = torch.tensor([1e-2], dtype=torch.float64)
        kind([p], lr=0.1, eps=1e-12).step()
    assert theirs.item() == pytest.approx(-0.1)
    assert ours.item() == pytest.approx(-0.1 * 0.1 / math.sqrt(0.001))


def test_eps_is_added_to_the_root():
    p = one(0.0)
    p.grad = torch.tensor([1e-4], dtype=torch.float64)
    BertAdamW([p], lr=1.0).step()
    assert p.item() == pytest.approx(-1e-5 / (1e-4 * math.sqrt(0.001) + 1e-6))


def test_decay_is_decoupled_from_the_gradient():
    """A gradient of 0 leaves decay alone, whatever its size was before."""
    p = one(3.0)
    p.grad = torch.zeros(1, dtype=torch.float64)
    BertAdamW([p], lr=0.5, weight_decay=0.01).step()
    assert p.item() == pytest.approx(3.0 * (1 - 0.5 * 0.01))


def test_what_has_no_gradient_stays():
    still, moved = one(1.0), one(1.0)
    moved.grad = torch.ones(1, dtype=torch.float64)
    BertAdamW([still, moved], lr=0.1).step()
    assert still.item() == 1.0
    assert moved.item() < 1.0


def test_layer_norms_and_biases_are_not_decayed():
    model = make_model("2,128", vocab_size=99, pad_id=0, seed=0)
    decayed, others = parameter_groups(model)
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.01, 0.0)
    names = {id(p): name for name, p in model.named_parameters()}
    assert all(p.ndim == 2 for p in decayed["params"])
    for p in others["params"]:
        assert names[id(p)].endswith("bias") or "LayerNorm" in names[id(p)]
    found = [id(p) for group in (decayed, others) for p in group["params"]]
    assert sorted(found) == sorted(names)  # each once, the tied embedding too


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 0.0),
        (1, 1e-8),
        (5_000, 0.5e-4),
        (9_999, 0.9999e-4),
        (10_000, 0.99e-4),  # where the warm-up ends the line has come down already
        (500_000, 0.5e-4),
        (999_999, 1e-10),
        (1_000_000, 0.0),
        (2_000_000, 0.0),
    ],
)
def test_the_learning_rate_of_the_paper(step, expected):
    rate = learning_rate(step, peak=1e-4, warmup_steps=10_000, steps=1_000_000)
    assert rate == pytest.approx(expected, rel=1e-6, abs=1e-18)


def test_without_warm_up_it_starts_at_the_peak():
    assert learning_rate(0, peak=1e-3, warmup_steps=0, steps=10) == 1e-3
