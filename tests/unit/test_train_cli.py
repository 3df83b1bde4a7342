"""``bert-train``'s flags, and how it fails. All of it without torch."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from schemas.errors import ConfigError
from schemas.manifest import MANIFEST_FILE
from tests.builds import ROOT
from tests.unit.test_manifest_reader import make_manifest
from train.cli import UsageError, main, parse
from train.config import TrainConfig

NEEDED = ["data", "--output", "out"]


def test_every_flag_has_its_effect_in_both_spellings():
    flags = {
        "model": "4,256",
        "init": "there",
        "steps": 70,
        "batch_size": "8,4",
        "learning_rate": 0.001,
        "warmup_steps": 3,
        "phases": "seq128:0.9,seq512:0.1",
        "optimizer": "adamw",
        "weight_decay": 0.1,
        "adam_beta2": 0.98,
        "max_grad_norm": 0.0,
        "dropout": 0.0,
        "precision": "bfloat16",
        "gradient_accumulation_steps": 2,
        "num_workers": 3,
        "device": "cpu",
        "seed": 0,
        "log_every": 5,
        "save_checkpoints_steps": 2,
        "keep_checkpoints": 3,
    }
    for spell in (str, lambda name: name.replace("_", "-")):
        given = [text for name, v in flags.items() for text in (f"--{spell(name)}", str(v))]
        config = parse([*NEEDED, *given, "--resume", "--compile", "--verify"])
        expected = flags | {"batch_size": (8, 4)}
        assert {name: getattr(config, name) for name in flags} == expected
        assert (config.data, config.output, config.resume) == ("data", "out", True)
        assert config.compile
        assert config.verify
    fields = {field.name for field in dataclasses.fields(TrainConfig)}
    assert fields - {*flags} == {"data", "output", "resume", "compile", "verify", "max_seq_length"}
    assert parse([*NEEDED, "--batch-size=9", "--max_seq_length", "64"]).batch_size == (9,)


def test_what_is_not_given_is_the_default():
    assert parse(NEEDED) == TrainConfig(data="data", output="out")
    assert parse([*NEEDED, "--init", "x"]).model is None
    assert parse(NEEDED).model == "tiny"


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
        (
            ["--learning_rate", "1e300"],
            "--learning_rate=1e+300: must be a number above 0, at most ",
        ),
        (["--weight_decay", "1e300"], "--weight_decay=1e+300: must be at most 1e+15"),
        (["--steps", "5", "--warmup_steps", "6"], "--warmup_steps=6: is more than --steps=5"),
        (["--seed", "-1"], "--seed=-1: "),
        (["--seed", str(2**63)], "must be at most 9223372036854775807"),
        (["--output", "gs://bucket/out"], "--output='gs://bucket/out': must be a local directory"),
        (["--steps", "many"], "--steps: invalid int value: 'many'"),
        (["--stops", "5"], "no such flag: --stops; did you mean --steps?"),
        (["--batch-sise=5"], "no such flag: --batch_sise=5; did you mean --batch_size?"),
        (["--bucket", "5"], "no such flag: --bucket; bert-train --help lists the flags"),
        (["more"], "unrecognized arguments: more"),
        (["--batch_size", "8,x"], "--batch_size: invalid tuple value: '8,x'"),
        (["--batch_size", "8,4"], "--batch_size='8,4': one, or one for each of 1 phases"),
        (["--batch_size", "9", "--gradient_accumulation_steps", "2"], "must be a multiple of "),
        (["--phases", "128:1"], "--phases='128:1': must be like seq128:0.9,"),
        (["--phases", "seq128:0.9,seq512:0.2"], "the shares must add up to 1"),
        (
            ["--phases", "seq128:0.9,seq512:0.1", "--steps", "3"],
            "none of 3 steps is left for seq512",
        ),
        (["--phases", "seq128:1", "--max_seq_length", "128"], "--phases has the lengths"),
        (["--precision", "int8"], "must be one of float32, bfloat16, float16"),
        (["--optimizer", "lamb"], "must be one of bert, adamw"),
        (["--dropout", "1"], "--dropout=1.0: must be at least 0 and below 1"),
        (["--weight_decay", "-1"], "--weight_decay=-1.0: must be a number, at least 0"),
        (["--keep_checkpoints", "0"], "--keep_checkpoints=0: must be a whole number, at least 1"),
        (["--config", "none"], "--config='none': no such file; it may also be one of bert-base, "),
    ],
)
def test_wrong_flags_are_one_line_and_exit_2(capsys, flags, message):
    assert main([*NEEDED, *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bert-train: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_the_last_phase_ends_with_the_last_step():
    """Whatever the shares add up to, within what is taken for 1."""
    for total in (0.9999991, 1, 1.0000009):
        phases = parse(
            [*NEEDED, "--phases", f"seq8:0.9,seq9:{total - 0.9:.7f}", "--steps", "10000000"]
        ).plan()
        assert [p.first_step for p in phases] == [0, 9_000_000]
        assert phases[-1].first_step + phases[-1].steps == 10_000_000


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


def test_a_missing_package_that_transformers_needs_is_named_as_well(tmp_path):
    """In a process of its own, which has not imported it yet: transformers wraps the error."""
    pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")
    (tmp_path / MANIFEST_FILE).write_text(make_manifest(()).to_json())
    code = (
        "import sys; from train.cli import main\n"
        "sys.modules['safetensors'] = None\n"
        "sys.exit(main([sys.argv[1], '--output', sys.argv[1] + '/out']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "bert-train: error: safetensors is not installed, which training needs: "
        'pip install "bert-data[train]"\n'
    )


@pytest.mark.parametrize("missing", ["torch", "transformers", "matplotlib", "tensorboard"])
def test_a_missing_package_is_named_with_its_remedy(capsys, monkeypatch, tmp_path, missing):
    if missing != "torch":
        pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")
    for name in [n for n in sys.modules if n.startswith("train.")]:
        if name not in ("train.cli", "train.config", "train.interrupts"):
            monkeypatch.delitem(sys.modules, name)
    # Parts of it that were imported before would still be found.
    parts = {"matplotlib": "matplotlib.", "tensorboard": "tensorboard."}.get(missing)
    for name in [n for n in sys.modules if parts and n.startswith(parts)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    (tmp_path / MANIFEST_FILE).write_text(make_manifest(()).to_json())
    assert main([str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert f"{missing} is not installed" in error
    assert 'pip install "bert-data[train]"' in error
    assert error.count("\n") == 1


def test_memory_is_kept_where_glibc_is():
    """In a process of its own: page faults of blocks that are taken again and again."""
    code = (
        "import resource, sys; from train.memory import keep_memory\n"
        "told = keep_memory() if sys.argv[1] == 'kept' else None\n"
        "[bytearray(50_000_000) for _ in range(2)]\n"
        "for _ in range(9): bytearray(50_000_000)\n"
        "print(told, resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"
    )
    found = {}
    for how in ("kept", "plain"):
        done = subprocess.run(
            [sys.executable, "-c", code, how],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        found[how] = done.stdout.split()
    if found["kept"][0] == "True":
        assert int(found["kept"][1]) < int(found["plain"][1]) / 2


def test_help_and_wrong_flags_do_not_wait_for_torch():
    code = (
        "import sys; from train.cli import main\n"
        "assert main(['--help']) == 0\n"
        "assert main(['x', '--output', 'y', '--steps', '0']) == 2\n"
        "sys.exit(int('torch' in sys.modules or 'pyarrow' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
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
        timeout=600,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("bert-train: error: --steps=0: ")
