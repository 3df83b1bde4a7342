"""Odd characters are counted and left alone; short documents are left out and counted."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import RefusedRecordError
from tests.unit.compressing import COMPRESS
from tests.unit.reading import read_rows
from transforms.characters import CHARACTER_COUNTS, count_characters

CONTROLS = {chr(c) for c in (*range(32), *range(127, 160)) if not chr(c).isspace()}
ODD = st.characters(codec="utf-8") | st.sampled_from(
    sorted(CONTROLS)
    + list("\ufffd\ufffc\uffff\u00a0\u0085\u00c2\u00ef\ubfbd\t\n\r\x0b\x0c\x1c\x1f ")
)


def by_the_book(texts: list[str]) -> dict[str, int]:
    numbers = (
        sum(any(c in CONTROLS for c in text) for text in texts),
        sum("\ufffd" in text for text in texts),
    )
    return dict(zip(CHARACTER_COUNTS, numbers, strict=True))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(ODD, max_size=8) | st.text(st.sampled_from("ab. \n"), max_size=80)))
def test_documents_are_counted_once_each(texts):
    column = pa.array(texts, pa.large_string())
    assert count_characters(column) == by_the_book(texts)
    for start in range(len(texts)):
        assert count_characters(column.slice(start, 2)) == by_the_book(texts[start : start + 2])


@pytest.mark.parametrize("character", [*sorted(CONTROLS), "\ufffd"])
@pytest.mark.parametrize("place", [0, 31, 32, 99])
def test_wherever_it_stands(character, place):
    text = "x" * place + character + "x" * (99 - place)
    assert count_characters(pa.array([text, "xy"], pa.large_string())) == by_the_book([text])


def test_the_text_is_left_as_it_is(tmp_path):
    texts = ["a\0b", "c\ufffdd", "e\ufdd0\uffff", "f\x1bg\x9f", "plain", "\ufeffh"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    counts: Counter[str] = Counter()
    documents, rejects = read_rows(path, counts=counts)
    assert [row["text"] for row in documents] == texts
    assert rejects == []
    assert counts == dict(zip(CHARACTER_COUNTS, (2, 1), strict=True))


def test_short_documents_are_left_out_and_counted(tmp_path):
    texts = ["äöü", "  abcd \r\n", "ab\n  cd", "x" * 50, ""]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for least, kept in ((0, 4), (1, 4), (4, 3), (5, 2), (6, 1), (50, 1), (51, 0)):
        counts: Counter[str] = Counter()
        documents, rejects = read_rows(path, min_document_chars=least, counts=counts)
        assert len(documents) == kept
        # The canonical text counts, in characters; an empty one is refused as ever.
        assert all(len(row["text"]) >= least for row in documents)
        assert counts["skipped_documents"] == 4 - kept
        assert [row["reason"] for row in rejects] == ["empty_document"]


def test_strict_names_the_first_record_that_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n{"text": 7}\nbroken\n')
    with pytest.raises(RefusedRecordError) as caught:
        read_rows(path, strict=True)
    assert str(caught.value) == f"--strict: {path}@17: field_not_a_string: 'text' is int"


def test_strict_names_a_damaged_file(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(COMPRESS["gz"](b"One.\n\n" * 1000)[:-9])
    with pytest.raises(RefusedRecordError, match=r"a\.txt\.gz@\d+: damaged_stream: .* cut short"):
        read_rows(path, strict=True)
