"""A file system of Beam that is not the local disk: files in memory, ``memory://...``."""

from __future__ import annotations

import io
from typing import ClassVar

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata, FileSystem

__all__ = ["MemoryFileSystem"]


class _Writer(io.BytesIO):
    def __init__(self, files: dict[str, bytes], path: str):
        super().__init__()
        self._files, self._path = files, path

    def close(self) -> None:
        if not self.closed:
            self._files[self._path] = self.getvalue()
        super().close()


class MemoryFileSystem(FileSystem):
    """Like an object store: no folders, and no rename onto what is there."""

    files: ClassVar[dict[str, bytes]] = {}

    @classmethod
    def scheme(cls):
        return "memory"

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path):
        raise NotImplementedError

    def has_dirs(self):
        return False

    def _list(self, dir_or_prefix):
        for path, content in sorted(self.files.items()):
            if path.startswith(dir_or_prefix):
                yield FileMetadata(path, len(content))

    def _file(self, path):
        if path not in self.files:
            raise BeamIOError("no such file", {path: "missing"})
        return self.files[path]

    def create(self, path, mime_type="", compression_type=CompressionTypes.AUTO):
        assert compression_type == CompressionTypes.UNCOMPRESSED
        return _Writer(self.files, path)

    def open(self, path, mime_type="", compression_type=CompressionTypes.AUTO):
        assert compression_type == CompressionTypes.UNCOMPRESSED
        return io.BytesIO(self._file(path))

    def rename(self, source_file_names, destination_file_names):
        for source, target in zip(source_file_names, destination_file_names, strict=True):
            if target in self.files:
                raise BeamIOError("there is one already", {target: "exists"})
            self.files[target] = self.files.pop(source)

    def copy(self, source_file_names, destination_file_names):
        raise NotImplementedError

    def exists(self, path):
        return path in self.files

    def size(self, path):
        return len(self._file(path))

    def last_updated(self, path):
        raise NotImplementedError

    def checksum(self, path):
        raise NotImplementedError

    def metadata(self, path):
        return FileMetadata(path, self.size(path))

    def delete(self, paths):
        for path in paths:
            self._file(path)
            del self.files[path]
