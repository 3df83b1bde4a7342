"""However an export is cut, its pages are those of the whole."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.test_documents_framing import chunks, cuts, framed, places, ranges_of, share
from transforms.formats.framing import EXCERPT_BYTES, Record, cut
from transforms.formats.mediawiki import MediaWiki
from transforms.formats.page_framing import frame_pages

TOKENS = [b"<page>", b"</page>", b"<page ", b"<pages>", b"<", b"<pa", b"ge>", b"/page>", b">"]
TOKENS += [b"a", b"\n", b"<page>one</page>", b"<page>two", b"\xff", b"\xef\xbb\xbf"]
contents = st.lists(st.sampled_from(TOKENS), max_size=25).map(b"".join)


def page_records(data: bytes) -> list[tuple[int, bytes]]:
    """The model: with all of the file at hand."""
    mark = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    begins = [match.start() for match in re.finditer(rb"<page[\s>]", data) if match.start() >= mark]
    found = []
    for begin, next_one in itertools.pairwise([*begins, len(data)]):
        whole = data[begin:next_one]
        end = whole.find(b"</page>")
        found.append((begin, whole if end < 0 else whole[: end + len(b"</page>")]))
    return found


def frame(pieces):
    return frame_pages(pieces, max_bytes=1 << 20)


@settings(max_examples=400, deadline=None)
@given(contents, cuts, places, st.integers(1, 30))
@example(b"<page></page><page>x</page>", [3, 13, 14, 20], (1, 2), 1)
@example(b"<<page>a</page>", [1], (1, 2), 1)
def test_pages_are_the_same_for_every_cut(data, points, stripes, chunk):
    expected = page_records(data)
    whole = framed(frame, data, share(), lookback=0, chunk=1 << 20)
    assert [(r.offset, r.data) for r in whole] == expected
    lookback = MediaWiki().lookback
    by_range = [
        record
        for part in ranges_of(data, points)
        for record in framed(frame, data, part, lookback=lookback, chunk=chunk)
    ]
    assert [(r.offset, r.data) for r in by_range] == expected
    width, n = stripes
    for k in range(n):
        part = share(stripe=k, num_stripes=n, stripe_bytes=width)
        mine = framed(frame, data, part, lookback=lookback, chunk=chunk)
        assert [(r.offset, r.data) for r in mine] == [
            r for r in expected if n == 1 or r[0] // width % n == k
        ]


@settings(max_examples=150, deadline=None)
@given(contents, cuts, st.integers(1, 30), st.integers(1, 20))
def test_pages_that_are_too_long_are_the_same_for_every_cut(data, points, chunk, limit):
    found = [
        record
        for part in ranges_of(data, points)
        for record in framed(
            lambda pieces: frame_pages(pieces, max_bytes=limit),
            data,
            part,
            lookback=0,
            chunk=chunk,
        )
    ]
    expected = page_records(data)
    assert [(r.offset, r.too_long) for r in found] == [(o, len(d) > limit) for o, d in expected]
    for record, (_, whole) in zip(found, expected, strict=True):
        assert whole.startswith(bytes(record.data))


@pytest.mark.parametrize("data", [b"x" * 500_000, b"<page>" + b"x" * 500_000])
def test_what_is_not_ours_is_not_kept_and_no_page_is_read_on_for_ever(data):
    taken = 0

    def counted(begin):
        nonlocal taken
        for piece in chunks(data, begin, 1000):
            taken += len(piece)
            yield piece

    for start, records in ((0, data.count(b"<page>")), (100_000, 0)):
        taken = 0
        part = share(start=start, end=start + 50_000)
        pieces = cut(counted(start), offset=start, owned_run=part.owned_run)
        found = list(frame_pages(pieces, max_bytes=100_000))
        assert len(found) == records
        assert all(isinstance(r, Record) and len(r.data) <= EXCERPT_BYTES for r in found)
        assert taken <= 103_000
