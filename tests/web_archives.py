"""Writes small web archives: records, responses, chunks."""

from __future__ import annotations

import gzip
import html
from collections.abc import Iterable

NEWS = "This story is long enough to be the text of a page, with commas, words and a point. "


def record(
    block: bytes, *, kind: str, media: str, uri: str = "http://a.example/", length=None, more=()
) -> bytes:
    """One record; ``length`` is what its header says where that is not true."""
    size = len(block) if length is None else length
    lines = ["WARC/1.0", f"WARC-Type: {kind}", f"WARC-Target-URI: {uri}", *more]
    lines += ["WARC-Record-ID: <urn:uuid:1>", f"Content-Type: {media}", f"Content-Length: {size}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def response(
    body: bytes, *fields: str, status="200 OK", media="text/html", uri="http://a.example/", **other
) -> bytes:
    """What a server said, with its header."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {media}", *fields]
    block = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    return record(
        block, kind="response", media="application/http; msgtype=response", uri=uri, **other
    )


def conversion(text: str, *, uri="http://a.example/", **other) -> bytes:
    """A record of a WET file."""
    return record(text.encode(), kind="conversion", media="text/plain", uri=uri, **other)


def request() -> bytes:
    return record(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", kind="request", media="application/http")


def page(lines: Iterable[str], *, head: str = "", lang: str = "") -> str:
    """A web page of these paragraphs, between things that are not its text."""
    paragraphs = "".join(f"<p>{html.escape(line)}</p>\n" for line in lines)
    of = f' lang="{lang}"' if lang else ""
    return (
        f"<!DOCTYPE html>\n<html{of}><head>{head}<title>A title</title><script>var p = '<p>no</p>';"
        '</script></head><body><nav><ul><li><a href="/">Home</a></li><li><a href="/b">About us</a>'
        f"</li></ul></nav><main><article>{paragraphs}</article></main>"
        "<footer>All rights reserved</footer></body></html>"
    )


def chunked(body: bytes, size: int = 100) -> bytes:
    """The body as ``Transfer-Encoding: chunked`` sends it."""
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x;x=1\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"


def members(records: Iterable[bytes]) -> bytes:
    """A member of gzip for each record."""
    return b"".join(gzip.compress(r, mtime=0) for r in records)
