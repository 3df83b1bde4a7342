"""Where a run goes on, and from what: to the bit, or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import signal
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch
from safetensors.torch import load_file, save_file

from schemas.errors import ConfigError
from schemas.manifest import load_manifest
from tests.end_to_end.train_runs import (
    check_goes_on,
    configure,
    metrics,
    start,
    train_until,
    wait,
)
from train.cli import main
from train.config import TrainConfig
from train.data import PretrainingDataset
from train.metrics import Metrics
from train.step import Stepper
from train.train import train


@pytest.fixture(scope="module")
def phased(train_data, tmp_path_factory):
    """Two phases of 5 and 3 steps, epochs of 5, in two parts; without interruption."""
    rows = [d.examples for d in load_manifest(train_data).data_sets if d.split == "train"]
    settings = {
        "steps": 8,
        "phases": "seq32:0.625,seq64:0.375",
        # The rest of an epoch is half a batch: of a row or two the last digit hangs on where they lie.
        "batch_size": tuple(2 * (n // 9) for n in rows),
        "gradient_accumulation_steps": 2,
        "save_checkpoints_steps": 1,
    }
    output = tmp_path_factory.mktemp("phased") / "model"
    return settings, output, train(configure(train_data, output, **settings))


@pytest.mark.parametrize("stop", [2, 5, 7])
def test_phases_accumulation_and_changing_masks_resume_to_the_bit(
    train_data, phased, tmp_path, monkeypatch, stop
):
    """In the middle of an epoch, where the second phase begins, and in it."""
    settings, output, whole = phased
    parts = tmp_path / "parts"
    train_until(configure(train_data, parts, **settings), stop=stop)
    resumed = train(configure(train_data, parts, resume=True, **settings))
    check_goes_on(whole, resumed, output, parts, first=stop)
    names = sorted(p.name for p in output.glob("checkpoint-*"))
    assert names == ["checkpoint-7", "checkpoint-8"]  # the last two are kept


def batches_of(config: TrainConfig, monkeypatch) -> list[bytes]:
    """The ids of each batch of a run, which is resumed before every update."""
    found: dict[int, bytes] = {}
    update = Stepper.update

    def watched(self, batch, *, step):
        if step in found:
            return update(self, batch, step=step)
        found[step] = batch["input_ids"].numpy().tobytes()
        raise KeyboardInterrupt

    monkeypatch.setattr(Stepper, "update", watched)
    while len(found) < config.steps:
        with pytest.raises(KeyboardInterrupt):
            train(config)
        config = dataclasses.replace(config, resume=True)
    return [found[step] for step in sorted(found)]


def test_a_phase_goes_on_with_the_rows_where_the_last_one_of_its_length_came_to(
    train_data, tmp_path, monkeypatch
):
    """Not with those of the first epoch again; whatever is between, and wherever it is resumed."""
    rows = next(d.examples for d in load_manifest(train_data).data_sets if d.split == "train")
    config = configure(
        train_data,
        tmp_path / "out",
        phases="seq32:0.25,seq64:0.25,seq32:0.5",
        batch_size=(rows // 2, 8, rows // 2),  # an epoch is two steps and a rest
        save_checkpoints_steps=1,
    )
    found = batches_of(config, monkeypatch)
    dataset = PretrainingDataset(train_data, batch_size=rows // 2)
    expected = [b["input_ids"].numpy().tobytes() for b in (*dataset, *dataset)]
    assert [found[0], *found[2:]] == expected[:3]


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_resumes_to_the_bit(train_data, tmp_path, precision):
    settings = {"precision": precision, "save_checkpoints_steps": 2, "num_workers": 0}
    output, parts = tmp_path / "whole", tmp_path / "parts"
    whole = train(configure(train_data, output, **settings))
    train_until(configure(train_data, parts, **settings), stop=3)
    resumed = train(configure(train_data, parts, resume=True, **settings))
    check_goes_on(whole, resumed, output, parts, first=2)


def break_file(file: Path, how: str) -> None:
    if how == "gone":
        file.unlink()
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:-500])
    elif how == "empty":
        file.write_bytes(b"")
    elif file.suffix == ".pt":
        state = torch.load(file, weights_only=True)
        del state[how]
        torch.save(state, file)
    else:
        tensors = load_file(file)
        del tensors[how]
        save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("name", "how", "message"),
    [
        ("training_state.pt", "gone", "No such file or directory"),
        ("training_state.pt", "cut", ""),
        ("training_state.pt", "empty", "EOFError"),
        ("training_state.pt", "loaders", "it has no loaders"),
        ("config.json", "gone", "No such file or directory"),
        ("config.json", "empty", "JSONDecodeError"),
        ("model.safetensors", "gone", "it is missing"),
        ("model.safetensors", "cut", "SafetensorError"),
        ("model.safetensors", "empty", "SafetensorError"),
        ("model.safetensors", "bert.pooler.dense.bias", "it has no bert.pooler.dense.bias"),
    ],
)
def test_a_broken_checkpoint_is_one_line(
    train_data, trained_model, tmp_path, capsys, name, how, message
):
    output = tmp_path / "out"
    shutil.copytree(trained_model, output)
    file = output / "checkpoint-4" / name
    break_file(file, how)
    flags = "--model 1,64 --steps 4 --batch_size 8 --learning_rate 1e-3 --resume"
    assert main([str(train_data), "--output", str(output), *flags.split()]) == 2
    error = capsys.readouterr().err
    assert f"{file} cannot be read: {message}" in error
    assert f"delete {file.parent}, then --resume goes on from the checkpoint before it" in error
    assert error.count("\n") == 1
    assert len(error) < 500 + 2 * len(str(file))


def test_a_run_that_is_killed_while_it_saves_goes_on_from_the_checkpoint_before(
    train_data, tmp_path
):
    """SIGKILL, in the middle of the second checkpoint: after the model, before its name."""
    output = tmp_path / "killed"
    before = (
        "import os, signal, torch\n"
        "save = torch.save\n"
        "def killed(state, file):\n"
        "    if state['step'] == 4:\n"
        "        file.write(b'half of it'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "    save(state, file)\n"
        "torch.save = killed\n"
    )
    flags = "--model 1,64 --steps 5 --batch_size 8 --learning_rate 1e-3 --save_checkpoints_steps 2"
    process = start(train_data, "--output", output, *flags.split(), before=before)
    assert wait(process)[0] == -signal.SIGKILL
    names = {path.name for path in output.glob("*checkpoint*")} | {
        path.name for path in output.glob(".*")
    }
    assert names == {"checkpoint-2", ".checkpoint-4.tmp"}
    settings = {"steps": 5, "save_checkpoints_steps": 2}
    resumed = train(configure(train_data, output, resume=True, **settings))
    whole = train(configure(train_data, tmp_path / "whole", **settings))
    check_goes_on(whole, resumed, output, tmp_path / "whole", first=2)
    assert not list(output.glob(".*"))


def test_the_learning_rate_runs_through_the_phases(train_data, tmp_path):
    settings = {"phases": "seq32:0.5,seq64:0.5", "warmup_steps": 1}
    train(configure(train_data, tmp_path / "model", **settings))
    lines = metrics(tmp_path / "model")
    rates = [line["learning_rate"] for line in lines if line["kind"] == "train"]
    assert rates == pytest.approx([0, 0.75e-3, 0.5e-3, 0.25e-3])


def test_a_log_without_a_checkpoint_is_begun_anew(train_data, tmp_path, capsys):
    """Killed before the first checkpoint."""
    output = tmp_path / "out"
    output.mkdir()
    first = Metrics(output, first=0)
    first.write("train", 9, loss=1.0)
    first.close()
    (before,) = (output / "tensorboard").iterdir()
    for name in (".metrics.jsonl.tmp", ".loss.png.tmp"):
        (output / name).write_text("half of it")
    with pytest.raises(ConfigError, match="--resume goes on with it"):
        train(configure(train_data, output))
    assert train(configure(train_data, output, resume=True)).first_step == 0
    said = capsys.readouterr().out
    assert f"No checkpoint in {output} yet: starting at step 0\n" in said
    assert not list(output.glob(".*"))
    assert [x["step"] for x in metrics(output) if x["kind"] == "train"] == [1, 2, 3, 4]
    (events,) = (output / "tensorboard").iterdir()
    assert events != before
    train(configure(train_data, output, resume=True))
    assert "No checkpoint" not in capsys.readouterr().out
    with pytest.raises(ConfigError, match="has the shape 1,64; give that"):
        train(configure(train_data, output, resume=True, model="2,64"))
    with pytest.raises(ConfigError, match="was made with phases=4 x 8 x 32, not 4 x 9 x 32"):
        train(configure(train_data, output, resume=True, batch_size=9))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("masked_lm_prob", 0.3),
        ("max_ngram_size", 2),
        ("mask_per", "word"),
        ("mask_token_share", 0.7),
        ("random_token_share", 0.2),
        ("random_tokens", "all"),
        ("do_whole_word_mask", True),
        ("max_predictions_per_seq", 1),
        ("tokenizer", None),
    ],
)
def test_other_masks_are_not_gone_on_with(train_data, trained_model, tmp_path, name, value):
    """The rows are the same, to the byte: masks that are drawn here are not in them."""
    other, output = tmp_path / "data", tmp_path / "out"
    shutil.copytree(train_data, other)
    shutil.copytree(trained_model, output)
    manifest = json.loads((other / "manifest.json").read_text())
    if name == "tokenizer":
        with (other / "tokenizer.json").open("a") as file:
            file.write("\n")
        text = (other / "tokenizer.json").read_bytes()
        manifest["tokenizer"]["digest"] = hashlib.sha256(text).hexdigest()
    elif name == "max_predictions_per_seq":
        for each in manifest["data_sets"]:
            each[name] = value
    else:
        assert manifest["configuration"][name] != value
        manifest["configuration"][name] = value
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ConfigError, match=rf"was made with {name}=.*, not "):
        train(configure(other, output, resume=True))
    assert train(configure(train_data, output, resume=True)).first_step == 4
