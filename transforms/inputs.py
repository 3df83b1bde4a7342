"""What there is to read. Runs in the driver, before anything else; ``read_tasks`` shares it out."""

from __future__ import annotations

import dataclasses
import glob
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from apache_beam.io.filesystem import FileMetadata

from schemas.errors import ConfigError
from schemas.stores import as_os_errors, file_system, list_below, local_path, require_store
from transforms.formats.detection import detect
from transforms.formats.encodings import UTF_8
from transforms.formats.registry import FORMATS, Sharing
from transforms.read_tasks import FileShare
from transforms.saved_datasets import HUB_PREFIX, hub_files, is_saved, saved_files

__all__ = ["InputFile", "list_in_order", "list_inputs"]

#: A name that begins so is passed over, unless it is asked for: markers, logs, work in progress.
_HIDES = ("_", ".")

#: Files whose beginnings are looked at at the same time.
_LOOKS_AT_ONCE = 16


@dataclasses.dataclass(frozen=True)
class InputFile:
    """A file that will be read, and what was decided about it.

    Attributes:
      path: as it was found: a local path or a URL.
      size: bytes on disk.
      compression: none, gz, bz2, xz or zst.
      format: one of ``transforms.formats.registry.FORMATS``.
      decided_by: where the format comes from, for people.
      encoding: a codec of Python's; ``utf-8`` is read as it is.
      encoding_by: where the encoding comes from, for people.
    """

    path: str
    size: int
    compression: str
    format: str
    decided_by: str
    encoding: str = UTF_8
    encoding_by: str = ""

    def share(self) -> FileShare:
        """All of it."""
        return FileShare(
            self.path,
            self.compression,
            self.format,
            self.size,
            encoding=self.encoding,
            size=self.size,
        )

    def enterable(self, sharing: Sharing) -> bool:
        """Whether it can be read from the middle on, by an offset of the file as it lies on disk."""
        if sharing is Sharing.CONTAINER:
            return True
        plain = self.compression == "none" and self.encoding == UTF_8
        return plain and sharing is not Sharing.STRIPES


def list_inputs(
    patterns: Sequence[str], *, format: str, encoding: str = UTF_8, split: str | None = None
) -> tuple[InputFile, ...]:
    """Find the files and decide how each is to be read.

    Args:
      patterns: paths, glob patterns, folders (searched all the way down, but for names that begin
        with ``_`` or ``.``) or URLs of any Beam file system; also folders that ``datasets`` saved, and
        ``hf:NAME`` for what it has itself.
      split: of these, which.
      format: one of ``FORMATS``; or auto: by its name, or else its first bytes; text otherwise.
      encoding: of files without a byte order mark; or auto: a guess for each from its content.

    Returns:
      The files by path, each once. Empty ones are among them.

    Raises:
      ConfigError: a pattern matches nothing, there is no text in any file, or a file is none that
        can be read.
    """
    if format != "auto" and format not in FORMATS:
        raise ConfigError("format", format, f"must be one of auto, {', '.join(FORMATS)}")
    found: dict[str, tuple[str, int]] = {}
    for path, size in itertools.chain.from_iterable(_matched(patterns, split=split)):
        found.setdefault(_identity(path), (path, size))
    listed = sorted(found.values())

    def describe(file: tuple[str, int]) -> InputFile:
        return _describe(*file, format=format, encoding=encoding)

    if len(listed) < _LOOKS_AT_ONCE:
        files = tuple(map(describe, listed))
    else:
        # A look may be a request, or decompress.
        with ThreadPoolExecutor(_LOOKS_AT_ONCE) as threads:
            files = tuple(threads.map(describe, listed))
    if split is not None and not any(file.format == "arrow" for file in files):
        raise ConfigError(
            "split", split, "is for saved datasets and hf:NAME; the input has neither"
        )
    return files


def list_in_order(patterns: Sequence[str]) -> tuple[InputFile, ...]:
    """Find the files as Google's script does, all of BERT's text format.

    Args:
      patterns: as for :func:`list_inputs`.

    Returns:
      The files of the first pattern, sorted, then those of the second, and so on; a file that two
      patterns match is there twice.

    Raises:
      ConfigError: as :func:`list_inputs`.
    """
    return tuple(
        _describe(path, size, format="text", encoding=None)
        for matched in _matched(patterns)
        for path, size in sorted(matched)
    )


