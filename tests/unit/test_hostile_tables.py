"""Tables that are well-formed and made to hurt, or to be read slowly: nothing dies, other rows are read."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tracemalloc

import fastavro
import pyarrow as pa
import pytest

from tests.builds import ROOT
from tests.unit.tables import read, texts, write_arrow, write_avro, write_parquet
from transforms.formats import arrow_stream, avro, columns
from transforms.formats.avro_schemas import reader_for, record_reader, schema_for_reading

MARKER = bytes(range(200, 216))
TEXT = {"name": "text", "type": "string"}
NUMBERS = {"type": "array", "items": "long"}
GOOD = b"\x08Two."  # a text, as Avro writes it


def number(value: int) -> bytes:
    """Avro's ``long``, of a value that is not negative."""
    value, out = value << 1, b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def write_blocks(path, fields, *blocks: tuple[int, bytes]):
    """A file of blocks that are given as the number of their records and their bytes."""
    file = io.BytesIO()
    schema = {"type": "record", "name": "Row", "fields": fields}
    fastavro.writer(file, schema, [], sync_marker=MARKER)
    for records, data in blocks:
        file.write(number(records) + number(len(data)) + data + MARKER)
    path.write_bytes(file.getvalue())
    return path


def test_a_value_that_is_nested_in_itself_without_end_ends_no_process(tmp_path):
    fields = [TEXT, {"name": "next", "type": ["null", "Row"]}]
    deep = b"\x08One.\x02" * 300_000 + b"\x08One.\x00"
    path = write_blocks(tmp_path / "a.avro", fields, (1, deep), (1, GOOD + b"\0"))
    code = (
        "import sys; from tests.unit.tables import read; found = read(sys.argv[1]);"
        "print([d['text'] for d in found[0]], [r['reason'] for r in found[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['Two.'] ['damaged_stream']"


def test_values_in_themselves_are_read(tmp_path):
    fields = [TEXT, {"name": "next", "type": ["null", "Row"]}]
    row = b"\x08One.\x02\x08Two.\x00"
    documents, rejects = read(
        write_blocks(tmp_path / "a.avro", fields, (1, row)), text_field="next.text"
    )
    assert (texts(documents), rejects) == (["Two."], [])


def test_only_schemas_with_types_in_themselves_are_read_slowly():
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "long"}]}
    twice = [{"name": "a", "type": point}, {"name": "b", "type": ["null", "Point"]}]
    plain = fastavro.parse_schema({"type": "record", "name": "Row", "fields": twice})
    assert reader_for(plain) is fastavro.schemaless_reader
    lists = [{"name": "a", "type": {"type": "array", "items": {"type": "map", "values": "Row"}}}]
    recursive = fastavro.parse_schema({"type": "record", "name": "Row", "fields": lists})
    assert reader_for(recursive) is not fastavro.schemaless_reader


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "No", "fields": []},
        {"type": "fixed", "name": "No", "size": 0},
    ],
    ids=str,
)
def test_a_billion_values_without_a_byte(items, tmp_path):
    fields = [TEXT, {"name": "x", "type": {"type": "array", "items": items}}]
    data = b"\x08One." + number(1 << 40) + b"\0"
    documents, rejects = read(write_blocks(tmp_path / "a.avro", fields, (1, data)))
    assert documents == []
    assert [r["reason"] for r in rejects] == ["damaged_stream"]
    assert "arrays of items that have no bytes" in rejects[0]["detail"]


@pytest.mark.timeout(60)
def test_a_billion_records_without_a_byte(tmp_path):
    path = write_blocks(tmp_path / "a.avro", [{"name": "text", "type": "null"}], (1 << 40, b""))
    documents, rejects = read(path)
    assert documents == []
    assert [r["reason"] for r in rejects] == ["damaged_stream"]


def test_a_block_that_claims_too_many_records_says_so(tmp_path):
    path = write_blocks(tmp_path / "a.avro", [TEXT], (1 << 40, GOOD), (1, GOOD))
    documents, rejects = read(path)
    assert texts(documents) == ["Two."] * 2
    assert "()" not in rejects[0]["detail"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, number(1 << 62)),
        ({"type": "int", "logicalType": "date"}, number(1 << 30)),
        ({"type": "string", "logicalType": "uuid"}, b"\x04no"),
    ],
    ids=lambda kind: kind["logicalType"] if isinstance(kind, dict) else "",
)
def test_dates_that_python_has_not_cost_nothing_in_avro(kind, value, tmp_path):
    rows = (GOOD + value) * 3
    path = write_blocks(tmp_path / "a.avro", [TEXT, {"name": "x", "type": kind}], (3, rows))
    documents, rejects = read(path)
    assert (texts(documents), rejects) == (["Two."] * 3, [])


