"""Documents that are lists of sentences keep the key of the text they were cut from."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.arrow import DOCUMENT_BATCH, SENTENCE_BATCH
from tests.unit.tables import read, texts, write_arrow, write_avro, write_parquet
from transforms.canonical import canonical_text
from transforms.document_files import ending_of, records_of
from transforms.formats.sentence_lists import cut_after
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import read_task
from transforms.sentences import document_key, split_batch

ROWS = [
    {"source": "a#1", "language": "en", "sentences": ["One fox. ", "It ran.\n\n", "A crow."]},
    {"source": None, "language": None, "sentences": ["第一句。", "第二句。"]},
]
TEXTS = ["One fox. It ran.\n\nA crow.", "第一句。第二句。"]
FIELDS = [
    {"name": "source", "type": ["null", "string"]},
    {"name": "language", "type": ["null", "string"]},
    {"name": "sentences", "type": {"type": "array", "items": ["null", "string"]}},
]


def write(kind, folder, rows=ROWS):
    if kind == "avro":
        return write_avro(folder / "a.avro", rows, fields=FIELDS)
    if kind == "jsonl":
        path = folder / "a.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    table = pa.Table.from_pylist(rows)
    write_table = write_parquet if kind == "parquet" else write_arrow
    return write_table(folder / f"a.{kind}", table, **({"rows": 2} if kind == "arrow" else {}))


def read_batch(path):
    (task,) = plan_reads(list_inputs([str(path)], format="auto"), num_stripes=1, range_bytes=None)
    return next(batch for output, batch in read_task(task) if output == "documents")


KINDS = ("avro", "jsonl", "parquet", "arrow")


@pytest.mark.parametrize("kind", KINDS)
def test_read_from_every_format(kind, tmp_path):
    batch = read_batch(write(kind, tmp_path))
    assert batch["text"].to_pylist() == TEXTS
    assert batch["source"].to_pylist()[0].endswith("#a#1")
    assert batch["language"].to_pylist() == ["en", None]
    for splitter in ("sentencex", "none"):  # nobody looks for others
        split = split_batch(batch, language="de", sentence_splitter=splitter)
        assert split.schema == SENTENCE_BATCH
        assert split["key"].to_pylist() == [document_key(text.encode()) for text in TEXTS]
        assert split["sentences"].to_pylist() == [
            ["One fox.", "It ran.", "A crow."],
            ["第一句。", "第二句。"],
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused(kind, tmp_path):
    rows = [
        {"source": "a", "language": None, "sentences": ["One.", None]},
        {"source": "b", "language": None, "sentences": []},
        {"source": "c", "language": None, "sentences": [" ", "\n"]},
        {"source": "d", "language": None, "sentences": ["x" * 100]},
    ]
    documents, rejects = read(write(kind, tmp_path, rows), max_document_bytes=99)
    assert documents == []
    assert [r["reason"] for r in rejects] == [
        "field_not_a_string",
        "empty_document",
        "empty_document",
        "too_long",
    ]
    assert "sentences[1] is null" in rejects[0]["detail"]


def test_a_text_field_comes_first(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "Whole. Text.", "sentences": ["Other."]}) + "\n")
    batch = read_batch(path)
    assert batch.schema == DOCUMENT_BATCH
    assert texts(batch.to_pylist()) == ["Whole. Text."]


def test_both_kinds_of_documents_in_one_batch(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"text": "A one. A two."}, ROWS[0], {"text": "B one. B two."}, ROWS[1], {"text": "C."}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    split = split_batch(read_batch(path), language="en")
    assert split["sentences"].to_pylist() == [
        ["A one.", "A two."],
        ["One fox.", "It ran.", "A crow."],
        ["B one.", "B two."],
        ["第一句。", "第二句。"],
        ["C."],
    ]
    wanted = ["A one. A two.", TEXTS[0], "B one. B two.", TEXTS[1], "C."]
    assert split["key"].to_pylist() == [document_key(text.encode()) for text in wanted]


_ALPHABET = "ab.!?\"' \t\n\r\x0b\x85\u2003\u3000。é"


def batch_of(values):
    columns = {"text": values, "source": [""] * len(values), "language": [None] * len(values)}
    return pa.RecordBatch.from_pydict(columns, schema=DOCUMENT_BATCH)


@given(st.text(alphabet=_ALPHABET, max_size=40), st.sampled_from(["sentencex", "none"]))
def test_written_sentences_are_the_text(text, splitter):
    text = canonical_text(text)
    if not text:
        return
    batch = batch_of([text])
    (record,) = records_of(batch, language="en", sentence_splitter=splitter)
    assert "".join(record["sentences"]) == text
    (sentences,) = split_batch(batch, language="en", sentence_splitter=splitter)[
        "sentences"
    ].to_pylist()
    assert [sentence.strip() for sentence in record["sentences"]] == sentences


@given(st.lists(st.text(alphabet=_ALPHABET, max_size=10), min_size=1, max_size=6))
def test_mended_sentences_fit_their_text_whatever_their_edges(sentences):
    """What a person makes of them is written again as it was read."""
    text = canonical_text("".join(sentences))
    forms = [form for form in map(canonical_text, sentences) if form]
    if text:
        assert "".join(cut_after(text, forms)) == text


def test_sentences_of_another_text_are_a_bug():
    for sentences in (["One."], ["One.", "Three."], ["Two.", "One."]):
        with pytest.raises(RuntimeError, match="sentence"):
            cut_after("One. Two.", sentences)


def test_endings():
    assert ending_of("a/b.AVRO") == ".avro"


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_a_sentence_that_is_not_utf8_costs_its_row(tmp_path, kind, suffix):
    lists = [
        [b"One. ", b"Two."],
        None,
        [b"Three."],
        [b"F\xff. ", b"Five."],
        [],
        [b"Six.", None],
    ] * 3
    binary = pa.array(lists, kind(pa.binary()))
    make = pa.ListArray if kind is pa.list_ else pa.LargeListArray
    strings = pa.Array.from_buffers(
        pa.string(), len(binary.values), binary.values.buffers(), binary.values.null_count
    )
    column = make.from_arrays(binary.offsets, strings, mask=binary.is_null())
    table = pa.table({"sentences": column}).slice(1)
    path = tmp_path / f"a.{suffix}"
    write_parquet(path, table) if suffix == "parquet" else write_arrow(path, table, rows=7)
    documents, rejects = read(path)
    assert texts(documents) == ["Three.", *["One. Two.", "Three."] * 2]
    empty = ["field_not_a_string", "undecodable", "empty_document", "field_not_a_string"]
    assert [reject["reason"] for reject in rejects] == empty * 3
    shown = [reject for reject in rejects if reject["reason"] == "undecodable"]
    assert "0xff" in shown[0]["detail"]
    assert "F\ufffd.  Five." in shown[0]["excerpt"]
