"""Avro container files: a record is an Avro record, its text in a field.

A block belongs to the share in which it begins; a share begins at the first sync marker that ends in it.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from schemas.errors import MissingColumnError, RecordError, RejectReason
from transforms.formats.avro_blocks import Block, Header, blocks_from, read_header, unpack
from transforms.formats.avro_schemas import RecordReader, record_reader
from transforms.formats.decoding import beginning_of, first_line, require_length
from transforms.formats.jsonl import JsonLines
from transforms.formats.records import Document, Row
from transforms.formats.sentence_lists import LANGUAGE, SENTENCES, SOURCE
from transforms.streams import WatchedFile

if TYPE_CHECKING:
    from transforms.read_tasks import FileShare

__all__ = ["Avro"]

#: What a packed block may hold beside one document of the largest size. Writers end a block at some
#: kilobytes or megabytes, or behind a record that has more.
_BLOCK_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Avro:
    """Reads blocks; see ``records.Table``. The fields are those of ``ReadOptions``."""

    text_field: str = "text"
    id_field: str | None = None
    language_field: str | None = "lang"

    def rows(self, share: FileShare, *, max_bytes: int) -> Iterator[Row]:
        """See ``records.Table``.

        Raises:
          MissingColumnError: there is no such field.
          DamagedStreamError: it is none, or of a codec that cannot be read.
        """
        fields = JsonLines(self.text_field, self.id_field, self.language_field)
        with WatchedFile(share.path) as file:
            header = read_header(file)
            self._require_field(header.schema, share.path)
            read, done = record_reader(header.schema, wanted=self._wanted()), 0
            for block in blocks_from(file, header, start=share.start, end=share.end):
                if not share.owned_run(block.begin)[1]:
                    return
                size = block.end - block.begin
                yield from _rows_of_block(block, header, read, fields, done, max_bytes)
                done += size

    def _wanted(self) -> set[str]:
        fields = [name for name in (self.text_field, self.id_field, self.language_field) if name]
        return {*fields, *(name.split(".")[0] for name in fields), SENTENCES, SOURCE, LANGUAGE}

    def _require_field(self, schema: Any, path: str) -> None:
        fields = schema.get("fields") if isinstance(schema, dict) else None
        names = [field["name"] for field in fields or ()]
        # Of what is inside a field only the records can tell: it may be of one type or another.
        wanted = {self.text_field, self.text_field.split(".")[0], SENTENCES}
        if fields is not None and not wanted & set(names):
            listed = ", ".join(repr(name[:40]) for name in names[:10])
            raise MissingColumnError(
                f"{path} has no field {self.text_field!r}; there is {listed or 'none at all'}; say "
                "which holds the text, with --text_field"
            )


def _rows_of_block(
    block: Block, header: Header, read: RecordReader, fields: JsonLines, before: int, max_bytes: int
) -> Iterator[Row]:
    size = block.end - block.begin
    count = 0
    try:
        if block.data is None:
            raise ValueError(block.detail)
        content = io.BytesIO(unpack(header.codec, block.data, limit=_BLOCK_BYTES + max_bytes))
        length = len(content.getbuffer())
        while count < block.records:
            begin = content.tell()
            record = read(content)
            if content.tell() == begin:  # there could be any number
                raise ValueError("a record has no bytes")
            found, data = _document(record, fields, max_bytes)
            reached = before + size * content.tell() // max(1, length)
            yield Row(f"{block.begin}+{count}", found, data, reached)
            count += 1
        if content.tell() != length:
            raise ValueError("it holds more than its records")
        if block.detail:
            raise ValueError(block.detail)
    except Exception as error:  # whatever damaged bytes lead to; the disk has been read by now
        detail = (
            f"avro: the block at byte {block.begin:,} is damaged after {count:,} records "
            f"({first_line(error)}); the file is read on from byte {block.end:,}"
        )
        damage = RecordError(RejectReason.DAMAGED_STREAM, detail)
        yield Row(f"{block.begin}+{count}", damage, b"", before + size)


def _document(
    record: Any, fields: JsonLines, max_bytes: int
) -> tuple[Document | RecordError, bytes]:
    try:
        if not isinstance(record, dict):
            kind = type(record).__name__
            raise RecordError(RejectReason.MISSING_FIELD, f"a {kind} where a record must be")
        document = fields.document_of(record)
        text = document.text
        require_length(text, max_bytes=max_bytes, hint="the limit is for one record")
    except RecordError as error:
        return error, beginning_of(str(record))
    return document, beginning_of(text)
