"""A file system of Beam that forgets what is written to it, so that a plan can measure a build's output."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator
from typing import Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata, FileSystem

__all__ = ["NOWHERE", "Nowhere"]

#: An output directory in it.
NOWHERE = "nowhere://plan"


class _Forgets(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return memoryview(data).nbytes


class Nowhere(FileSystem):
    """Takes every write; nothing is ever there. Beam finds it by its scheme, once it is imported."""

    @classmethod
    def scheme(cls) -> str:
        return "nowhere"

    def join(self, basepath: str, *paths: str) -> str:
        return posixpath.join(basepath, *paths)

    def split(self, path: str) -> tuple[str, str]:
        return posixpath.split(path)

    def mkdirs(self, path: str) -> None:
        pass

    def has_dirs(self) -> bool:
        return False

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        return iter(())

    def create(
        self, path: str, mime_type: str = "", compression_type: str = CompressionTypes.AUTO
    ) -> io.RawIOBase:
        return _Forgets()

    def open(
        self, path: str, mime_type: str = "", compression_type: str = CompressionTypes.AUTO
    ) -> io.RawIOBase:
        raise _missing(path)

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        pass

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        pass

    def exists(self, path: str) -> bool:
        return False

    def size(self, path: str) -> int:
        raise _missing(path)

    def last_updated(self, path: str) -> float:
        raise _missing(path)

    def checksum(self, path: str) -> str:
        raise _missing(path)

    def metadata(self, path: str) -> FileMetadata:
        raise _missing(path)

    def delete(self, paths: list[str]) -> None:
        pass


def _missing(path: str) -> BeamIOError:
    return BeamIOError("nothing is kept here", {path: FileNotFoundError(path)})