def _matched(patterns: Sequence[str], *, split: str | None = None) -> list[list[tuple[str, int]]]:
    """Paths and sizes of each pattern."""
    found: list[list[tuple[str, int]]] = []
    for pattern in patterns:
        matched = list(_match(pattern, split))
        if not matched:
            # The second length of --max_seq_length 128 512, most likely.
            hint = "; a list of numbers has commas" if pattern.isdecimal() else ""
            raise ConfigError(
                "input",
                pattern,
                f"matches no file; check the path (quote a pattern for the shell){hint}",
            )
        found.append(matched)
    if not any(size for matched in found for _, size in matched):
        raise ConfigError("input", ",".join(patterns), "every file is empty; nothing to read")
    return found


def _identity(path: str) -> str:
    local = local_path(path)
    return path if local is None else os.path.realpath(local)


def _match(pattern: str, split: str | None) -> Iterator[tuple[str, int]]:
    """Paths and sizes."""
    local = local_path(pattern)
    if local is None:
        yield from _match_remote(pattern, split)
        return
    if local.startswith(HUB_PREFIX) and not os.path.lexists(local):
        yield from hub_files(local, split=split)
        return
    # A file may be named like a pattern: "notes [1].txt".
    names = [local] if os.path.lexists(local) else sorted(glob.glob(local, recursive=True))
    for name in names:
        if _hidden(name, pattern=local):
            continue
        if os.path.isdir(name):
            yield from _walk(name, split)
        else:
            yield name, _local_size(name)


def _hidden(path: str, *, pattern: str) -> bool:
    """Whether a name in the path begins with ``_`` or ``.`` and the pattern asked for no such."""
    parts, wanted = path.split("/"), pattern.split("/")
    spelled = 0
    while spelled < min(len(parts), len(wanted)) and parts[spelled] == wanted[spelled]:
        spelled += 1
    asked_for = {part[:1] for part in wanted[spelled:]}
    return any(part[:1] in _HIDES and part[:1] not in asked_for for part in parts[spelled:])


def _walk(folder: str, split: str | None) -> Iterator[tuple[str, int]]:
    seen = set()  # links may go in circles
    for directory, folders, names in os.walk(folder, followlinks=True):
        here = os.path.realpath(directory)
        if here in seen:
            folders.clear()
            continue
        seen.add(here)
        if is_saved(names):
            folders.clear()
            yield from saved_files(directory, _sizes_below(directory), split=split)
            continue
        folders[:] = sorted(name for name in folders if name[:1] not in _HIDES)
        for name in sorted(names):
            if name[:1] not in _HIDES:
                path = os.path.join(directory, name)
                yield path, _local_size(path)


def _sizes_below(folder: str) -> dict[str, int]:
    """The sizes of the files of a saved data set, by path relative to its folder."""
    paths = glob.glob("*", root_dir=folder) + glob.glob("*/*", root_dir=folder)
    return {path: _local_size(file) for path in paths if os.path.isfile(file := f"{folder}/{path}")}


def _local_size(path: str) -> int:
    try:
        status = os.stat(path)
    except OSError as error:
        raise ConfigError("input", path, f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError("input", path, "is no regular file, that can be read twice")
    if not os.access(path, os.R_OK):
        raise ConfigError("input", path, "cannot be read: permission denied")
    return status.st_size


def _match_remote(pattern: str, split: str | None) -> Iterator[tuple[str, int]]:
    """The object, what the pattern matches, or all that is under the folder."""
    require_store("input", pattern)
    try:
        with as_os_errors(pattern):
            files = _listed(pattern) or _listed(pattern.rstrip("/") + "/**")
        folder = pattern.rstrip("/")
        if is_saved({file.path.removeprefix(f"{folder}/") for file in files}):
            yield from saved_files(folder, list_below(folder), split=split)
            return
    except OSError as error:
        reason = " ".join(str(error).split())
        raise ConfigError("input", pattern, f"cannot be listed: {reason}") from error
    for file in files:
        if not _hidden(file.path, pattern=pattern):
            yield file.path, file.size_in_bytes


def _listed(pattern: str) -> list[FileMetadata]:
    matched = file_system(pattern).match([pattern])[0].metadata_list
    return [file for file in matched if not file.path.endswith("/")]


def _describe(path: str, size: int, *, format: str, encoding: str | None) -> InputFile:
    return InputFile(path, size, *detect(path, size, format=format, encoding=encoding))
