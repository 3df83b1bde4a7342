"""Phases, and the settings of published runs. All of it without torch."""

from __future__ import annotations

import itertools
import json

import pytest

from schemas.errors import ConfigError
from train.cli import parse
from train.config import TrainConfig
from train.phases import Phase
from train.recipe import RECIPES, load_recipe

NEEDED = ["data", "--output", "out"]


def test_the_recipe_of_the_paper():
    config = parse([*NEEDED, "--config", "bert-base"])
    assert (config.model, config.learning_rate, config.warmup_steps) == ("base", 1e-4, 10_000)
    assert (config.weight_decay, config.dropout, config.optimizer) == (0.01, 0.1, "bert")
    assert config.plan() == (Phase(128, 0, 900_000, 256), Phase(512, 900_000, 100_000, 256))


@pytest.mark.parametrize(
    ("name", "model", "peak", "warmup"),
    [
        ("bert-base", "base", 1e-4, 10_000),
        ("bert-large", "large", 1e-4, 10_000),
        ("roberta-base", "base", 6e-4, 24_000),
        ("roberta-large", "large", 4e-4, 30_000),
    ],
)
def test_figures_of_the_recipes(name, model, peak, warmup):
    config = parse([*NEEDED, "--config", name])
    assert (config.model, config.learning_rate, config.warmup_steps) == (model, peak, warmup)
    roberta = name.startswith("roberta")
    assert (config.steps, config.batch_size) == (
        (500_000, (8192,)) if roberta else (1_000_000, (256,))
    )
    assert (config.adam_beta2, config.max_grad_norm) == ((0.98, 0.0) if roberta else (0.999, 1.0))


def test_all_recipes_say_what_they_are_and_are_allowed():
    assert sorted(RECIPES) == ["bert-base", "bert-large", "roberta-base", "roberta-large"]
    for name, path in RECIPES.items():
        assert "et al." in json.loads(path.read_text())["about"]
        TrainConfig(data="d", output="o", **load_recipe(name))


def test_a_length_overrides_the_phases_of_a_recipe_and_phases_its_length():
    one = parse([*NEEDED, "--config", "bert-base", "--max_seq_length", "64"])
    assert one.plan() == (Phase(64, 0, 1_000_000, 256),)
    two = parse([*NEEDED, "--config", "roberta-base", "--phases", "seq64:0.5,seq512:0.5"])
    assert [phase.max_seq_length for phase in two.plan()] == [64, 512]
    with pytest.raises(ConfigError, match="--phases has the lengths"):
        parse([*NEEDED, "--phases", "seq64:1", "--max_seq_length", "64"])


def test_flags_override_a_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(
        '{"steps": 10, "batch_size": [8, 4], "phases": "seq8:0.5,seq16:0.5", "seed": 3}'
    )
    config = parse([*NEEDED, "--config", str(path), "--seed", "4"])
    assert (config.steps, config.seed, config.batch_size) == (10, 4, (8, 4))
    assert config.plan() == (Phase(8, 0, 5, 8), Phase(16, 5, 5, 4))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "must be a JSON object"),
        ("{", "is not JSON"),
        ('{"stops": 1}', "there is no setting 'stops'; did you mean steps\\?"),
        ('{"output": "x"}', "there is no setting 'output'"),
        ('{"steps": "5"}', "steps='5' is of the wrong type"),
        ('{"steps": 5.5}', "steps=5.5 is of the wrong type"),
        ('{"compile": 1}', "compile=1 is of the wrong type"),
        ('{"seed": true}', "seed=True is of the wrong type"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, text, message):
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(str(path))


@pytest.mark.parametrize("steps", [10, 11, 99, 1_000_000])
@pytest.mark.parametrize("phases", ["seq128:0.9,seq512:0.1", "seq1:.3,seq2:.3,seq3:.4", "seq8:1"])
def test_phases_have_all_the_steps_one_after_the_other(phases, steps):
    plan = TrainConfig(data="d", output="o", steps=steps, phases=phases).plan()
    assert plan[0].first_step == 0
    for before, after in itertools.pairwise(plan):
        assert before.first_step + before.steps == after.first_step
    assert plan[-1].first_step + plan[-1].steps == steps
    for phase, part in zip(plan, phases.split(","), strict=True):
        assert abs(phase.steps - float(part.partition(":")[2]) * steps) <= 1
