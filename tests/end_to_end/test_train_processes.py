"""Runs in processes of their own: several that train together, some that are killed or told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

from tests.builds import ROOT
from tests.end_to_end.commands import PATIENCE
from tests.end_to_end.train_runs import (
    lines_of,
    losses,
    metrics,
    start,
    start_two,
    until_step,
    wait,
)

QUICK = "--model 1,64 --batch_size 8 --learning_rate 1e-3 --log_every 1 --device cpu --dropout 0"


#: 5 steps of 160 rows, the last batch of an epoch among them.
STEPS = [*QUICK.split(), "--steps", "5", "--batch_size", "160"]


@pytest.fixture(scope="module")
def alone(train_data, tmp_path_factory):
    """The output of one process, and what it printed."""
    output = tmp_path_factory.mktemp("alone") / "model"
    code, printed, stderr = wait(start(train_data, "--output", output, *STEPS))
    assert code == 0, stderr
    return output, printed


def check_same(output, alone) -> None:
    """Losses of five updates, and so four gradients, and the validation."""
    assert losses(output) == pytest.approx(losses(alone), abs=1e-5)
    assert len(losses(alone)) == 5
    found = [
        next(line for line in metrics(folder) if line["kind"] == "validation")
        for folder in (alone, output)
    ]
    assert found[1] == pytest.approx(found[0], abs=1e-4)
    names = [{path.name for path in folder.iterdir()} for folder in (alone, output)]
    assert names[0] == names[1]


def test_two_processes_have_the_losses_of_one_with_twice_the_batch(train_data, alone, tmp_path):
    output = tmp_path / "two"
    launcher = ["torch.distributed.run", "--standalone", "--local_addr=127.0.0.1"]
    flags = ["--nproc_per_node=2", "-m", "train", train_data, "--output", output, *STEPS]
    done = subprocess.run(
        [sys.executable, "-m", *launcher, *map(str, flags)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    together = done.stdout
    check_same(output, alone[0])
    # Only the first one prints and saves.
    assert together.count("step 5 of 5") == alone[1].count("step 5 of 5") == 1
    assert "in 2 processes" in together


def test_two_processes_that_take_their_rows_in_parts_have_them_too(train_data, alone, tmp_path):
    output = tmp_path / "parts"
    flags = [*STEPS, "--gradient_accumulation_steps", "4"]
    both = start_two(train_data, "--output", output, *flags)
    for code, _, stderr in [wait(process) for process in both]:
        assert code == 0, stderr
    check_same(output, alone[0])


#: A thread that Python would wait for at its end.
STUCK = "import threading; threading.Thread(target=threading.Event().wait).start()"


@pytest.mark.parametrize("before", ["", STUCK], ids=["plain", "a thread that never ends"])
def test_a_process_that_is_killed_ends_the_others_with_a_line(before, train_data, tmp_path):
    output = tmp_path / "model"
    flags = [*QUICK.split(), "--steps", "100000", "--save_checkpoints_steps", "2"]
    first, second = start_two(train_data, "--output", output, *flags, before=before)
    until_step(output, 4, first, second)
    second.send_signal(signal.SIGKILL)
    code, _, stderr = wait(first)
    wait(second)
    assert code == 1
    (said,) = lines_of(stderr)
    assert "another process of this run has ended" in said
    assert "--resume" in said
    assert "Traceback" not in stderr
    assert not (output / "config.json").exists()


def test_sigterm_saves_and_the_run_goes_on_from_there(train_data, tmp_path):
    flags = [*QUICK.split(), "--steps", "100000", "--seed", "3"]
    output = tmp_path / "model"
    process = start(train_data, "--output", output, *flags)
    until_step(output, 3, process)
    process.send_signal(signal.SIGTERM)
    code, _, stderr = wait(process)
    assert code == 143
    assert stderr.count("\n") == 1
    assert stderr.startswith("bert-train: error: terminated after ")
    assert "--resume goes on from there" in stderr
    (checkpoint,) = output.glob("checkpoint-*")
    done = int(checkpoint.name.partition("-")[2])
    assert f"after {done:,} of" in stderr
    assert done >= 3
    before = losses(output)
    again = start(train_data, "--output", output, *flags, "--resume")
    until_step(output, done + 2, again)
    again.send_signal(signal.SIGTERM)
    assert wait(again)[0] == 143
    assert losses(output)[:done] == before[:done]
    # The same as without any interruption.
    whole = start(train_data, "--output", tmp_path / "whole", *flags)
    until_step(tmp_path / "whole", done + 2, whole)
    whole.send_signal(signal.SIGTERM)
    assert wait(whole)[0] == 143
    assert losses(output)[: done + 2] == losses(tmp_path / "whole")[: done + 2]


def test_all_processes_stop_after_the_same_step(train_data, tmp_path):
    """One is told to, and all hear of it."""
    output = tmp_path / "model"
    first, second = start_two(train_data, "--output", output, *QUICK.split(), "--steps", "100000")
    until_step(output, 3, first, second)
    second.send_signal(signal.SIGTERM)
    ends = [wait(first), wait(second)]
    assert [code for code, _, _ in ends] == [143, 143]
    said = [lines_of(stderr) for _, _, stderr in ends]
    assert len(said[0]) == 1
    assert said[0] == said[1]
    assert len(list(output.glob("checkpoint-*"))) == 1
