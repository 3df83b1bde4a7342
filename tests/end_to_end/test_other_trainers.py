"""The examples of ``docs/other_trainers.md`` run as they are written, and train."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")
pytest.importorskip("datasets", reason="needs datasets: pip install bert-data[test]")

from pipeline.flags import build_parser
from tests.builds import DATA, ROOT, build_here

PAGE = (ROOT / "docs" / "other_trainers.md").read_text(encoding="utf8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With ``demo`` in it, as ``make demo`` leaves it, of fewer passes."""
    here = tmp_path_factory.mktemp("other")
    settings = {"do_whole_word_mask": True, "dupe_factor": 2}
    build_here(DATA / "documents.jsonl", output=here / "demo", **settings)
    return here


def run(folder, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HF_HOME": str(folder / "cache"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_trainer_of_transformers(folder):
    printed = run(folder, BLOCKS[0])
    (loss,) = map(float, re.findall(r"'train_loss': '?([\d.]+)", printed))
    assert loss == pytest.approx(math.log(3637) + math.log(2), abs=0.5)


def test_pyarrow_and_torch_alone(folder):
    code = BLOCKS[1]
    assert not re.search(r"from (train|schemas|transforms|pipeline)\b", code)
    (loss,) = map(float, re.findall(r"the last loss is ([\d.]+)", run(folder, code)))
    assert 4 < loss < math.log(3637) + math.log(2) - 0.7  # it has learnt how frequent tokens are


def test_there_is_no_other_block_and_flags_exist():
    assert len(BLOCKS) == PAGE.count("```") // 2 == 2
    mentioned = set(re.findall(r"(?<![\w-])--([a-z][a-z_]+)", PAGE))
    assert mentioned <= {n.removeprefix("--") for n in build_parser()._option_string_actions}