def test_numbers_that_nobody_wants_are_never_held_in_memory(tmp_path):
    """Two million, by name: built, they would take sixteen megabytes, and many times that in maps."""
    count = 2_000_000
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": NUMBERS}]}
    fields = [{"name": "a", "type": inner}, TEXT, {"name": "b", "type": ["null", "Inner"]}]
    many = number(count) + bytes(count) + b"\0"
    schema = schema_for_reading(json.dumps({"type": "record", "name": "Row", "fields": fields}))
    content = io.BytesIO(many + GOOD + b"\x02" + many)
    read_record = record_reader(schema, wanted={"text"})
    tracemalloc.start()
    record = read_record(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert record == {"text": "Two."}
    assert content.tell() == len(content.getvalue())
    assert peak < 1 << 20


@pytest.mark.parametrize("wanted", ["text", "a.x", "b.x", "b"])
def test_the_wanted_fields_are_what_they_are_in_the_whole_record(wanted, tmp_path):
    """Types are named where they are used first, and a union with several kinds keeps the kind."""
    some = {"type": "enum", "name": "Some", "symbols": ["u", "v"]}
    inner = [{"name": "x", "type": ["bytes", "string", "long", "double", NUMBERS]}]
    kinds = [{"type": "record", "name": "Inner", "namespace": "n", "fields": inner}, "null", some]
    fields = [
        {"name": "m", "type": {"type": "map", "values": kinds}},
        {"name": "a", "type": ["null", "n.Inner"]},
        TEXT,
        {"name": "e", "type": ["Some", "null"]},
        {"name": "b", "type": {"type": "array", "items": "n.Inner"}},
    ]
    text = json.dumps({"type": "record", "name": "Row", "fields": fields})
    values = ({"x": x} for x in (b"b", "s", 1.5, 7, [1, 2]))
    rows = [
        {"m": {"k": v, "l": "u", "n": None}, "a": v, "text": "One.", "e": "v", "b": [v, v]}
        for v in values
    ]
    content = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(content, fastavro.parse_schema(json.loads(text)), row)
    content.seek(0)
    top = wanted.split(".")[0]
    read_record = record_reader(schema_for_reading(text), wanted={wanted, top})
    for row in rows:
        found = read_record(content)
        assert repr(found[top]) == repr(row[top])
        assert found["text"] == "One."
        assert "m" not in found
    assert not content.read()


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_a_block_that_holds_too_much_costs_that_block(codec, tmp_path, monkeypatch):
    monkeypatch.setattr(avro, "_BLOCK_BYTES", 1 << 10)
    rows = [{"text": "One."}, {"text": "x" * 3000}, {"text": "Two."}]
    path = write_avro(tmp_path / "a.avro", rows, codec=codec, sync_interval=1)
    documents, rejects = read(path, max_document_bytes=1 << 10)
    assert texts(documents) == ["One.", "Two."]
    assert [r["reason"] for r in rejects] == ["damaged_stream"]
    assert "holds more than 2,048 bytes, which --max_document_bytes raises" in rejects[0]["detail"]


def write(kind, path, table):
    return write_parquet(path, table) if kind == "parquet" else write_arrow(path, table, rows=2)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_dates_that_python_has_not_are_no_names_and_no_languages(kind, tmp_path):
    far = pa.array([1 << 62, None, 0], pa.timestamp("us"))
    table = pa.table({"text": ["One.", "Two.", "Three."], "when": far})
    path = write(kind, tmp_path / "a", table)
    documents, rejects = read(path, id_field="when", format=kind)
    assert texts(documents) == ["One.", "Two.", "Three."]
    assert [d["source"] for d in documents] == [f"{path}@{i}" for i in range(3)]
    assert rejects == []
    documents, rejects = read(path, language_field="when", format=kind)
    assert texts(documents) == ["Two."]
    assert [(r["source"], r["reason"], r["detail"]) for r in rejects] == [
        (f"{path}@{i}", "field_not_a_string", "'when' is timestamp[us]") for i in (0, 2)
    ]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_sentences_that_are_dates_refuse_their_rows(kind, tmp_path):
    far = pa.array([[1 << 62], None, []], pa.list_(pa.timestamp("us")))
    documents, rejects = read(
        write(kind, tmp_path / "a", pa.table({"sentences": far})), format=kind
    )
    assert documents == []
    assert {r["reason"] for r in rejects} == {"field_not_a_string"}
    assert len(rejects) == 3


def dictionaries_of(path, *, deltas: bool, batches: int = 8):
    """A stream that has another dictionary, or more of it, before every batch; and its texts."""
    schema = pa.schema([("text", pa.dictionary(pa.int32(), pa.string()))])
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
    rows: list[str] = []
    every: list[str] = []
    with pa.ipc.new_stream(str(path), schema, options=options) as writer:
        for i in range(batches):
            rows = [*rows[: None if deltas else 0], f"Text {i}.", f"More {i}."]
            every += rows
            writer.write_batch(pa.record_batch([pa.array(rows).dictionary_encode()], schema=schema))
    return every


@pytest.mark.parametrize("deltas", [False, True])
@pytest.mark.parametrize("range_bytes", [None, 300])
def test_dictionaries_that_change(deltas, range_bytes, tmp_path):
    every = dictionaries_of(tmp_path / "a.arrow", deltas=deltas)
    documents, rejects = read(tmp_path / "a.arrow", range_bytes=range_bytes)
    assert (texts(documents), rejects) == (every, [])


def test_a_dictionary_that_was_replaced_is_not_kept(tmp_path, monkeypatch):
    dictionaries_of(tmp_path / "a.arrow", deltas=False)
    sizes = []
    decode = arrow_stream._decode

    def watched(preamble, *arguments):
        sizes.append(len(preamble))
        return decode(preamble, *arguments)

    monkeypatch.setattr(arrow_stream, "_decode", watched)
    read(tmp_path / "a.arrow")
    assert len(sizes) == 8
    assert max(sizes) == min(sizes)


def test_of_a_large_dictionary_each_entry_is_decoded_once(tmp_path, monkeypatch):
    every = [f"Text {i}." for i in range(5000)]
    table = pa.table({"text": pa.array(every).dictionary_encode()})
    path = write_arrow(tmp_path / "a.arrow", table, rows=5000)
    decoded = []
    original = columns._decoded

    def watched(*arguments):
        values = original(*arguments)
        decoded.append(len(values))
        return values

    monkeypatch.setattr(columns, "_decoded", watched)
    assert texts(read(path)[0]) == every
    assert len(decoded) > 1
    assert sum(decoded) == len(every)
