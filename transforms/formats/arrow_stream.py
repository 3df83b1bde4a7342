"""Arrow's IPC streams, which saved ``datasets`` are made of, and its files: a record is a row.

A record batch belongs to the share in which its message begins. Messages have no mark by which they could
be found from the middle of a file, but say how long they are: a share goes from head to head up to its own.

Source: the Arrow columnar format, "Encapsulated message format" and the flatbuffer ``Message``.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from schemas.errors import MissingColumnError, RecordError, RejectReason
from transforms.formats.columns import Columns, rows_for
from transforms.formats.decoding import first_line
from transforms.formats.records import Row
from transforms.streams import DamagedStreamError, WatchedFile

if TYPE_CHECKING:
    from transforms.read_tasks import FileShare

__all__ = ["ArrowStream"]

_CONTINUES = b"\xff\xff\xff\xff"
#: An Arrow file is this, a stream, and a footer that is not needed to read it from front to back.
_FILE_MAGIC = b"ARROW1\0\0"
#: What a message holds, in the flatbuffer's numbers.
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
#: More than any schema takes; a larger head is damage.
_LARGEST_HEAD = 64 << 20
_END_OF_STREAM = _CONTINUES + bytes(4)


class _Message(NamedTuple):
    """Where a message is: its head and its body, in bytes of the file."""

    kind: int
    begin: int
    body: int
    end: int


@dataclasses.dataclass(frozen=True)
class ArrowStream:
    """Reads record batches; see ``records.Table``. The fields are those of ``ReadOptions``."""

    text_field: str = "text"
    id_field: str | None = None
    language_field: str | None = "lang"

    def rows(self, share: FileShare, *, max_bytes: int) -> Iterator[Row]:
        """See ``records.Table``.

        Raises:
          MissingColumnError: there is no such column.
        """
        with WatchedFile(share.path) as file:
            schema, row, done = b"", 0, 0
            dictionaries: dict[int, bytes] = {}
            columns: Columns | None = None
            for message in _messages(file):
                owned_till, owned = share.owned_run(message.begin)
                if message.kind == _BATCH and not owned and owned_till is None:
                    return
                if message.kind != _BATCH:
                    data = _read(file, message)
                    if message.kind == _DICTIONARY:
                        number, adds = _dictionary(data, file, message)
                        # The one before it is of no use any more, unless it is added to.
                        dictionaries[number] = dictionaries.get(number, b"") * adds + data
                    else:
                        schema += data
                    continue
                if columns is None:  # for batches of others too: all shares find damage, or none
                    columns = self._columns(schema, file)
                if not owned:
                    row += _num_rows(file, message)
                    continue
                data = _read(file, message)
                preamble = b"".join([schema, *dictionaries.values()])
                batch = _decode(preamble, data, columns, file, message)
                size = message.end - message.begin
                if isinstance(batch, RecordError):
                    yield Row(str(row), batch, b"", done + size)
                else:
                    yield from _rows_of_batch(batch, columns, row, done, size, max_bytes)
                row += _num_rows(file, message)
                done += size

    def _columns(self, data: bytes, file: WatchedFile) -> Columns:
        try:
            schema = pa.ipc.open_stream(data + _END_OF_STREAM).schema
            return Columns.of(schema, path=file.path, **dataclasses.asdict(self))
        except MissingColumnError:
            raise
        except Exception as error:  # whatever a schema that is none leads to
            raise _damaged(file, 0, first_line(error)) from error


def _rows_of_batch(
    batch: pa.RecordBatch, columns: Columns, first: int, before: int, size: int, max_bytes: int
) -> Iterator[Row]:
    """Rows of a batch, some of them at a time as Python's."""
    step, done = rows_for(size, num_rows=batch.num_rows), 0
    try:
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            for found, data in columns.documents(part, max_bytes=max_bytes):
                done += 1
                yield Row(
                    str(first + done - 1), found, data, before + size * done // batch.num_rows
                )
    except Exception as error:  # such as offsets that lead out of the batch
        detail = f"arrow: {first_line(error)}; the batch is lost from row {first + done:,} of the file on"
        damage = RecordError(RejectReason.DAMAGED_STREAM, detail)
        yield Row(str(first + done), damage, b"", before + size)


