"""Files that appear whole or not at all, on any file system of Beam.

Two attempts at the same file may be made at the same time, by a retry while the first one still runs.
They write the same bytes, and whoever is first or last, the name has all of them or does not exist:

* On this machine the bytes go to ``.<name>.<uuid>.tmp`` beside the file, which is renamed onto it.
* In an object store (``gs://``, ``s3://``, ``azfs://``) an upload becomes visible, whole, when it is
  completed, so it goes to the name itself. A rename is a copy and a deletion there and gains nothing.
* Everywhere else (``hdfs://``) what is uploaded is visible as it grows, so that it goes to a temporary
  name and is renamed. Where a rename onto what is there is refused and that has the same bytes, it is
  another attempt's and stays.

What is for another machine is collected here first, in memory or a temporary file: code that raises
while it writes has not uploaded anything. An upload that breaks off is given up (``_give_up``), since
closing it, which Python does to any file nobody holds, would complete it with what it has.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterator
from typing import IO, Any, BinaryIO, cast

from apache_beam.io.filesystem import CompressionTypes

from schemas.stores import (
    as_os_errors,
    exists,
    file_system,
    local_path,
    open_file,
    remove,
    scheme_of,
)

__all__ = ["TEMPORARY_NAME", "atomic_write", "sync_file"]

#: What temporary names match; those of attempts that were killed stay, and are swept later.
TEMPORARY_NAME = r"\.[^/]+\.[0-9a-f]{32}\.tmp"

#: Where an upload is visible once it is complete, and not before.
_VISIBLE_WHEN_COMPLETE = ("gs", "s3", "azfs")

_IN_MEMORY_BYTES = 32 << 20
#: S3 takes parts of 5 MiB and more, and at most 10,000 of them.
_PIECE_BYTES = 16 << 20
_RENAMES = 3


@contextlib.contextmanager
def atomic_write(path: str, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Give a binary file that takes the name ``path`` once the block has ended without an error.

    A file that is there already is replaced. A missing local directory is made.

    Args:
      path: local, or on any file system of Beam.
      sync: wait until a local file is on the disk; without it, call :func:`sync_file` later.

    Raises:
      OSError: it cannot be written or renamed.
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
        on_error.callback(remove, [temporary])
        with open(temporary, "wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        on_error.pop_all()


@contextlib.contextmanager
def _remote_write(path: str) -> Iterator[BinaryIO]:
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as content:
        yield cast(BinaryIO, content)
        if scheme_of(path) in _VISIBLE_WHEN_COMPLETE:
            _upload(content, path)
            return
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/{_temporary_name(name)}"
        with contextlib.ExitStack() as always:
            always.callback(_remove_if_possible, temporary)
            _upload(content, temporary)
            if _rename(temporary, path, content):
                always.pop_all()


def _upload(content: IO[bytes], path: str) -> None:
    content.seek(0)
    with as_os_errors(path):
        # The type says "no guessing of a compression from the name".
        file: Any = file_system(path).create(
            path, "application/octet-stream", CompressionTypes.UNCOMPRESSED
        )
        try:
            while piece := content.read(_PIECE_BYTES):
                file.write(piece)
            file.close()
        except BaseException:  # an interrupt, too
            _give_up(file, published_by_closing=scheme_of(path) in _VISIBLE_WHEN_COMPLETE)
            raise


def _give_up(file: Any, *, published_by_closing: bool) -> None:
    """Ends an upload so that nothing of it is ever visible under the name that counts."""
    with contextlib.suppress(Exception):
        if not published_by_closing:
            file.close()
        elif (uploader := getattr(getattr(file, "raw", None), "_uploader", None)) is not None:
            # Beam's own, as for S3: what it has left to do is not done, and the parts go.
            uploader.put = uploader.finish = lambda *unused: None
            file.close()
            if (upload_id := getattr(uploader, "upload_id", None)) is not None:
                uploader._client.client.abort_multipart_upload(
                    Bucket=uploader._bucket, Key=uploader._name, UploadId=upload_id
                )
        else:  # Google's: closed is what it is once its buffer is
            file._buffer.close()
            file.terminate()


def _rename(temporary: str, path: str, content: IO[bytes]) -> bool:
    """Gives a stored file its name; False if another attempt's has it, with the same bytes.

    Raises:
      OSError: it cannot be done.
    """
    for left in reversed(range(_RENAMES)):
        try:
            with as_os_errors(path):
                file_system(path).rename([temporary], [path])
            return True
        except OSError:
            if not left or not exists(temporary) or not exists(path):
                raise
            if _same(path, content):
                return False
            remove([path])  # of an earlier build, or damaged: there is no other way to replace it
    return False


def _same(path: str, content: IO[bytes]) -> bool:
    content.seek(0)
    with open_file(path) as file:
        while piece := content.read(_PIECE_BYTES):
            if file.read(len(piece)) != piece:
                return False
        return not file.read(1)


def _temporary_name(name: str) -> str:
    return f".{name}.{uuid.uuid4().hex}.tmp"


def _remove_if_possible(path: str) -> None:
    with contextlib.suppress(OSError):
        remove([path])
