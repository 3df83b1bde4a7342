"""The README is true: its commands run as written, print what it shows, and name flags that exist."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from pipeline.config import BuildConfig
from pipeline.flags import build_parser
from schemas.arrow import example_schema
from schemas.errors import RejectReason
from tests.builds import DATA, ROOT
from train.cli import make_parser

README = (ROOT / "README.md").read_text(encoding="utf8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf8")


class Block(NamedTuple):
    language: str
    text: str


#: What runs on other runners is tested with those, see tests/clusters/test_runner_docs.py.
BLOCKS = [
    Block(*found)
    for found in re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)
    if "--runner" not in found[1]
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, commands):
    """A copy of what a clone has and the commands need; ``bert-data`` there is this checkout's."""
    here = tmp_path_factory.mktemp("readme")
    shutil.copytree(DATA, here / "tests" / "data")
    (here / "bin").mkdir()
    command = here / "bin" / "bert-data"
    command.write_text(f'#!/bin/sh\nexec {commands.shell_command()} "$@"\n')
    command.chmod(0o755)
    return here


def run(folder: Path, *command: str) -> str:
    paths = [str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        command,
        cwd=folder,
        env={
            **os.environ,
            "PATH": os.pathsep.join(paths),
            "PYTHONPATH": str(ROOT),
            "HF_HOME": str(folder / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def demo(folder):
    """What ``make demo`` prints once its environment is there: the recipe itself is run."""
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", MAKEFILE, re.M)
    assert recipe
    return run(folder, "bash", "-ec", recipe[1].replace("$(BIN)/", ""))


def run_block(folder: Path, block: Block, *, demo: str) -> str:
    """What the block prints.

    ``make`` is not run: it sets up an environment from a package registry, and ``make test`` would run
    this test again. That the targets exist is checked, and of ``demo`` the recipe has been run.
    """
    if block.language == "python":
        return run(folder, sys.executable, "-c", block.text)
    if block.text.startswith("make "):
        for target in block.text.split()[1:]:
            assert re.search(rf"^{target}:", MAKEFILE, re.M), f"no target {target}"
        return demo
    return run(folder, "bash", "-ec", block.text)


@pytest.mark.timeout(1200)
def test_every_block_runs_and_prints_what_is_shown(folder, demo):
    assert {block.language for block in BLOCKS} == {"bash", "python", "text"}
    assert len(BLOCKS) > 12
    printed, shown = "", 0
    for block in BLOCKS:
        if block.language != "text":
            printed = run_block(folder, block, demo=demo)
            continue
        if block.text.startswith("demo\n"):
            printed = "\n".join(
                str(p.relative_to(folder)) for p in [folder / "demo", *(folder / "demo").rglob("*")]
            )
        lines = [line.rstrip() for line in printed.splitlines()]
        for line in block.text.splitlines():
            assert line == "..." or line in lines, f"{line}\nis not in\n{printed}"
        shown += 1
    assert shown == 5


def test_the_tree_is_complete(folder, demo):
    tree = next(block.text for block in BLOCKS if block.text.startswith("demo\n"))
    files = {str(p.relative_to(folder)) for p in (folder / "demo").rglob("*")}
    assert {*tree.split()} == {"demo", *files}


def test_flags_exist_and_none_is_left_out():
    mentioned = set(re.findall(r"(?<![\w-])--(?:no-)?([a-z][a-z_]+)", README))
    parsers = build_parser(), make_parser()
    known = {name.removeprefix("--") for each in parsers for name in each._option_string_actions}
    # Of pip and gzip, of the command itself, of bert-data check.
    assert mentioned - known == {"stdout", "debug", "corpus", "max_violations"}
    assert {field.name for field in dataclasses.fields(BuildConfig)} - mentioned == {"input"}


def table(first_column: str) -> dict[str, list[str]]:
    """The rows of a table by their first cell."""
    text = README[README.index(f"| {first_column} |") :].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return {row[0].strip("` "): row[1:] for row in rows[2:]}


def test_defaults_are_right():
    config = BuildConfig(input=("a",), vocab_file="b", output="c", max_seq_length=(128, 512))
    rows = table("flag")
    assert len(rows) == 16
    for flag, (_, ours) in rows.items():
        value = getattr(BuildConfig(input=("a",), vocab_file="b", output="c"), flag[2:])
        if isinstance(value, tuple):
            (value,) = value
        if value is not None:
            assert re.match(rf"`?{re.escape(str(value).lower())}`?\b", ours), (flag, ours)
    assert config.max_predictions_per_seq == (20, 76)


def test_columns_are_right():
    rows = table("column")
    schema = example_schema(30_000, provenance=False)
    assert list(rows) == schema.names
    for field in schema:
        kind = str(getattr(field.type, "value_type", field.type))
        assert kind in rows[field.name][0]
    assert "**0 = IsNext, 1 = NotNext**" in rows["next_sentence_label"][1]


def test_reasons_are_all_there():
    for reason in RejectReason:
        assert f"`{reason}`" in README


def test_no_paths_of_a_machine():
    assert not re.search(r"/(work|tmp|home|root|Users)/", README)