def _messages(file: WatchedFile) -> Iterator[_Message]:
    """The messages of a file up to the end of the stream.

    Raises:
      DamagedStreamError: there is none where one must be.
    """
    begin = len(_FILE_MAGIC) if file.read_at(0, len(_FILE_MAGIC)) == _FILE_MAGIC else 0
    while prefix := file.read_at(begin, 8):
        size = int.from_bytes(prefix[4:8], "little", signed=True)
        if prefix == _END_OF_STREAM:
            return
        if len(prefix) < 8 or prefix[:4] != _CONTINUES or not 0 < size <= _LARGEST_HEAD:
            raise _damaged(file, begin, "no message begins here")
        head = file.read_at(begin + 8, size)
        try:
            kind, body_bytes, _ = _head(head)
        except (struct.error, ValueError, IndexError) as error:
            raise _damaged(file, begin, f"a message cannot be read ({error})") from error
        body = begin + 8 + size
        if len(head) < size or body_bytes < 0 or body + body_bytes > file.size:
            raise _damaged(file, begin, "the file is cut short")
        yield _Message(kind, begin, body, body + body_bytes)
        begin = body + body_bytes


def _head(head: bytes) -> tuple[int, int, int]:
    """Of the flatbuffer ``Message``: what it holds, the body's bytes, and where its header table is."""
    (table,) = struct.unpack_from("<I", head, 0)
    header = _field(head, table, 2)
    kind, body = _field(head, table, 1), _field(head, table, 3)
    if not kind:
        raise ValueError("it holds nothing")
    (length,) = struct.unpack_from("<q", head, body) if body else (0,)
    (offset,) = struct.unpack_from("<I", head, header) if header else (0,)
    return head[kind], length, header + offset


def _field(head: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table is; 0 if it has its default."""
    (back,) = struct.unpack_from("<i", head, table)
    vtable = table - back
    if vtable < 0:
        raise ValueError("a table leads out of it")
    (size,) = struct.unpack_from("<H", head, vtable)
    if 4 + 2 * number + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", head, vtable + 4 + 2 * number)
    return table + offset if offset else 0


def _num_rows(file: WatchedFile, message: _Message) -> int:
    """``length``, the first field of the flatbuffer ``RecordBatch``."""
    head = file.read_at(message.begin + 8, message.body - message.begin - 8)
    try:
        length = _field(head, _head(head)[2], 0)
        return max(0, struct.unpack_from("<q", head, length)[0]) if length else 0
    except (struct.error, ValueError, IndexError) as error:
        raise _damaged(file, message.begin, f"a batch cannot be read ({error})") from error


def _dictionary(data: bytes, file: WatchedFile, message: _Message) -> tuple[int, bool]:
    """``id`` and ``isDelta`` of the flatbuffer ``DictionaryBatch``."""
    head = data[8 : message.body - message.begin]
    try:
        table = _head(head)[2]
        number, adds = _field(head, table, 0), _field(head, table, 2)
        (value,) = struct.unpack_from("<q", head, number) if number else (0,)
        return value, bool(adds and head[adds])
    except (struct.error, ValueError, IndexError) as error:
        raise _damaged(file, message.begin, f"a dictionary cannot be read ({error})") from error


def _read(file: WatchedFile, message: _Message) -> bytes:
    data = file.read_at(message.begin, message.end - message.begin)
    if len(data) < message.end - message.begin:
        raise _damaged(file, message.begin, "the file is cut short")
    return data


def _decode(
    preamble: bytes, data: bytes, columns: Columns, file: WatchedFile, message: _Message
) -> pa.RecordBatch | RecordError:
    """The batch, with the columns that are needed."""
    try:
        names = pa.ipc.open_stream(preamble + _END_OF_STREAM).schema.names
        wanted = {name if name in names else name.split(".")[0] for name in columns.names}
        options = pa.ipc.IpcReadOptions(
            included_fields=[i for i, name in enumerate(names) if name in wanted]
        )
        # The pieces as they lie in a file: what stands between them is others' batches.
        with pa.ipc.open_stream(preamble + data + _END_OF_STREAM, options=options) as stream:
            return stream.read_next_batch()
    except Exception as error:  # whatever bytes that are no batch lead to
        detail = f"arrow: {first_line(error)}; the batch at byte {message.begin:,} of {file.path} is lost"
        return RecordError(RejectReason.DAMAGED_STREAM, detail)


def _damaged(file: WatchedFile, offset: int, detail: str) -> DamagedStreamError:
    return DamagedStreamError(
        file.path, compressed_offset=offset, offset=offset, detail=f"arrow: {detail}"
    )
