"""WARC and WET: records are the same for every cut, damage costs what is damaged, pages are decoded."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.web_archives import (
    NEWS,
    chunked,
    conversion,
    members,
    page,
    record,
    request,
    response,
)
from transforms.formats.framing import cut
from transforms.formats.warc_framing import frame_warc
from transforms.inputs import list_inputs
from transforms.read_tasks import FileShare, plan_reads
from transforms.reader import ReadOptions, read_task

pytest.importorskip("resiliparse")
brotli = pytest.importorskip("brotli")

LINES = [f"{NEWS * 3}Number {i}." for i in range(3)]
PAGE = page(LINES)
TEXT = "\n".join(LINES)


def framed(data: bytes, share: FileShare, *, chunk: int, max_bytes: int = 1 << 20):
    parts = (data[i : i + chunk] for i in range(0, len(data), chunk))
    return list(frame_warc(cut(parts, offset=0, owned_run=share.owned_run), max_bytes=max_bytes))


def share(**fields) -> FileShare:
    return FileShare("f", "none", "warc", 0, **fields)


def read(tmp_path, data: bytes, name: str = "a.warc", **options):
    """Documents and rejects of a file, read as one share."""
    path = tmp_path / name
    path.write_bytes(data)
    found: dict[str, list] = {"documents": [], "rejects": []}
    files = list_inputs([str(path)], format="auto")
    for task in plan_reads(files, num_stripes=1, range_bytes=None):
        for kind, batch in read_task(task, options=ReadOptions(**options)):
            found[kind] += batch.to_pylist()
    return found["documents"], found["rejects"]


# Pieces of archives, whole and broken.
PARTS = [
    conversion("one"),
    conversion("", uri="http://b.example/"),
    conversion("a\r\n\r\nWARC/1.0\r\nb: c\r\n\r\n\nd"),
    conversion("short", length=3),
    conversion("long", length=9000),
    conversion("none").replace(b"Content-Length", b"X-Length"),
    conversion("x" * 700),
    conversion("x" * 3000),
    request(),
    conversion("lf").replace(b"\r\n", b"\n"),
    b"garbage\n",
    b"\r\n\r\n",
    b"\n",
    b"WARC/1.",
    b"WARC/1.0\r\nWARC-Type: response\r\n",
    b"\0" * 50,
]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(PARTS), max_size=8).map(b"".join),
    st.tuples(st.integers(50, 2000), st.integers(1, 4)),
    st.integers(1, 5000),
)
@example(PARTS[4] + PARTS[0] + PARTS[6], (300, 2), 7)
@example(PARTS[7] + PARTS[0], (200, 3), 64)
def test_records_are_the_same_for_every_stripe_and_chunk(data, stripes, chunk):
    expected = framed(data, share(), chunk=1 << 20, max_bytes=1500)
    assert expected == framed(data, share(), chunk=chunk, max_bytes=1500)
    width, n = stripes
    for k in range(n):
        part = share(stripe=k, num_stripes=n, stripe_bytes=width)
        mine = framed(data, part, chunk=chunk, max_bytes=1500)
        assert mine == [r for r in expected if r.offset // width % n == k]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([PARTS[0], PARTS[1], PARTS[6], PARTS[8], PARTS[9]]), max_size=8))
def test_whole_records_are_given_as_they_lie(parts):
    found = framed(b"".join(parts), share(), chunk=100)
    assert [r.data.strip() for r in found] == [p.strip() for p in parts]
    assert not any(r.damage or r.too_long for r in found)


@pytest.mark.parametrize("length", [0, 3, 10**4, 10**12, -1])
def test_a_wrong_length_costs_its_record_only(length):
    data = conversion("first") + conversion("damaged", length=length) + conversion("last")
    first, damaged, last = framed(data, share(), chunk=50)
    assert bool(damaged.damage) is not damaged.too_long
    assert damaged.offset == len(conversion("first"))
    assert (first.data, last.data) == (conversion("first")[:-4], conversion("last")[:-4])


def test_a_lost_header_costs_its_record_only(tmp_path):
    lost = conversion("lost").split(b"\r\n\r\n", 1)[1]
    documents, rejects = read(tmp_path, conversion("one") + lost + conversion("two"))
    assert [d["text"] for d in documents] == ["one", "two"]
    assert [r["reason"] for r in rejects] == ["damaged_record"]
    assert "no WARC header" in rejects[0]["detail"]


def test_a_record_that_is_cut_short_is_refused_and_says_how_much_there_is(tmp_path):
    data = conversion("one") + conversion("0123456789")[:-9]
    documents, rejects = read(tmp_path, data)
    assert [d["text"] for d in documents] == ["one"]
    assert rejects[0]["detail"] == "Content-Length says 10 bytes, there are 5"


def test_no_more_than_a_record_is_held(tmp_path):
    """What is too long is refused if it is text or a page, and passed over otherwise."""
    video = record(
        b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n" + b"v" * 5000,
        kind="response",
        media="application/http",
    )
    long = [conversion("x" * 5000), response(PAGE.encode() * 9)]
    data = b"".join([conversion("one"), video, *long, conversion("two")])
    documents, rejects = read(tmp_path, data, max_document_bytes=2000)
    assert [d["text"] for d in documents] == ["one", "two"]
    assert [r["reason"] for r in rejects] == ["too_long"] * 2


def test_what_is_no_page_is_passed_over(tmp_path):
    data = b"".join(
        [
            record(b"software: x\r\n", kind="warcinfo", media="application/warc-fields"),
            request(),
            response(PAGE.encode(), status="404 Not Found"),
            response(PAGE.encode(), status="301 Moved"),
            response(b"{}", media="application/json"),
            response(b"GIF89a", media="image/gif"),
            record(b"1.2.3.4", kind="response", media="text/dns"),
            record(b"{}", kind="conversion", media="application/json"),
            record(b"x", kind="metadata", media="text/plain"),
            response(b"").replace(b"Type: response", b"Type: revisit"),
            response(b"<html><body><nav><a href=x>menu</a></nav></body></html>"),
            conversion(" \n "),
        ]
    )
    assert read(tmp_path, data) == ([], [])


def test_a_page_is_its_main_text_with_its_address_and_language(tmp_path):
    old_wget = response(page(LINES, lang="de-AT").encode(), uri="<http://a.example/b>")
    (document,), rejects = read(tmp_path, old_wget)
    assert document["text"] == TEXT
    assert document["source"].endswith("a.warc#http://a.example/b")
    assert document["language"] == "de"
    assert rejects == []


@pytest.mark.parametrize(
    ("identified", "header", "lang", "expected"),
    [
        ("deu", "fr", "en", "de"),
        ("deu,eng", "fr", "en", "fr"),
        ("", "fr-CA", "en", "fr"),
        ("", "fr, en", "en-GB", "en"),
        ("", "", "zh-Hant", "zh"),
        ("", "", "{{ lang }}", None),
        ("gsw", "", "", "gsw"),
    ],
)
def test_the_language_is_the_first_that_is_said_exactly(
    tmp_path, identified, header, lang, expected
):
    more = [f"WARC-Identified-Content-Language: {identified}"] if identified else []
    fields = [f"Content-Language: {header}"] if header else []
    data = response(page(LINES, lang=lang).encode(), *fields, more=more)
    (document,), _ = read(tmp_path, data)
    assert document["language"] == expected


def deflated(data: bytes, wbits: int) -> bytes:
    compressor = zlib.compressobj(wbits=wbits)
    return compressor.compress(data) + compressor.flush()


RAW = PAGE.encode()


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (RAW, ["Content-Encoding: identity"]),
        (gzip.compress(RAW), ["Content-Encoding: gzip"]),
        (deflated(RAW, 15), ["Content-Encoding: deflate"]),
        (deflated(RAW, -15), ["Content-Encoding: deflate"]),
        (brotli.compress(RAW), ["Content-Encoding: br"]),
        (chunked(RAW), ["Transfer-Encoding: chunked"]),
        (chunked(RAW)[:-5], ["Transfer-Encoding: chunked"]),  # without the last chunk
        (chunked(gzip.compress(RAW)), ["Transfer-Encoding: chunked", "Content-Encoding: gzip"]),
        (gzip.compress(brotli.compress(RAW)), ["Content-Encoding: br, gzip"]),
        # The header of the server with the body as it was decoded.
        (RAW, ["Content-Encoding: gzip"]),
        (RAW, ["Content-Encoding: br"]),
        (RAW, ["Content-Encoding: deflate"]),
        (RAW, ["Transfer-Encoding: chunked"]),
    ],
)
def test_bodies_are_decoded(tmp_path, body, fields):
    (document,), rejects = read(tmp_path, response(body, *fields))
    assert document["text"] == TEXT
    assert rejects == []


@pytest.mark.parametrize(
    ("body", "fields", "said"),
    [
        (gzip.compress(RAW)[:-20], ["Content-Encoding: gzip"], "cut short"),
        (gzip.compress(RAW)[:50] + b"x" * 40, ["Content-Encoding: gzip"], "decompressing"),
        (brotli.compress(RAW)[:-20], ["Content-Encoding: br"], "cut short"),
        (b"\xff" * 40, ["Content-Encoding: br"], "br"),
        (b"\xff" * 40, ["Content-Encoding: deflate"], "decompressing"),
        (
            chunked(RAW, 50).replace(b"\r\n32", b"\r\nzz", 3),
            ["Transfer-Encoding: chunked"],
            "chunk",
        ),
        (b"\x01\x02", ["Content-Encoding: lzma"], "'lzma'"),
    ],
)
def test_damaged_bodies_are_refused_and_the_rest_is_read(tmp_path, body, fields, said):
    documents, rejects = read(tmp_path, response(body, *fields) + response(RAW))
    assert [d["text"] for d in documents] == [TEXT]
    assert [r["reason"] for r in rejects] == ["damaged_record"]
    assert said in rejects[0]["detail"]


def test_a_page_that_the_crawler_cut_is_read_as_far_as_it_goes(tmp_path):
    body = gzip.compress(page([f"{i} {NEWS}" for i in range(200)]).encode())[:-30]
    data = response(body, "Content-Encoding: gzip", more=["WARC-Truncated: length"])
    (document,), rejects = read(tmp_path, data)
    assert document["text"].startswith("0 This story")
    assert rejects == []


@pytest.mark.parametrize("compress", [gzip.compress, brotli.compress], ids=["gzip", "br"])
def test_a_compressed_bomb_costs_its_record(tmp_path, compress):
    name = "gzip" if compress is gzip.compress else "br"
    bomb = response(compress(b"<p>" + b"x" * (8 << 20)), f"Content-Encoding: {name}")
    documents, rejects = read(tmp_path, bomb + response(RAW), max_document_bytes=1 << 20)
    assert [d["text"] for d in documents] == [TEXT]
    assert [r["reason"] for r in rejects] == ["too_long"]


def test_bytes_that_are_not_utf8_in_a_wet_file_are_refused(tmp_path):
    data = conversion("gut")[:-7] + b"\xff\xfe!" + b"\r\n\r\n" + conversion("two")
    documents, (reject,) = read(tmp_path, data, "a.warc.wet")
    assert [d["text"] for d in documents] == ["two"]
    assert reject["reason"] == "undecodable"
    assert f"byte {data.index(0xFF):,} " in reject["detail"]


@pytest.mark.parametrize("name", ["a.warc.gz", "a.wet.gz", "a.data"])
def test_a_member_a_record(tmp_path, name):
    records = [request(), response(RAW), conversion("two"), conversion("three")]
    documents, rejects = read(tmp_path, members(records), name)
    assert [d["text"] for d in documents] == [TEXT, "two", "three"]
    assert rejects == []
