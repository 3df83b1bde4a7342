"""How the reading of files is shared out: tasks, of shares of files. Planned in the driver."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from schemas.errors import ConfigError
from transforms.formats.encodings import UTF_8
from transforms.formats.registry import FORMATS, Sharing, sharing_of

if TYPE_CHECKING:
    from transforms.inputs import InputFile

__all__ = ["FileShare", "ReadTask", "plan_reads"]

_MIN_RANGE, _MAX_RANGE, _RANGES = 1 << 20, 16 << 20, 64
#: All ranges together: they travel in the graph, some hundred bytes each.
_MOST_RANGES = 20_000
#: So that a task of very many tiny files stays small.
_MAX_FILES_IN_TASK = 1000
#: A compressed file of less than this share of a worker's work is not worth reading several times.
_WORTH_STRIPING = 1 / 8


@dataclasses.dataclass(frozen=True)
class FileShare:
    """The part of one file that a task owns: the records that start in it.

    Offsets are of the decompressed content, as UTF-8. Either the range from ``start`` to ``end`` (None: the
    end of the file), or, with ``num_stripes`` > 1, every ``num_stripes``-th piece of
    ``stripe_bytes``, beginning with piece ``stripe``.

    Attributes:
      weight: the bytes on disk it answers for; over all shares they add up to the files' sizes.
      encoding: what the content is transcoded from, see :class:`InputFile`.
      size: of the file when it was listed; None if that is not known.
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
    encoding: str = UTF_8
    size: int | None = None

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

    def is_enough(self, unused_raw_bytes: int) -> bool:
        """Whether a reader of rows may stop after so many bytes on disk: never, but in a sample."""
        return False


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


def plan_reads(
    files: Iterable[InputFile],
    *,
    num_stripes: int,
    range_bytes: int | None,
    document_separator: str | None = None,
) -> tuple[ReadTask, ...]:
    """Share the reading out.

    A plain file is cut into ranges, small files are grouped up to the size of a range. A large
    file that is compressed, or not in UTF-8, cannot be entered in the middle: ``num_stripes`` tasks
    read all of it, each works on its share. What is one document a file is never cut (``Sharing``).

    Args:
      files: what ``list_inputs`` gave.
      num_stripes: how many workers there are.
      range_bytes: bytes of a range; None for a 64th of everything, between 1 and 16 MiB, but of
        more than 335 GB a 20,000th.
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
        range_bytes = max(range_bytes, -(-total // _MOST_RANGES))
    if range_bytes < 1:
        raise ConfigError("range_bytes", range_bytes, "must be at least 1")
    worth_striping = total / num_stripes * _WORTH_STRIPING
    groups: list[tuple[FileShare, ...]] = []
    small: list[FileShare] = []
    small_bytes = 0
    for file in files:
        whole = file.share()
        sharing = sharing_of(file.format, document_separator=document_separator)
        large = file.size > range_bytes and sharing is not Sharing.WHOLE
        if large and file.enterable(sharing):
            groups += [(share,) for share in _ranges(whole, range_bytes)]
        elif large and num_stripes > 1 and file.size > worth_striping:
            groups += [(share,) for share in _stripes(whole, num_stripes, range_bytes)]
        elif file.size or FORMATS[file.format].sharing is Sharing.WHOLE:  # an empty document
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
