"""What a plan reads: all of a small input, and of a large one a few megabytes that stand for the rest.

A record counts to a window if it begins there, as in a build, so that every document is as likely to be
taken as any other, whatever its length. What was taken is weighed by the bytes it occupies: of tokens and
sentences a byte of one document holds about as many as a byte of another.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from pipeline.prepare import Prepared, estimate_text_bytes, read_options
from transforms.formats.encodings import UTF_8
from transforms.formats.framing import cut
from transforms.formats.records import Table
from transforms.formats.registry import FORMATS, Sharing, sharing_of
from transforms.inputs import InputFile
from transforms.read_tasks import FileShare, ReadTask
from transforms.reader import ReadOptions, read_task
from transforms.streams import ByteStream, DamagedStreamError

__all__ = ["SAMPLE_BYTES", "Part", "Sample", "draw_sample"]

#: Bytes of text to look at; some three seconds' work.
SAMPLE_BYTES = 4 << 20

_WINDOWS = 256
#: With fewer documents the sample says little; it grows, as often as this.
_FEW_DOCUMENTS, _GROWTHS = 32, (1, 4, 16)
_SOME_FILES = 16
#: Of a compressed file, one stretch of this length in so many is taken, from its beginning on.
_STRETCH, _EVERY = 64 << 10, 8


@dataclasses.dataclass(frozen=True)
class Part:
    """Documents that were read, and how many like each of them there are.

    Attributes:
      documents: DOCUMENT_BATCH each.
      rejects: REJECT_BATCH each.
      scale: 1 where all was read.
      counts: of ``transforms.reader.READ_COUNTS``.
    """

    documents: tuple[pa.RecordBatch, ...]
    rejects: tuple[pa.RecordBatch, ...]
    scale: float
    counts: Mapping[str, int]

    @property
    def records(self) -> int:
        """Documents and rejects."""
        return sum(batch.num_rows for batch in (*self.documents, *self.rejects))


@dataclasses.dataclass(frozen=True)
class Sample:
    """What was read. ``exact``: it is everything, read just as a build reads it."""

    parts: tuple[Part, ...]
    exact: bool


def draw_sample(prepared: Prepared, *, max_bytes: int = SAMPLE_BYTES) -> Sample:
    """Reads an input that is thought to have at most ``max_bytes`` of text, or a sample of it.

    Raises:
      OSError: a file cannot be read.
    """
    # Whatever is refused is told, and ends nothing.
    options = dataclasses.replace(read_options(prepared.job.config), strict=False)
    if prepared.text_bytes <= max_bytes:
        return Sample((_read(prepared.job.tasks, options, scale=1.0),), exact=True)
    whole: list[InputFile] = []
    streamed: list[InputFile] = []
    windowed: list[InputFile] = []
    tables: list[InputFile] = []
    for file in prepared.files:
        sharing = sharing_of(file.format, document_separator=options.document_separator)
        if sharing is Sharing.WHOLE:
            whole.append(file)
        elif file.size:
            kind = windowed if file.enterable(sharing) else streamed
            (tables if FORMATS[file.format].packs_itself else kind).append(file)
    parts = []
    for files, choose in (
        (windowed, _windows),
        (streamed, _beginnings),
        (whole, _whole_files),
        (tables, _table_rows),
    ):
        share = estimate_text_bytes(files) / prepared.text_bytes
        for growth in _GROWTHS if files else ():
            shares = choose(files, max(1, int(max_bytes * growth * share)))
            part = _take(files, shares, options)
            if part.records >= _FEW_DOCUMENTS * share or part.scale == 1:
                break
        if files and part.records:
            parts.append(part)
    return Sample(tuple(parts), exact=False)


def _read(tasks: Sequence[ReadTask], options: ReadOptions, *, scale: float) -> Part:
    found: dict[str, list[pa.RecordBatch]] = {"documents": [], "rejects": []}
    counts: Counter[str] = Counter()
    for task in tasks:
        for output, batch in read_task(task, options=options, counts=counts):
            found[output].append(batch)
    return Part(tuple(found["documents"]), tuple(found["rejects"]), scale, counts)


def _take(files: Sequence[InputFile], shares: Sequence[FileShare], options: ReadOptions) -> Part:
    """What the shares hold, to stand for all of the files."""
    covered = sum(_bytes_on_disk(share, options) for share in shares)
    total = sum(file.size for file in files)
    scale = total / covered if covered and not _is_all(files, shares) else 1.0
    return _read([ReadTask(0, tuple(shares))], options, scale=scale)


def _is_all(files: Sequence[InputFile], shares: Sequence[FileShare]) -> bool:
    return len(shares) == len(files) and all(
        share.end is None and share.num_stripes == 1 for share in shares
    )


def _bytes_on_disk(share: FileShare, options: ReadOptions) -> float:
    """What the records of a share occupy of their file, however much of the share that is."""
    form = options.format_of(share)
    if isinstance(form, Table):
        return _bytes_of_rows(form, share, options)
    begin = max(0, share.start - form.lookback)
    stream = ByteStream(
        share.path,
        compression=share.compression,
        start=begin,
        end=share.end,
        encoding=share.encoding,
    )
    content = records = 0

    def chunks() -> Iterator[bytes]:
        nonlocal content
        for chunk in stream:
            content += len(chunk)
            yield chunk

    # Damage is a reject of the other reading; up to there the bytes are known.
    with contextlib.suppress(DamagedStreamError):
        pieces = cut(chunks(), offset=begin, owned_run=share.owned_run)
        for record in form.frame(pieces, max_bytes=options.max_document_bytes):
            records += options.max_document_bytes if record.too_long else len(record.data) + 1
    if share.compression == "none" and share.encoding == UTF_8:
        return records
    return records * stream.raw_offset / max(1, content)


def _bytes_of_rows(form: Table, share: FileShare, options: ReadOptions) -> int:
    reached = 0
    with contextlib.suppress(DamagedStreamError):
        for row in form.rows(share, max_bytes=options.max_document_bytes):
            reached = row.raw_bytes
            if share.is_enough(reached):
                break
    return reached


def _windows(files: Sequence[InputFile], text_bytes: int) -> list[FileShare]:
    """Windows of files that can be entered anywhere, evenly spaced over all of them as if they were one."""
    total = sum(file.size for file in files)
    if text_bytes >= total:
        return [file.share() for file in files]
    count = min(_WINDOWS, text_bytes)
    width = text_bytes // count
    starts = [total * (2 * i + 1) // (2 * count) - width // 2 for i in range(count)]
    firsts = list(itertools.accumulate((file.size for file in files), initial=0))
    shares = []
    for start in starts:
        f = bisect.bisect_right(firsts, start) - 1
        while f < len(files) and firsts[f] < start + width:
            bounds = max(0, start - firsts[f]), min(start + width, firsts[f + 1]) - firsts[f]
            shares.append(dataclasses.replace(files[f].share(), start=bounds[0], end=bounds[1]))
            f += 1
    return shares


def _beginnings(files: Sequence[InputFile], text_bytes: int) -> list[FileShare]:
    """The beginnings of some files: compressed or not, there is no other way into these."""
    if text_bytes >= estimate_text_bytes(files):
        return [file.share() for file in files]
    chosen = _evenly(files, _SOME_FILES)
    each = max(1, text_bytes // len(chosen)) * _EVERY
    return [
        _Beginning(
            **dataclasses.asdict(file.share())
            | {
                "end": each,
                "num_stripes": _EVERY,
                "stripe_bytes": min(_STRETCH, -(-each // _EVERY)),
            }
        )
        for file in chosen
    ]


def _table_rows(files: Sequence[InputFile], text_bytes: int) -> list[FileShare]:
    """Rows of tables, whose groups may be much larger than a sample: the first of some of the groups."""
    if text_bytes >= estimate_text_bytes(files):
        return [file.share() for file in files]
    chosen = _evenly(files, _SOME_FILES)
    places = _SOME_FILES // len(chosen)  # in each of them; the first is its beginning
    expansion = estimate_text_bytes(files) / max(1, sum(file.size for file in files))
    enough = max(1, int(text_bytes / expansion / len(chosen) / places))
    return [
        _FirstRows(
            **dataclasses.asdict(file.share())
            | {
                "start": file.size * place // places,
                "end": file.size * (place + 1) // places,  # no group is taken twice
                "enough": enough,
            }
        )
        for file in chosen
        for place in range(places)
    ]


def _whole_files(files: Sequence[InputFile], text_bytes: int) -> list[FileShare]:
    """Some of the files that are a document each."""
    mean = max(1, estimate_text_bytes(files) // len(files))
    return [file.share() for file in _evenly(files, max(2, text_bytes // mean))]


def _evenly(files: Sequence[InputFile], count: int) -> list[InputFile]:
    count = min(count, len(files))
    return [files[(2 * i + 1) * len(files) // (2 * count)] for i in range(count)]


@dataclasses.dataclass(frozen=True)
class _FirstRows(FileShare):
    """The first rows of a range, until they occupy ``enough`` bytes."""

    enough: int = 0

    def is_enough(self, raw_bytes: int) -> bool:
        """See ``FileShare``."""
        return raw_bytes >= self.enough


class _Beginning(FileShare):
    """Every ``num_stripes``-th piece up to ``end``."""

    def owned_run(self, offset: int) -> tuple[int | None, bool]:
        """See ``FileShare``."""
        assert self.end is not None
        if offset >= self.end:
            return None, False
        change, owned = super().owned_run(offset)
        return (self.end if change is None else min(change, self.end)), owned
