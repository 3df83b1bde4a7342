"""The body of an HTTP response as it was before it was sent: chunks joined, compression undone.

What says that it is chunked or compressed and is not, is taken as it is: many archives keep the server's
header with the decoded body. By zlib and brotli themselves, since a limit to what comes out is needed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping

from schemas.errors import RecordError, RejectReason
from transforms.formats.decoding import too_long

__all__ = ["http_body"]

_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_GZIP_MAGIC = b"\x1f\x8b"
#: Of zlib's own header: deflate, a window of 32 KiB, and a checksum that makes it a multiple of 31.
_ZLIB_BEGINS = 0x78


def http_body(body: bytes, fields: Mapping[str, str], *, cut_off: bool, max_bytes: int) -> bytes:
    """The content that the server meant.

    Args:
      body: what came after the header.
      fields: the header's, by names in lower case.
      cut_off: the crawler kept only the beginning: that it ends too early is no damage then.
      max_bytes: the most that may come out.

    Raises:
      RecordError: ``DAMAGED_RECORD``, ``TOO_LONG``, or an encoding that nobody knows.
    """
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body = _join_chunks(body, cut_off=cut_off)
    for name in reversed(_names(fields.get("content-encoding", ""))):
        body = _decode(name, body, cut_off=cut_off, max_bytes=max_bytes)
    return body


def _names(encodings: str) -> list[str]:
    names = (name.strip().lower() for name in encodings.split(","))
    return [name for name in names if name and name not in ("identity", "none", "utf-8")]


def _join_chunks(body: bytes, *, cut_off: bool) -> bytes:
    parts: list[bytes] = []
    at = 0
    while size := _CHUNK_SIZE.match(body, at):
        length = int(size[1], 16)
        if length == 0:
            return b"".join(parts)
        part = body[size.end() : size.end() + length]
        parts.append(part)
        at = size.end() + len(part)
        at += 2 if body[at : at + 2] == b"\r\n" else body[at : at + 1] == b"\n"
    if not parts:
        return body
    if cut_off or at >= len(body):  # the last chunk, of no bytes, is what many archives lack
        return b"".join(parts)
    raise _damaged(f"no size of a chunk at byte {at:,} of the body")


def _decode(name: str, body: bytes, *, cut_off: bool, max_bytes: int) -> bytes:
    if name in ("gzip", "x-gzip"):
        if not body.startswith(_GZIP_MAGIC):
            return body
        return _inflate(body, wbits=31, cut_off=cut_off, max_bytes=max_bytes)
    if name == "deflate":
        if not body or body[:1] == b"<":
            return body
        with_header = body[0] == _ZLIB_BEGINS and int.from_bytes(body[:2]) % 31 == 0
        wbits = zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS
        return _inflate(body, wbits=wbits, cut_off=cut_off, max_bytes=max_bytes)
    if name == "br":
        return _unbrotli(body, cut_off=cut_off, max_bytes=max_bytes)
    if body[:1] == b"<":
        return body
    raise _damaged(f"Content-Encoding is {name[:40]!r}, which cannot be undone")


def _inflate(body: bytes, *, wbits: int, cut_off: bool, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj(wbits)

    def step(data: bytes, limit: int) -> bytes:
        return inflater.decompress(data, limit)

    content = _limited(step, body, max_bytes)
    return content if cut_off else _complete(content, inflater.eof)


def _unbrotli(body: bytes, *, cut_off: bool, max_bytes: int) -> bytes:
    import brotli

    if body[:1] == b"<":
        return body
    decoder = brotli.Decompressor()
    try:
        parts, size, data = [], 0, body
        while not decoder.is_finished() and (data or not decoder.can_accept_more_data()):
            part = decoder.process(data, output_buffer_limit=max(1, max_bytes + 1 - size))
            parts.append(part)
            size, data = size + len(part), b""
            if size > max_bytes:
                raise too_long(max_bytes, "a page that was small only as it was sent")
    except brotli.error as error:
        raise _damaged(f"br: {error}") from error
    content = b"".join(parts)
    return content if cut_off else _complete(content, decoder.is_finished())


def _limited(step: Callable[[bytes, int], bytes], body: bytes, max_bytes: int) -> bytes:
    try:
        content = step(body, max_bytes + 1)
    except zlib.error as error:
        raise _damaged(str(error)) from error
    if len(content) > max_bytes:
        raise too_long(max_bytes, "a page that was small only as it was sent")
    return content


def _complete(content: bytes, finished: bool) -> bytes:
    if not finished:
        raise _damaged("the compressed body is cut short")
    return content


def _damaged(detail: str) -> RecordError:
    return RecordError(RejectReason.DAMAGED_RECORD, detail)
