"""An update is the same however its rows are spread, and its numbers are as they were asked for."""

from __future__ import annotations

import copy
import functools
import math
import shutil
from typing import Any

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch

from tests.unit.test_train_model import make_batch
from train.batches import split_batch
from train.config import TrainConfig
from train.distributed import Ranks
from train.model import make_model, pretraining_loss
from train.optim import BertAdamW, learning_rate
from train.step import Stepper

ONE = Ranks(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def start():
    return make_model("2,64", vocab_size=99, pad_id=0, seed=1, dropout=0.0)


def run(start, batch, *, steps=3, **settings):
    """Losses of the updates, and the model after them."""
    model = copy.deepcopy(start).train()
    values = {"steps": 10, "warmup_steps": 0, "learning_rate": 1e-2, "batch_size": 4} | settings
    stepper = Stepper(TrainConfig(data="d", output="o", **values), model, ranks=ONE)
    updates: list[Any] = [stepper.update(batch, step=step) for step in range(steps)]
    return [u.losses.tolist() for u in updates], updates, model


def test_an_update_is_loss_gradient_clip_and_optimizer(start):
    losses, updates, model = run(start, make_batch(), steps=2, max_grad_norm=0.5)
    ours = copy.deepcopy(start).train()
    optimizer = BertAdamW(ours.parameters())
    for step, update in enumerate(updates):
        loss: Any = pretraining_loss(ours, make_batch())
        assert losses[step] == pytest.approx([loss.masked_lm.item(), loss.next_sentence.item()])
        optimizer.zero_grad()
        loss.total.backward()
        norm = math.sqrt(sum(p.grad.square().sum().item() for p in ours.parameters()))
        assert float(update.gradient_norm) == pytest.approx(norm, rel=1e-5)
        assert norm > 0.5
        for p in ours.parameters():
            p.grad *= 0.5 / norm
        rate = learning_rate(step, peak=1e-2, warmup_steps=0, steps=10)
        assert update.learning_rate == rate
        for name, p in ours.named_parameters():
            plain = name.endswith("bias") or "LayerNorm" in name
            optimizer.param_groups[0].update(lr=rate, weight_decay=0.0)
            if not plain:
                with torch.no_grad():
                    p *= 1 - rate * 0.01
        optimizer.step()
    for mine, theirs in zip(model.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-4)
    assert updates[0].tokens == int(make_batch()["attention_mask"].sum())


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_parts_of_an_update_have_its_losses(start, parts):
    """5 rows with 6, 2, 1, 4 and 3 masked tokens: the mean of means would be another."""
    whole, _, one = run(start, make_batch())
    losses, _, model = run(start, make_batch(), gradient_accumulation_steps=parts, batch_size=8)
    assert losses == [pytest.approx(x, abs=1e-5) for x in whole]
    for mine, theirs in zip(model.parameters(), one.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-3, rtol=1e-2)


def test_parts_have_every_row_once():
    batch = make_batch()
    for parts in (1, 2, 3, 5, 7):
        split = split_batch(batch, parts=parts)
        assert len(split) == parts
        for name, tensor in batch.items():
            assert torch.equal(torch.cat([part[name] for part in split]), tensor)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_close(start, precision):
    full, _, _ = run(start, make_batch())
    half, _, model = run(start, make_batch(), precision=precision)
    assert half != full
    assert half[0] == pytest.approx(full[0], rel=0.01)
    assert half[-1] == pytest.approx(full[-1], abs=0.1)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
)
def test_compiled_losses_are_the_same(monkeypatch, backend):
    """Of updates whose batches have several shapes, which is what they are compiled for again."""
    start = make_model("1,64", vocab_size=99, pad_id=0, seed=1, dropout=0.0)
    if backend == "inductor" and not shutil.which("g++"):
        pytest.skip("torch.compile needs a C++ compiler: g++ is not there")
    torch._dynamo.reset()
    kinds = []

    def compile_here(module):
        kinds.append(type(module).__name__)
        return functools.partial(torch_compile, backend=backend)(module)

    torch_compile = torch.compile
    monkeypatch.setattr(torch, "compile", compile_here)
    batch = make_batch()
    shorter = {
        name: x[:3] if x.ndim == 1 or name.startswith("masked") else x[:3, :16]
        for name, x in batch.items()
    }
    found = [
        [run(start, rows, steps=2, compile=how)[0] for rows in (batch, shorter)]
        for how in (False, True)
    ]
    assert kinds == 2 * ["SummedLosses"]
    for plain, compiled in zip(*found, strict=True):
        assert compiled == [pytest.approx(x, abs=1e-4) for x in plain]


def test_rows_without_pairs_train_the_masked_tokens_alone(start):
    batch = make_batch()
    both, _, _ = run(start, batch, steps=1)
    del batch["next_sentence_label"]
    alone, _, model = run(start, batch, steps=1)
    assert alone == [[pytest.approx(both[0][0]), 0.0]]
    changed = model.cls.seq_relationship.weight - start.cls.seq_relationship.weight
    assert changed.abs().max() == 0


def test_torch_has_an_optimizer_too(start):
    _, _, ours = run(start, make_batch(), steps=1, learning_rate=1e-3)
    _, _, theirs = run(start, make_batch(), steps=1, learning_rate=1e-3, optimizer="adamw")
    bias = "cls.predictions.transform.dense.bias"
    # Corrected for bias: the first step is the rate itself, not 0.1 / sqrt(0.001) of it.
    there = start.get_parameter(bias) != theirs.get_parameter(bias)
    assert there.any()
    theirs_moved = (theirs.get_parameter(bias) - start.get_parameter(bias)).abs().max().item()
    ours_moved = (ours.get_parameter(bias) - start.get_parameter(bias)).abs().max().item()
    assert theirs_moved == pytest.approx(1e-3, rel=0.01)
    assert ours_moved == pytest.approx(1e-3 * 0.1 / math.sqrt(0.001), rel=0.01)


def test_dropout_is_a_function_of_seed_and_step():
    start = make_model("2,64", vocab_size=99, pad_id=0, seed=1, dropout=0.3)
    first, _, _ = run(start, make_batch(), steps=2)
    torch.manual_seed(99)
    assert run(start, make_batch(), steps=2)[0] == first
    assert run(start, make_batch(), steps=2, seed=3)[0] != first


def test_the_schedule_of_a_resumed_optimizer_goes_on(start):
    """State is saved and loaded, with that of the scaler."""
    config = TrainConfig(data="d", output="o", steps=10, precision="float16", batch_size=5)
    stepper = Stepper(config, copy.deepcopy(start).train(), ranks=ONE)
    stepper.update(make_batch(), step=0)
    stepper.update(make_batch(), step=1)
    other = Stepper(config, copy.deepcopy(start).train(), ranks=ONE)
    other.load(copy.deepcopy(stepper.state()))
    assert other.scaler.state_dict() == stepper.scaler.state_dict() != {}
    assert len(other.optimizer.state) == len(stepper.optimizer.state) > 0
