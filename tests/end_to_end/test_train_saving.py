"""What a run leaves behind when it cannot write, when it is told to end, and for others to read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from schemas.errors import BuildError
from tests.end_to_end.train_runs import configure, losses, metrics, start, train_until, wait
from train.board import Board
from train.export import Exporter
from train.interrupts import TerminatedError
from train.step import Stepper
from train.train import train

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full(*arguments: object, **named: object) -> None:
    raise FULL


def fill_disk(patch, what: str) -> None:
    """From now on there is no room for that."""
    if what == "the weights":
        patch.setattr("transformers.BertForPreTraining.save_pretrained", full)
    elif what == "the state":
        patch.setattr(torch, "save", full)
    elif what == "the sync":
        patch.setattr(os, "fsync", full)
    elif what == "the log":
        opened = Path.open
        patch.setattr(
            Path,
            "open",
            lambda path, *mode, **how: (full if mode == ("a",) else opened)(path, *mode, **how),
        )
    elif what == "tensorboard":
        patch.setattr(Board, "add", full)
    else:
        patch.setattr("matplotlib.figure.Figure.savefig", full)


@pytest.mark.parametrize(
    ("what", "file"),
    [
        ("the weights", "checkpoint-4"),
        ("the state", "checkpoint-4"),
        ("the sync", "checkpoint-4"),
        ("the log", "metrics.jsonl"),
        ("tensorboard", "tensorboard"),
        ("the picture", "loss.png"),
    ],
)
def test_a_full_disk_is_one_line_and_leaves_the_checkpoint_before(train_data, tmp_path, what, file):
    output = tmp_path / "out"
    settings = {"save_checkpoints_steps": 2, "num_workers": 0}
    train_until(configure(train_data, output, **settings), stop=2)
    with pytest.MonkeyPatch.context() as patch:
        fill_disk(patch, what)
        with pytest.raises(BuildError) as caught:
            train(configure(train_data, output, resume=True, **settings))
    said = str(caught.value)
    assert said.startswith(f"{output / file} cannot be written: No space left on device; make room")
    assert "--resume" in said
    assert "\n" not in said
    assert not list(output.glob(".checkpoint*"))
    assert train(configure(train_data, output, resume=True, **settings)).first_step in (2, 4)
    assert (output / "config.json").exists()


def test_no_room_for_the_trained_model(train_data, tmp_path):
    output, write = tmp_path / "out", Exporter.write

    def half(self, model, folder):
        write(self, model, folder)
        if folder.name == ".export.tmp":
            full()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Exporter, "write", half)
        with pytest.raises(BuildError, match=r"out/model\.safetensors cannot be written: No space"):
            train(configure(train_data, output))
    assert not list(output.glob(".*"))
    assert not (output / "config.json").exists()
    assert train(configure(train_data, output, resume=True)).first_step == 4
    assert (output / "config.json").exists()


@pytest.mark.parametrize("size", [100_000, 2_000_000], ids=["weights", "state"])
def test_a_limit_of_the_system_is_one_line_too(train_data, tmp_path, size):
    """As the libraries say it, which have errors of their own: files may only be so long."""
    output = tmp_path / "out"
    flags = "--model 1,64 --steps 4 --batch_size 8"
    before = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))\n"
    )
    command = start(train_data, "--output", output, *flags.split(), before=before)
    ended, _, stderr = wait(command)
    assert ended == 1
    assert stderr.startswith(f"bert-train: error: {output / 'checkpoint-4'} cannot be written: ")
    assert "File too large" in stderr
    assert stderr.count("\n") == 1
    assert not list(output.glob("*checkpoint*")) + list(output.glob(".*"))


def test_all_files_may_be_read_by_those_who_may_read_others(train_data, tmp_path):
    before = os.umask(0o027)
    try:
        train(configure(train_data, tmp_path / "out"))
    finally:
        os.umask(before)
    modes = {
        path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert {*modes.values()} == {0o640}, modes


def test_sigterm_leaves_the_line_of_what_was_done_since_the_last(train_data, tmp_path):
    update = Stepper.update

    def told(self, batch, *, step):
        return update(self, batch, step=step) if step < 4 else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "update", told)
        config = configure(train_data, tmp_path / "out", steps=6, log_every=100)
        with pytest.raises(TerminatedError, match="terminated after 4 of 6 steps"):
            train(config)
    train(configure(train_data, tmp_path / "each", steps=6))
    found = [line for line in metrics(tmp_path / "out") if line["kind"] == "train"]
    assert [line["step"] for line in found] == [1, 4]
    each = losses(tmp_path / "each")
    assert found[1]["loss"] == pytest.approx(sum(each[1:4]) / 3, abs=1e-6)
    assert (tmp_path / "out" / "checkpoint-4").exists()


def test_a_model_that_is_not_a_number_is_not_saved(train_data, tmp_path, monkeypatch):
    """SIGTERM comes before the line that would have said so."""
    update = Stepper.update

    def spoilt(self, batch, *, step):
        if step == 3:
            return None
        made = update(self, batch, step=step)
        assert made
        return made._replace(gradient_norm=made.gradient_norm * float("nan")) if step else made

    monkeypatch.setattr(Stepper, "update", spoilt)
    with pytest.raises(TerminatedError, match=r"terminated, and not saved: the loss is .* nan at"):
        train(configure(train_data, tmp_path / "out", log_every=50))
    assert not list((tmp_path / "out").glob("*checkpoint*"))


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """By name, as TensorBoard reads them."""
    read = EventAccumulator(str(folder))
    read.Reload()
    names = read.Tags()["scalars"]
    return {name: [(e.step, e.value) for e in read.Scalars(name)] for name in names}


def test_tensorboard_reads_what_the_log_has(train_data, tmp_path):
    output = tmp_path / "out"
    settings = {"save_checkpoints_steps": 2}
    train_until(configure(train_data, output, **settings), stop=3)  # a line of step 3 is there
    train(configure(train_data, output, resume=True, **settings))
    found = scalars(output / "tensorboard")
    for kind in ("train", "validation"):
        lines = [line for line in metrics(output) if line["kind"] == kind]
        for name in {*lines[0]} - {"kind", "step"}:
            steps, values = zip(*found[f"{kind}/{name}"], strict=True)
            assert list(steps) == [line["step"] for line in lines]
            assert list(values) == pytest.approx([line[name] for line in lines], rel=1e-6)
