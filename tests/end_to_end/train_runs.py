"""Runs of ``bert-train`` for tests: in this process, and in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.builds import ROOT
from tests.end_to_end.commands import PATIENCE, PROMPTLY, processes
from train.config import TrainConfig
from train.step import Stepper
from train.train import Report, train


def configure(data_set: Path, output: Path, **settings: Any) -> TrainConfig:
    """Four steps of a model that is smaller than tiny, with a line for each."""
    values: dict[str, Any] = {
        "model": "1,64",
        "steps": 4,
        "batch_size": 8,
        "learning_rate": 1e-3,
        "log_every": 1,
    }
    return TrainConfig(data=str(data_set), output=str(output), **(values | settings))


def stop_at(patch: pytest.MonkeyPatch, stop: int) -> None:
    """Runs are interrupted before update ``stop``, counted from 0."""
    update = Stepper.update

    def stopped(self, batch, *, step):
        if step == stop:
            raise KeyboardInterrupt
        return update(self, batch, step=step)

    patch.setattr(Stepper, "update", stopped)


def train_until(config: TrainConfig, *, stop: int) -> None:
    """A run that is interrupted there."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, stop)
        with pytest.raises(KeyboardInterrupt):
            train(config)


def check_goes_on(whole: Report, resumed: Report, *outputs: Path, first: int) -> None:
    """A run that was resumed has the losses and the weights of the whole one, to the bit."""
    assert resumed.first_step == first
    assert resumed.losses == whole.losses[first:]
    assert resumed.evaluation == whole.evaluation
    one, other = (folder / "model.safetensors" for folder in outputs)
    assert one.read_bytes() == other.read_bytes()


def start(*arguments: object, **environment: object) -> subprocess.Popen[str]:
    """``python -m ...`` with one thread, whatever the machine is called; :func:`wait` for it."""
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    environment = {"OMP_NUM_THREADS": 1, "GLOO_SOCKET_IFNAME": loopback, **environment}
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **{k: str(v) for k, v in environment.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def start_two(*arguments: object) -> list[subprocess.Popen[str]]:
    """Two processes that train together, as ``torchrun`` would start them."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    meet = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [start(*arguments, RANK=rank, LOCAL_RANK=rank, **meet) for rank in range(2)]


def wait(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code, and what it said; it is killed if it takes too long."""
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise AssertionError(_killed(process)) from None
    return process.returncode, stdout, stderr


def until_step(output: Path, step: int, *running: subprocess.Popen[str]) -> None:
    """Waits for a step to be in the log; all of them are killed if it does not come."""
    last = time.monotonic() + PATIENCE
    while not any(line["step"] >= step for line in metrics(output) if line["kind"] == "train"):
        if time.monotonic() > last or any(process.poll() is not None for process in running):
            raise AssertionError([_killed(process) for process in running])
        time.sleep(0.02)


def _killed(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Ends a process with all it started, and gives what it said."""
    _kill(process.pid)
    return process.communicate(timeout=PROMPTLY)


def _kill(pid: int) -> None:
    # One by one: torchrun's own processes have sessions of their own, and hold its pipes open.
    children = [child for child, parent, _ in processes() if parent == pid]
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for child in children:
        _kill(child)


def lines_of(stderr: str) -> list[str]:
    """The lines of ``bert-train``, without torch's, about host names and the like."""
    return [line for line in stderr.splitlines() if line.startswith("bert-train: ")]


def metrics(output: Path) -> list[dict]:
    """The whole lines of ``metrics.jsonl``."""
    path = output / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def losses(output: Path) -> list[float]:
    """Those of the lines of training."""
    return [line["loss"] for line in metrics(output) if line["kind"] == "train"]
