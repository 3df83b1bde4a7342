"""Avro's container files: the header, and the blocks that begin in a share, unpacked.

A block is the number of its records, the number of its bytes, these, and the file's sync marker. One that
is not followed by the marker is damaged, and reading goes on behind the next marker there is.

Source: the Apache Avro specification, "Object Container Files".
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from transforms.formats.avro_schemas import schema_for_reading
from transforms.streams import DamagedStreamError, WatchedFile

__all__ = ["CODECS", "Block", "Header", "blocks_from", "read_header", "unpack"]

CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")

_SYNC_BYTES = 16
#: A header with a schema of more than the first is read again, with the second.
_HEADER_BYTES = (64 << 10, 16 << 20)
#: Two numbers, of at most ten bytes each.
_COUNTS_BYTES = 20
#: The search for a marker goes in steps of this.
_STEP_BYTES = 256 << 10
#: The end of a block that claims more than this is looked at before all of it is read.
_LARGE_BLOCK = 16 << 20


class Header(NamedTuple):
    """Of a file: its schema, parsed, without logical types; codec, marker, and the header's own bytes."""

    schema: Any
    codec: str
    sync: bytes
    size: int


class Block(NamedTuple):
    """A block that begins at ``begin`` and ends, with its marker, before ``end``.

    Attributes:
      records: how many there are.
      data: of the records, packed; None if the block is damaged.
      detail: what is wrong, in words.
    """

    begin: int
    end: int
    records: int
    data: bytes | None
    detail: str = ""


def read_header(file: WatchedFile) -> Header:
    """Reads the header.

    Raises:
      DamagedStreamError: it is none, or the codec is not one of ``CODECS``.
    """
    said = ""
    for size in _HEADER_BYTES:
        head = io.BytesIO(file.read_at(0, size))
        try:
            reader = fastavro.reader(head)
            schema = schema_for_reading(reader.metadata["avro.schema"])
            codec, end = reader.metadata.get("avro.codec", "null"), head.tell()
        except Exception as caught:  # whatever bytes that are no header lead to
            said = f"no header ({caught})"
            continue
        if codec not in CODECS:  # unheard of, or a byte of the name has changed
            said = f"packed with {codec[:40]!r}; write it again with one of {', '.join(CODECS)}"
            break
        return Header(schema, codec, head.getvalue()[end - _SYNC_BYTES : end], end)
    raise DamagedStreamError(file.path, compressed_offset=0, offset=0, detail=f"avro: {said}")


def blocks_from(
    file: WatchedFile, header: Header, *, start: int, end: int | None
) -> Iterator[Block]:
    """The blocks of a file from the first that begins at ``start`` or later; none if that is after ``end``.

    Where the ``end`` of a damaged one is not known it is where reading goes on.
    """
    begin: int | None = header.size
    if start > header.size:
        begin = _after_marker(file, header, start - _SYNC_BYTES, end)
    while begin is not None and begin < file.size:
        block = _read_block(file, header, begin)
        if block.detail:
            begin = _after_marker(file, header, begin)
            block = block._replace(end=file.size if begin is None else begin)
        else:
            begin = block.end
        yield block


def _read_block(file: WatchedFile, header: Header, begin: int) -> Block:
    """The block at ``begin``; its data too where only the marker after it is missing."""
    counts = io.BytesIO(file.read_at(begin, _COUNTS_BYTES))
    records, size = _long(counts), _long(counts)
    if records is None or size is None or records < 0 or size < 0:
        return Block(begin, begin, 0, None, "no block begins here")
    data_at = begin + counts.tell()
    end = data_at + size + _SYNC_BYTES
    if end > file.size:
        return Block(begin, begin, records, None, "it is cut short")
    ends_well = True
    if size > _LARGE_BLOCK:
        ends_well = file.read_at(end - _SYNC_BYTES, _SYNC_BYTES) == header.sync
    data = file.read_at(data_at, size) if ends_well else None
    ends_well = ends_well and file.read(_SYNC_BYTES) == header.sync
    return Block(begin, end, records, data, "" if ends_well else "no sync marker follows it")


def _after_marker(
    file: WatchedFile, header: Header, start: int, end: int | None = None
) -> int | None:
    """The first byte after the next sync marker that begins at ``start`` or later; None if there is none.

    The search ends at ``end``.
    """
    start = max(start, header.size - _SYNC_BYTES)
    tail = b""
    while (end is None or start < end) and (data := file.read_at(start, _STEP_BYTES)):
        window = tail + data
        found = window.find(header.sync)
        if found >= 0:
            return start - len(tail) + found + _SYNC_BYTES
        start += len(data)
        tail = window[-(_SYNC_BYTES - 1) :]
    return None


def _long(data: io.BytesIO) -> int | None:
    """Avro's ``long``: zigzag, seven bits a byte; None if it does not end."""
    value = 0
    for shift in range(0, 64, 7):
        byte = data.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
    return None


def unpack(codec: str, data: bytes, *, limit: int) -> bytes:
    """The content of a block.

    pyarrow has snappy and zstandard, for which fastavro needs packages of their own.

    Args:
      limit: a packed block that holds more bytes is refused.

    Raises:
      Exception: of the library, or ValueError: the data is damaged.
    """
    if codec == "null":
        return data
    if codec == "snappy":
        return _unpack_snappy(data, limit)
    if codec == "zstandard":
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            content = stream.read_buffer(limit).to_pybytes()  # see compression._frames
            ends = not stream.read_buffer(1)
    else:
        decoder: Any = {
            "deflate": lambda: zlib.decompressobj(wbits=-15),  # without header and checksum
            "bzip2": bz2.BZ2Decompressor,
            "xz": lzma.LZMADecompressor,
        }[codec]()
        content = decoder.decompress(data, limit)
        ends = decoder.eof
    if not ends:
        raise ValueError(f"{codec}: it does not end, or {_too_much(limit)}")
    return content


def _too_much(limit: int) -> str:
    return f"holds more than {limit:,} bytes, which --max_document_bytes raises"


def _unpack_snappy(data: bytes, limit: int) -> bytes:
    """Snappy's raw format, which begins with the size, and four bytes of checksum."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        raise ValueError(f"snappy: it {_too_much(limit)}")
    content: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(content) != int.from_bytes(data[-4:], "big"):
        raise ValueError("snappy: the checksum is wrong")
    return content
