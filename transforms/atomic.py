"""Files that appear whole or not at all, on any file system of Beam."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from transforms.streams import local_path

__all__ = ["atomic_write", "sync_file"]


@contextlib.contextmanager
def atomic_write(path: str, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Give a binary file that takes the name ``path`` once the block has ended without an error.

    The bytes go to ``.<name>.<uuid>.tmp`` in the same directory, which is renamed at the end and
    removed on an error. A file that is there already is replaced: a retried bundle writes the
    same bytes to the same name. A missing local directory is made.

    Args:
      path: local, or on any file system of Beam.
      sync: wait until a local file is on the disk; without it, call :func:`sync_file` later.

    Raises:
      OSError: it cannot be written or renamed (``BeamIOError`` on a remote file system).
    """
    local = local_path(path)
    with _remote_write(path) if local is None else _local_write(local, sync=sync) as file:
        yield file


def sync_file(path: str) -> None:
    """Waits until a local file is on the disk. A remote one is where it belongs once it is closed.

    Raises:
      OSError: it is gone, or could not be written after all.
    """
    local = local_path(path)
    if local is not None:
        with open(local, "rb") as file:
            os.fsync(file.fileno())


@contextlib.contextmanager
def _local_write(path: str, *, sync: bool) -> Iterator[BinaryIO]:
    directory, name = os.path.split(os.path.abspath(path))
    os.makedirs(directory, exist_ok=True)
    temporary = os.path.join(directory, _temporary_name(name))
    with contextlib.ExitStack() as on_error:
        on_error.callback(_remove_local, temporary)
        with open(temporary, "wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        on_error.pop_all()


@contextlib.contextmanager
def _remote_write(path: str) -> Iterator[BinaryIO]:
    directory, name = FileSystems.split(path)
    temporary = FileSystems.join(directory, _temporary_name(name))
    with contextlib.ExitStack() as on_error:
        on_error.callback(_remove_remote, temporary)
        # The type says "no guessing of a compression from the name".
        with FileSystems.create(
            temporary, "application/octet-stream", CompressionTypes.UNCOMPRESSED
        ) as file:
            yield file
        _remove_remote(path)  # some file systems refuse to rename onto a file
        FileSystems.rename([temporary], [path])
        on_error.pop_all()


def _temporary_name(name: str) -> str:
    return f".{name}.{uuid.uuid4().hex}.tmp"


def _remove_local(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _remove_remote(path: str) -> None:
    if FileSystems.exists(path):
        FileSystems.delete([path])
