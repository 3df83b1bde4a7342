"""Scalars for TensorBoard, written here and now: an error is that of the call, not of a thread."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

__all__ = ["Board"]

#: What a reader takes a file of events by.
_VERSION = "brain.Event:2"


class Board:
    """One file of events in a folder, which is made.

    Args:
      folder: that of the run.
      first: updates made before; what earlier files say of later steps is taken back. None for a
        folder without any.
    """

    def __init__(self, folder: Path, *, first: int | None):
        folder.mkdir(exist_ok=True)
        # Readers take the files in the order of their names.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / name).open("xb", buffering=0)
        self._records = RecordWriter(self._file)
        self._write(file_version=_VERSION)
        if first is not None:
            self._write(step=first + 1, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, values: dict[str, float]) -> None:
        """Scalars by name, of a step."""
        summary = Summary(value=[Summary.Value(tag=k, simple_value=v) for k, v in values.items()])
        self._write(step=step, summary=summary)

    def close(self) -> None:
        """No more is to come."""
        self._file.close()

    def _write(self, **fields: Any) -> None:
        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())
