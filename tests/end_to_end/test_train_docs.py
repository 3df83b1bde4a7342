"""docs/training.md is true: its table has every flag with its default, its commands run."""

from __future__ import annotations

import dataclasses
import re
import shlex

import pytest

from tests.builds import DATA, ROOT, build_here
from train.cli import main, make_parser
from train.config import TrainConfig
from train.recipe import RECIPES, load_recipe
from train.shapes import PRESETS

TEXT = (ROOT / "docs" / "training.md").read_text(encoding="utf8")


def table(first_line: str) -> list[list[str]]:
    """The cells of its rows."""
    rows = TEXT[TEXT.index(first_line) :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`-") for cell in row.split("|")[1:-1]] for row in rows]


def test_every_flag_is_there_with_its_default():
    rows = {name: default for name, default, _ in table("| flag | default |")}
    known = {name[2:] for name in make_parser()._option_string_actions if name[:2] == "--"}
    assert {*rows} == known - {"help"}
    for field in dataclasses.fields(TrainConfig):
        if field.name == "data":
            continue
        default = field.default
        if default is dataclasses.MISSING or default is None or isinstance(default, bool):
            assert rows[field.name] in ("", "tiny")
        else:
            shown = default[0] if isinstance(default, tuple) else default
            assert rows[field.name] == str(shown)


def test_flags_that_are_mentioned_exist():
    known = {*make_parser()._option_string_actions}
    of_others = {"--nproc_per_node", "--objective", "--masking", "--validation_fraction"}
    # Flags of torchrun, of the benchmarks' commands and of bert-data build are not the trainer's.
    of_others |= {"--standalone", "--local_addr"}
    of_others |= {"--vocab_file", "--dupe_factor", "--do_whole_word_mask"}
    assert {*re.findall(r"(?<![\w-])--[a-z][a-z_0-9]+", TEXT)} <= known | of_others


def test_recipes_and_models_are_as_shown():
    rows = {row[0]: row for row in table("| | model | steps |")}
    assert {*rows} == {*RECIPES}
    for name, (_, model, steps, batch, _, peak, warmup, *_) in rows.items():
        recipe = load_recipe(name)
        assert model.startswith(recipe["model"])
        numbers = (recipe["steps"], *recipe["batch_size"], recipe["warmup_steps"])
        assert tuple(int(x.replace(",", "")) for x in (steps, batch, warmup)) == numbers
        assert float(peak) == recipe["learning_rate"]
    for name, (layers, hidden) in PRESETS.items():
        assert re.search(rf"`{name}` \({layers}(?: layers of|,) {hidden}\)", TEXT)


def test_its_commands_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")
    build_here(DATA / "documents.jsonl", output=tmp_path / "demo", dupe_factor=1)
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```bash\n(bert-train demo.*?)^```$", TEXT, re.M | re.S)
    commands = [shlex.split(line) for line in block.splitlines()]
    assert len(commands) == 3
    for command in commands:
        assert command[0] == "bert-train"
        assert main(command[1:]) == 0, capsys.readouterr().err
    assert (tmp_path / "out" / "onward" / "config.json").exists()
