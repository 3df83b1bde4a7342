"""What there is to read, and how it is shared out. Runs in the driver, before anything else."""

from __future__ import annotations

import dataclasses
import glob
import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from schemas.errors import ConfigError
from transforms.formats.detection import detect
from transforms.streams import local_path

__all__ = ["FORMATS", "FileShare", "InputFile", "ReadTask", "list_inputs", "plan_reads"]

#: A name that begins so is passed over, unless it is asked for: markers, logs, work in progress.
_HIDES = ("_", ".")

FORMATS = ("auto", "text", "prose", "jsonl")

_MIN_RANGE, _MAX_RANGE, _RANGES = 1 << 20, 16 << 20, 64
#: So that a task of very many tiny files stays small.
_MAX_FILES_IN_TASK = 1000
#: A compressed file of less than this share of a worker's work is not worth reading several times.
_WORTH_STRIPING = 1 / 8


@dataclasses.dataclass(frozen=True)
class InputFile:
    """A file that will be read, and what was decided about it.

    Attributes:
      path: as it was found: a local path or a URL.
      size: bytes on disk.
      compression: none, gz, bz2, xz or zst.
      format: text (BERT's), prose or jsonl.
      decided_by: where the format comes from, for people.
    """

    path: str
    size: int
    compression: str
    format: str
    decided_by: str


@dataclasses.dataclass(frozen=True)
class FileShare:
    """The part of one file that a task owns: the records that start in it.

    Offsets are of the decompressed content. Either the range from ``start`` to ``end`` (None: the
    end of the file), or, with ``num_stripes`` > 1, every ``num_stripes``-th piece of
    ``stripe_bytes``, beginning with piece ``stripe``.

    Attributes:
      weight: the bytes on disk it answers for; over all shares they add up to the files' sizes.
    """

    path: str
    compression: str
    format: str
    weight: int
    start: int = 0
    end: int | None = None
    stripe: int = 0
    num_stripes: int = 1
    stripe_bytes: int = 0

    def owned_run(self, offset: int) -> tuple[int | None, bool]:
        """Where ownership changes next after ``offset`` (None: never), and whether it is owned."""
        if self.num_stripes > 1:
            piece, stripes = offset // self.stripe_bytes, self.num_stripes
            ahead = (self.stripe - piece) % stripes
            return (piece + max(ahead, 1)) * self.stripe_bytes, ahead == 0
        if offset < self.start:
            return self.start, False
        if self.end is None or offset < self.end:
            return self.end, True
        return None, False


@dataclasses.dataclass(frozen=True)
class ReadTask:
    """What one worker reads at a time.

    Attributes:
      index: its number, from 0.
      shares: of one file or of several small ones.
    """

    index: int
    shares: tuple[FileShare, ...]

    @property
    def weight(self) -> int:
        """The bytes on disk it answers for."""
        return sum(share.weight for share in self.shares)


def list_inputs(patterns: Sequence[str], *, format: str) -> tuple[InputFile, ...]:
    """Find the files and decide how each is to be read.

    Args:
      patterns: paths, glob patterns, folders (searched all the way down, but for names that begin
        with ``_`` or ``.``) or URLs of any Beam file system.
      format: text, prose or jsonl; or auto: jsonl by its name (.jsonl, .json, .ndjson) or if the
        first byte that is not white space is ``{``; text otherwise.

    Returns:
      The files by path, each once. Empty ones are among them.

    Raises:
      ConfigError: a pattern matches nothing, there is no text in any file, or a file is none that
        can be read.
    """
    if format not in FORMATS:
        raise ConfigError("format", format, f"must be one of {', '.join(FORMATS)}")
    found: dict[str, tuple[str, int]] = {}
    for pattern in patterns:
        matched = list(_match(pattern))
        if not matched:
            raise ConfigError(
                "input", pattern, "matches no file; check the path (quote a pattern for the shell)"
            )
        for path, size in matched:
            found.setdefault(_identity(path), (path, size))
    if not any(size for _, size in found.values()):
        raise ConfigError("input", ",".join(patterns), "every file is empty; nothing to read")
    return tuple(_describe(path, size, format=format) for path, size in sorted(found.values()))


def _identity(path: str) -> str:
    local = local_path(path)
    return path if local is None else os.path.realpath(local)


def _match(pattern: str) -> Iterator[tuple[str, int]]:
    """Paths and sizes."""
    local = local_path(pattern)
    if local is None:
        yield from _match_remote(pattern)
        return
    # A file may be named like a pattern: "notes [1].txt".
    names = [local] if os.path.lexists(local) else sorted(glob.glob(local, recursive=True))
    for name in names:
        if _hidden(name, pattern=local):
            continue
        if os.path.isdir(name):
            yield from _walk(name)
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


