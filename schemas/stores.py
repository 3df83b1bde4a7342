"""Files wherever they are: on this machine, or by Beam's ``FileSystems`` in an object store.

Beam is imported only for a path with ``://`` in it, so that trainers do without. What is stored is read
by range; how much is fetched at a time is said when it is opened. Writing is in ``transforms.atomic``.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import io
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from schemas.errors import ConfigError
from schemas.store_clients import google_without_credentials, share_amazon_session

if TYPE_CHECKING:
    from apache_beam.io.filesystem import FileSystem

__all__ = [
    "as_os_errors",
    "exists",
    "file_system",
    "list_below",
    "local_path",
    "open_file",
    "open_stored",
    "remove",
    "require_folder",
    "require_store",
    "scheme_of",
    "use_store_options",
]

_SCHEME = re.compile(r"(?P<scheme>[a-zA-Z][-a-zA-Z0-9+.]*)://")

#: By scheme: what has to be installed for it, and a module that is there then.
_NEEDED = {
    "gs": ("bert-data[gcp]", "google.cloud.storage"),
    "s3": ("bert-data[aws]", "boto3"),
    "azfs": ("apache-beam[azure]", "azure.storage.blob"),
    "hdfs": ("apache-beam[hadoop]", "hdfs"),
}

#: Fetched at a time, at least, where nothing else is said.
_READ_AHEAD = 1 << 20


def scheme_of(path: str) -> str | None:
    """``gs`` of ``gs://...``; None for a path on this machine, ``file://`` or not."""
    match = _SCHEME.match(path)
    scheme = match["scheme"].lower() if match else "file"
    return None if scheme == "file" else scheme


def local_path(path: str) -> str | None:
    """The path on this machine, or None for a URL of another file system."""
    if scheme_of(path):
        return None
    match = _SCHEME.match(path)
    return path[match.end() :] if match else path


def require_store(field: str, path: str) -> None:
    """Makes sure, before anything runs, that there is a file system for a path.

    Args:
      field: the flag that it comes from.
      path: or a pattern.

    Raises:
      ConfigError: there is none, or what it needs is not installed or not set.
    """
    scheme = scheme_of(path)
    if scheme is None:
        return
    package, module = _NEEDED.get(scheme, ("", ""))
    if module and not _is_installed(module):
        raise ConfigError(
            field, path, f'needs a package that is not installed: pip install "{package}"'
        )
    try:
        file_system(path)
    except (ValueError, OSError) as error:
        if scheme in _NEEDED:  # hdfs:// has to be told where it is
            raise ConfigError(field, path, f"cannot be reached: {_one_line(error)}") from None
        known = ", ".join(f"{known}://" for known in _NEEDED)
        remedy = f"there is no file system for {scheme}://; give a path on this machine, or {known}"
        raise ConfigError(field, path, remedy) from None


def require_folder(field: str, path: str) -> None:
    """The same for what Beam and pyarrow are given, which take names of UTF-8 only.

    Raises:
      ConfigError: it has other bytes, or see :func:`require_store`.
    """
    require_store(field, path)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ConfigError(field, path, "has bytes that are not UTF-8; give another name") from None


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor what it is in
        return False


def use_store_options(beam_args: Sequence[str] = ()) -> None:
    """Gives the file systems of this process Beam's flags, such as ``--s3_endpoint_url``.

    A pipeline does that too, for its workers and where it is made: too late for what is looked at
    before.
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    FileSystems.set_options(PipelineOptions(list(beam_args)))


def file_system(path: str) -> FileSystem:
    """Beam's file system for a URL.

    Raises:
      ValueError: there is none, or it is not told what it has to know.
      OSError: it cannot be made.
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.value_provider import RuntimeValueProvider

    if FileSystems._pipeline_options is None and RuntimeValueProvider.runtime_options is None:
        use_store_options()  # else this process' command line is taken for Beam's
    if scheme_of(path) == "gs":
        google_without_credentials(FileSystems._pipeline_options)
    elif scheme_of(path) == "s3":
        with contextlib.suppress(ImportError):  # which Beam has a word for
            share_amazon_session()
    return FileSystems.get_filesystem(path)


def open_file(path: str) -> BinaryIO:
    """Open to read: a local path, or a URL of any file system of Beam.

    Raises:
      OSError: it cannot be opened; ``FileNotFoundError`` if it is not there.
    """
    local = local_path(path)
    return open_stored(path) if local is None else open(local, "rb")


