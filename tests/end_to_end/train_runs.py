"""Runs of ``bert-train`` for tests: in this process, and in processes of their own."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.commands import PATIENCE, Command, server_of
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


def start(*flags: object, before: str = "", **environment: object) -> Command:
    """``bert-train`` with one thread, whatever the machine is called; :func:`wait` for it.

    Args:
      flags: of the command line.
      before: Python to run first.
      environment: variables to set.
    """
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    variables = {"GLOO_SOCKET_IFNAME": loopback} | {k: str(v) for k, v in environment.items()}
    return server_of("bert-train").start(*flags, before=before, environment=variables)


def start_two(*flags: object, before: str = "") -> list[Command]:
    """Two processes that train together, as ``torchrun`` would start them; see :func:`start`."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    meet = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [start(*flags, before=before, RANK=rank, LOCAL_RANK=rank, **meet) for rank in range(2)]


def wait(command: Command) -> tuple[int, str, str]:
    """Its exit code, and what it said; it is killed if it takes too long."""
    done = command.wait()
    return done.code, done.stdout, done.stderr


def until_step(output: Path, step: int, *running: Command) -> None:
    """Waits for a step to be in the log; all of them are killed if it does not come."""
    last = time.monotonic() + PATIENCE
    while not any(line["step"] >= step for line in metrics(output) if line["kind"] == "train"):
        if time.monotonic() > last or any(command.has_ended() for command in running):
            for command in running:
                with contextlib.suppress(ProcessLookupError):
                    command.send_signal(signal.SIGKILL)
            raise AssertionError([wait(command) for command in running])
        time.sleep(0.02)


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