def _walk(folder: str) -> Iterator[tuple[str, int]]:
    seen = set()  # links may go in circles
    for directory, folders, names in os.walk(folder, followlinks=True):
        here = os.path.realpath(directory)
        if here in seen:
            folders.clear()
            continue
        seen.add(here)
        folders[:] = sorted(name for name in folders if name[:1] not in _HIDES)
        for name in sorted(names):
            if name[:1] not in _HIDES:
                path = os.path.join(directory, name)
                yield path, _local_size(path)


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


def _match_remote(pattern: str) -> Iterator[tuple[str, int]]:
    """The object, what the pattern matches, or all that is under the folder."""
    try:
        for attempt in (pattern, pattern.rstrip("/") + "/**"):
            matched = FileSystems.match([attempt])[0].metadata_list
            files = [file for file in matched if not file.path.endswith("/")]
            if files:
                break
    except (BeamIOError, ValueError) as error:  # ValueError: no such file system
        raise ConfigError("input", pattern, f"cannot be listed: {error}") from error
    for file in files:
        if not _hidden(file.path, pattern=pattern):
            yield file.path, file.size_in_bytes


def _describe(path: str, size: int, *, format: str) -> InputFile:
    found = detect(path, size, format=format)
    return InputFile(path, size, found.compression, found.format, found.decided_by)


def plan_reads(
    files: Iterable[InputFile],
    *,
    num_stripes: int,
    range_bytes: int | None,
    document_separator: str | None = None,
) -> tuple[ReadTask, ...]:
    """Share the reading out.

    A plain file is cut into ranges, small files are grouped up to the size of a range. A large
    compressed file cannot be entered in the middle: ``num_stripes`` tasks decompress all of it,
    each works on its share. Prose without a separator is a document a file and never cut.

    Args:
      files: what ``list_inputs`` gave.
      num_stripes: how many workers there are.
      range_bytes: bytes of a range; None for a 64th of everything, between 1 and 16 MiB.
      document_separator: as in ``ReadDocuments``.

    Raises:
      ConfigError: a number that is not positive.
    """
    files = list(files)
    total = sum(file.size for file in files)
    if num_stripes < 1:
        raise ConfigError("num_stripes", num_stripes, "must be at least 1")
    if range_bytes is None:
        range_bytes = min(max(total // _RANGES, _MIN_RANGE), _MAX_RANGE)
    if range_bytes < 1:
        raise ConfigError("range_bytes", range_bytes, "must be at least 1")
    worth_striping = total / num_stripes * _WORTH_STRIPING
    groups: list[tuple[FileShare, ...]] = []
    small: list[FileShare] = []
    small_bytes = 0
    for file in files:
        whole = FileShare(file.path, file.compression, file.format, file.size)
        large = file.size > range_bytes
        if file.format == "prose" and document_separator is None:
            large = False  # one record, which belongs to one task
        if large and file.compression == "none":
            groups += [(share,) for share in _ranges(whole, range_bytes)]
        elif large and num_stripes > 1 and file.size > worth_striping:
            groups += [(share,) for share in _stripes(whole, num_stripes, range_bytes)]
        elif file.size or file.format == "prose":  # an empty file of prose is an empty document
            too_many = len(small) == _MAX_FILES_IN_TASK or small_bytes + file.size > range_bytes
            if small and too_many:
                groups.append(tuple(small))
                small, small_bytes = [], 0
            small.append(whole)
            small_bytes += file.size
    if small:
        groups.append(tuple(small))
    return tuple(ReadTask(index, shares) for index, shares in enumerate(groups))


def _ranges(whole: FileShare, range_bytes: int) -> Iterator[FileShare]:
    """Ranges of equal length, at most ``range_bytes``."""
    size, count = whole.weight, -(-whole.weight // range_bytes)
    cuts = [size * i // count for i in range(count + 1)]
    for start, end in itertools.pairwise(cuts):
        yield dataclasses.replace(whole, weight=end - start, start=start, end=end)


def _stripes(whole: FileShare, num_stripes: int, stripe_bytes: int) -> Iterator[FileShare]:
    cuts = [whole.weight * i // num_stripes for i in range(num_stripes + 1)]
    for stripe in range(num_stripes):
        yield dataclasses.replace(
            whole,
            weight=cuts[stripe + 1] - cuts[stripe],
            stripe=stripe,
            num_stripes=num_stripes,
            stripe_bytes=stripe_bytes,
        )
