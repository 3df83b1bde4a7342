"""``bert-train``'s flags, and how it fails. All of it without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from schemas.errors import ConfigError
from schemas.manifest import MANIFEST_FILE
from tests.builds import ROOT
from tests.unit.test_manifest_reader import make_manifest
from train.cli import UsageError, main, parse

NEEDED = ["data", "--output", "out"]


def test_every_flag_has_its_effect_in_both_spellings():
    flags = {
        "model": "4,256",
        "steps": 7,
        "batch_size": 8,
        "learning_rate": 0.001,
        "warmup_steps": 3,
        "max_seq_length": 512,
        "seed": 0,
        "log_every": 5,
        "save_checkpoints_steps": 2,
    }
    for spell in (str, lambda name: name.replace("_", "-")):
        given = [text for name, v in flags.items() for text in (f"--{spell(name)}", str(v))]
        config = parse([*NEEDED, *given, "--resume"])
        assert {name: getattr(config, name) for name in flags} == flags
        assert (config.data, config.output, config.resume) == ("data", "out", True)
    assert parse([*NEEDED, "--batch-size=9"]).batch_size == 9


def test_warm_up_is_a_hundredth_as_in_the_paper():
    assert parse([*NEEDED, "--steps", "1000"]).warmup_steps == 10
    assert parse([*NEEDED, "--steps", "1000", "--warmup_steps", "0"]).warmup_steps == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "huge"], "--model='huge': must be one of tiny, "),
        (["--steps", "0"], "--steps=0: "),
        (["--batch_size", "-3"], "--batch_size=-3: "),
        (["--learning_rate", "nan"], "--learning_rate=nan: "),
        (["--learning_rate", "0"], "--learning_rate=0.0: "),
        (["--steps", "5", "--warmup_steps", "6"], "--warmup_steps=6: is more than --steps=5"),
        (["--seed", "-1"], "--seed=-1: "),
        (["--steps", "many"], "--steps: invalid int value: 'many'"),
        (["--stops", "5"], "unrecognized arguments: --stops 5"),
    ],
)
def test_wrong_flags_are_one_line_and_exit_2(capsys, flags, message):
    assert main([*NEEDED, *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bert-train: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_what_must_be_given():
    with pytest.raises(UsageError, match="--output"):
        parse(["data"])
    with pytest.raises(UsageError, match="DIR"):
        parse(["--output", "out"])
    with pytest.raises(ConfigError):
        parse([*NEEDED, "--log_every", "0"])


def test_no_data_set_is_one_line(capsys, tmp_path):
    assert main([str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "incomplete or not a data set" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_missing_package_is_named_with_its_remedy(capsys, monkeypatch, tmp_path, missing):
    if missing == "transformers":
        pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")
    for name in [n for n in sys.modules if n.startswith("train.")]:
        if name not in ("train.cli", "train.config"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    (tmp_path / MANIFEST_FILE).write_text(make_manifest(()).to_json())
    assert main([str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert f"{missing} is not installed" in error
    assert "pip install bert-data[train]" in error
    assert error.count("\n") == 1


def test_help_and_wrong_flags_do_not_wait_for_torch():
    code = (
        "import sys; from train.cli import main\n"
        "assert main(['--help']) == 0\n"
        "assert main(['x', '--output', 'y', '--steps', '0']) == 2\n"
        "sys.exit(int('torch' in sys.modules or 'pyarrow' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--learning_rate" in done.stdout


def test_python_minus_m_train_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "train", "x", "--output", "y", "--steps", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("bert-train: error: --steps=0: ")