def open_stored(path: str, *, read_ahead: int = _READ_AHEAD) -> BinaryIO:
    """Open a URL to read it as it is stored, whatever its name says about compression.

    Args:
      path: the URL.
      read_ahead: bytes to fetch at a time, if no more are asked for: little where a file is read here
        and there, much where it is read through.

    Raises:
      OSError: it cannot be opened; ``FileNotFoundError`` if it is not there. When it is read, too,
        that is all that is raised, whatever the store's own client has for errors.
    """
    return cast(BinaryIO, _StoredFile(path, read_ahead))


class _StoredFile(io.RawIOBase):
    def __init__(self, path: str, read_ahead: int):
        super().__init__()
        self._path = path
        with as_os_errors(path, of_file=True):
            self._file = _open(path, read_ahead)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with as_os_errors(self._path):
            self._file.seek(offset, whence)
            return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        with as_os_errors(self._path):
            return self._file.read(size)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(Exception):
                self._file.close()
        super().close()


def _open(path: str, read_ahead: int) -> Any:
    from apache_beam.io.filesystem import CompressionTypes

    file: Any = file_system(path).open(
        path, "application/octet-stream", CompressionTypes.UNCOMPRESSED
    )
    # Beam's own step is 16 MiB, which is what a row group's footer would cost.
    if isinstance(file, io.BufferedReader):
        if scheme_of(path) == "s3":
            _ask_for_ranges(file.raw)
        return io.BufferedReader(file.detach(), read_ahead)
    if hasattr(file, "_chunk_size"):  # Google's, which does not take it once it is open
        file._chunk_size = read_ahead
    return file


def _ask_for_ranges(stream: Any) -> None:
    """Beam asks Amazon for all from where it reads, and hangs up: megabytes are on their way by then."""
    downloader = stream._downloader
    client, bucket, name = downloader._client.client, downloader._bucket, downloader._name

    def get_range(start: int, end: int) -> bytes:
        part = client.get_object(Bucket=bucket, Key=name, Range=f"bytes={start}-{end - 1}")
        content: bytes = part["Body"].read()
        return content

    downloader.get_range = get_range


@contextlib.contextmanager
def as_os_errors(path: str, *, of_file: bool = False) -> Iterator[None]:
    """A context in which whatever a store's client raises is an ``OSError`` of ``path``.

    Args:
      path: named in the error.
      of_file: it is a file that was to be read: find out whether it is there.
    """
    from apache_beam.io.filesystem import BeamIOError

    try:
        yield
    except BeamIOError as error:
        if of_file and not _is_there(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
        raise
    except OSError:
        raise
    except Exception as error:
        number = {404: errno.ENOENT, 401: errno.EACCES, 403: errno.EACCES}.get(
            getattr(error, "code", 0), errno.EIO
        )
        words = "no such object" if number == errno.ENOENT else _one_line(error)
        raise OSError(number, words, path) from error


def _is_there(path: str) -> bool:
    try:
        return bool(file_system(path).exists(path))
    except Exception:  # what is wrong is told by the error at hand
        return True


def exists(path: str) -> bool:
    """Whether there is such a file; of folders an object store has none.

    Raises:
      OSError: that cannot be found out.
    """
    local = local_path(path)
    if local is not None:
        return os.path.exists(local)
    with as_os_errors(path):
        return bool(file_system(path).exists(path))


def list_below(folder: str) -> dict[str, int]:
    """The sizes of all stored files below a URL, by their path relative to it.

    Raises:
      OSError: they cannot be listed.
    """
    start = folder.rstrip("/") + "/"
    with as_os_errors(folder):
        found = file_system(start).match([start + "**"])[0].metadata_list
    return {f.path[len(start) :]: f.size_in_bytes for f in found if not f.path.endswith("/")}


def remove(paths: Sequence[str]) -> None:
    """Removes files of one file system; one that is not there is none too many.

    Raises:
      OSError: one of them is still there.
    """
    if not paths:
        return
    if local_path(paths[0]) is not None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.remove(local_path(path) or path)
        return
    try:
        with as_os_errors(paths[0]):
            file_system(paths[0]).delete(list(paths))
    except OSError:
        if any(exists(path) for path in paths):
            raise


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
