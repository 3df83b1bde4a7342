"""Parquet: a record is a row, its text in a column.

A row group belongs to the share in which it would begin if all were packed alike. Every share reads the
footer for itself, so that the driver opens no file; of the row group it reads the columns that are asked
for, page by page.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from schemas.errors import MissingColumnError, RecordError, RejectReason
from transforms.formats.columns import Columns, rows_for
from transforms.formats.decoding import first_line
from transforms.formats.records import Row
from transforms.streams import DamagedStreamError, WatchedFile

if TYPE_CHECKING:
    from transforms.read_tasks import FileShare

__all__ = ["Parquet"]

#: Compressed bytes of a column that are read ahead: without a limit it is the whole column of a row group.
_BUFFER_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Parquet:
    """Reads row groups; see ``records.Table``. The fields are those of ``ReadOptions``."""

    text_field: str = "text"
    id_field: str | None = None
    language_field: str | None = "lang"

    def rows(self, share: FileShare, *, max_bytes: int) -> Iterator[Row]:
        """See ``records.Table``.

        Raises:
          MissingColumnError: there is no such column.
        """
        with WatchedFile(share.path) as source:
            try:
                file = pq.ParquetFile(
                    source,
                    buffer_size=_BUFFER_BYTES,
                    pre_buffer=False,  # it would read the row group at once
                    page_checksum_verification=True,
                )
                metadata, schema = file.metadata, file.schema_arrow
                groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
                begins = _places(groups, source.size)
                columns = Columns.of(schema, path=share.path, **dataclasses.asdict(self))
            except MissingColumnError:
                raise
            except Exception as error:  # whatever a footer that is none leads to
                source.raise_if_failed()
                raise DamagedStreamError(
                    share.path,
                    compressed_offset=0,
                    offset=0,
                    detail=f"parquet: {first_line(error)}",
                ) from error
            firsts = list(itertools.accumulate((group.num_rows for group in groups), initial=0))
            before = 0
            for index, (begin, end) in enumerate(itertools.pairwise(begins)):
                if not share.owned_run(begin)[1]:
                    continue
                size = end - begin
                yield from _rows_of_group(
                    file, source, index, columns, firsts[index], before, size, max_bytes
                )
                before += size


def _places(groups: Sequence[Any], size: int) -> list[int]:
    """Where each group would begin, and the last one end, if all were packed alike.

    Where it really begins only the metadata of its columns tell, and pyarrow ends the process where these
    are damaged: it does not catch what their constructor throws.

    Raises:
      ValueError: a group that says it has fewer than no bytes.
    """
    unpacked = [group.total_byte_size for group in groups]
    if min(unpacked, default=0) < 0:
        raise ValueError("a row group of less than no bytes")
    sums = list(itertools.accumulate(unpacked, initial=0))
    # Behind the last byte nothing is anyone's.
    return [*(min(size * total // max(1, sums[-1]), size - 1) for total in sums[:-1]), size]


def _rows_of_group(
    file: pq.ParquetFile,
    source: WatchedFile,
    index: int,
    columns: Columns,
    first: int,
    before: int,
    size: int,
    max_bytes: int,
) -> Iterator[Row]:
    """The rows of one group, of which ``first`` is the number of the first in the file.

    Args:
      file, source: the same file, opened twice over.
      index: of the group.
      columns: which.
      first: row.
      before: bytes on disk of the groups before it in the share.
      size: bytes on disk of this one.
      max_bytes: see ``Table``.
    """
    group = file.metadata.row_group(index)
    names = columns.names
    done = 0
    batches = file.iter_batches(
        rows_for(group.total_byte_size, num_rows=group.num_rows), [index], names, use_threads=False
    )
    try:
        for batch in batches:
            for found, data in columns.documents(batch, max_bytes=max_bytes):
                done += 1
                reached = before + size * done // max(1, group.num_rows)
                yield Row(str(first + done - 1), found, data, reached)
    except Exception as error:  # whatever damaged pages lead to
        source.raise_if_failed()
        detail = (
            f"parquet: {first_line(error)}; row group {index} is lost from row {first + done:,} of the "
            f"file on, up to {first + group.num_rows:,}"
        )
        damage = RecordError(RejectReason.DAMAGED_STREAM, detail)
        yield Row(str(first + done), damage, b"", before + size)
