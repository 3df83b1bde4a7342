"""Tables: every row once, whatever the ranges; strings however stored; damage told, the rest read."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import ConfigError, MissingColumnError
from tests.unit.remote import MemoryFileSystem
from tests.unit.tables import CODECS, read, texts, write_arrow, write_avro, write_parquet
from transforms import progress
from transforms.inputs import list_inputs
from transforms.read_tasks import ReadTask, plan_reads
from transforms.reader import read_task

TEXTS = [f"Document {i}, é.\nIts length: {'x' * (i * 37 % 400)}." for i in range(200)]
TABLE = pa.table({"text": TEXTS, "other": list(range(200))})


def write(kind, path, table=TABLE):
    if kind == "parquet":
        return write_parquet(path / "a.parquet", table, row_group_size=7)
    if kind == "arrow":
        return write_arrow(path / "a.arrow", table, rows=7)
    if kind == "feather":
        return write_arrow(path / "a.arrow", table, rows=7, file_format=True)
    return write_avro(path / "a.avro", table.to_pylist(), codec=kind)


KINDS = ("parquet", "arrow", "feather", *CODECS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("range_bytes", [None, 10_000, 1_000, 333])
def test_every_row_once_whatever_the_ranges(kind, range_bytes, tmp_path):
    path = write(kind, tmp_path)
    documents, rejects = read(path, range_bytes=range_bytes)
    assert texts(documents) == TEXTS
    assert rejects == []
    whole, _ = read(path)
    assert [d["source"] for d in documents] == [d["source"] for d in whole]
    assert len({d["source"] for d in documents}) == 200


@pytest.mark.parametrize("kind", ["parquet", "arrow", "snappy"])
def test_a_group_belongs_to_one_of_two_ranges_wherever_the_cut(kind, tmp_path):
    """Cut at every byte: the two halves hold everything, once."""
    path = write(kind, tmp_path, TABLE.slice(0, 20))
    size = path.stat().st_size
    files = list_inputs([str(path)], format="auto")
    (whole,) = plan_reads(files, num_stripes=1, range_bytes=None)[0].shares
    halves = set()
    for cut in range(0, size + 1, 1 if kind == "snappy" else 7):
        found = []
        for start, end in ((0, cut), (cut, size)):
            share = replace(whole, start=start, end=end)
            counted = [b for _, b in read_task(ReadTask(0, (share,)))]
            found.append([text for batch in counted for text in batch["text"].to_pylist()])
        assert found[0] + found[1] == TEXTS[:20], cut
        halves.add(len(found[0]))
    assert len(halves) > 2


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("container", ["parquet", "arrow"])
def test_strings_however_they_are_stored(kind, container, tmp_path):
    values = ["One.", None, "Two, é.", "One.", " \n"]
    table = pa.table({"text": pa.array(values).cast(kind), "lang": pa.array(["de"] * 5).cast(kind)})
    path = write(container, tmp_path, table)
    documents, rejects = read(path, id_field=None)
    assert texts(documents) == ["One.", "Two, é.", "One."]
    assert [d["language"] for d in documents] == ["de"] * 3
    assert [d["source"] for d in documents] == [f"{path}@{i}" for i in (0, 2, 3)]
    assert [(r["source"], r["reason"], r["detail"]) for r in rejects] == [
        (f"{path}@1", "field_not_a_string", "'text' is null"),
        (f"{path}@4", "empty_document", "'text' is blank"),
    ]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "deflate"])
def test_nested_fields_and_names_with_dots(kind, tmp_path):
    rows: list[dict] = [
        {"meta": {"text": "Inner.", "name": "a", "n": 1}, "text": "Outer."},
        {"meta": {"text": None, "name": "b", "n": 2}, "text": "Outer."},
        {"meta": None, "text": "Outer."},
    ]
    fields = [
        {"name": "text", "type": "string"},
        {
            "name": "meta",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Meta",
                    "fields": [
                        {"name": "text", "type": ["null", "string"]},
                        {"name": "name", "type": "string"},
                        {"name": "n", "type": "long"},
                    ],
                },
            ],
        },
    ]
    if kind == "deflate":
        path = write_avro(tmp_path / "a.avro", rows, fields=fields)
    else:
        path = write(kind, tmp_path, pa.Table.from_pylist(rows))
    documents, rejects = read(path, text_field="meta.text", id_field="meta.n")
    assert texts(documents) == ["Inner."]
    assert documents[0]["source"] == f"{path}#1"
    assert [r["reason"] for r in rejects] == ["field_not_a_string", "missing_field"]
    if kind != "deflate":  # Avro's names have no dots
        dotted = pa.Table.from_pylist([{**rows[0], "meta.text": "Dotted."}])
        path = write(kind, tmp_path, dotted)
        assert texts(read(path, text_field="meta.text")[0]) == ["Dotted."]
        assert texts(read(path)[0]) == ["Outer."]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "deflate"])
def test_a_file_without_the_field_is_one_line_that_lists_what_there_is(kind, tmp_path):
    path = write(kind, tmp_path)
    with pytest.raises(MissingColumnError) as caught:
        read(path, text_field="content")
    names = "'text'" if kind == "deflate" else "'text', 'other'"
    assert f"{path} has no " in str(caught.value)
    assert f"'content'; there is {names}; say which holds the text, with --text_field" in str(
        caught.value
    )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_column_of_another_type_refuses_its_rows(kind, tmp_path):
    documents, rejects = read(write(kind, tmp_path), text_field="other")
    assert documents == []
    assert {(r["reason"], r["detail"]) for r in rejects} == {
        ("field_not_a_string", "'other' is int64")
    }
    assert len(rejects) == 200
    bad_language = pa.table({"text": ["One.", "Two."], "lang": [1, None]})
    documents, rejects = read(write(kind, tmp_path, bad_language))
    assert texts(documents) == ["Two."]
    assert [(r["reason"], r["detail"]) for r in rejects] == [
        ("field_not_a_string", "'lang' is int")
    ]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "deflate"])
def test_too_long_and_not_utf8(kind, tmp_path):
    values = [b"One.", "é".encode() * 50, b"bad \xff", b"Two."]
    if kind == "deflate":
        path = write_avro(
            tmp_path / "a.avro", [{"text": "@" * len(v)} for v in values], codec="null"
        )
        data = path.read_bytes()
        for value in values:
            data = data.replace(b"@" * len(value), value, 1)
        path.write_bytes(data)
    else:
        path = write(kind, tmp_path, pa.table({"text": pa.array(values).view(pa.string())}))
    documents, rejects = read(path, max_document_bytes=99)
    assert texts(documents) == ["One.", "Two."]
    assert [r["reason"] for r in rejects] == ["too_long", "undecodable"]
    assert "more than 99 bytes" in rejects[0]["detail"]
    assert len(read(path, max_document_bytes=100)[1]) == 1


@pytest.mark.parametrize("kind", ["parquet", "arrow", "null", "zstandard"])
@pytest.mark.parametrize("range_bytes", [None, 500])
def test_a_file_that_is_cut_short(kind, range_bytes, tmp_path):
    path = write(kind, tmp_path)
    data = path.read_bytes()
    for keep in (len(data) * 2 // 3, 40, 3):
        path.write_bytes(data[:keep])
        documents, rejects = read(path, range_bytes=range_bytes)
        assert [r["reason"] for r in rejects] == ["damaged_stream"], (keep, rejects)
        assert texts(documents) == TEXTS[: len(documents)]
        if keep > 40:
            assert bool(documents) == (kind != "parquet")  # whose index is at the end


@pytest.mark.parametrize("kind", ["parquet", "arrow", *CODECS])
def test_bytes_that_are_wrong_cost_what_is_around_them(kind, tmp_path):
    """A stretch of the file is overwritten, wherever: no crash, and no text that nobody wrote."""
    if kind == "parquet":
        path = write_parquet(
            tmp_path / "a.parquet", TABLE, row_group_size=7, write_page_checksum=True
        )
    else:
        path = write(kind, tmp_path)
    data = path.read_bytes()
    wanted = set(TEXTS)
    for at in range(0, len(data) - 30, len(data) // 40):
        path.write_bytes(data[:at] + b"\x7e" * 30 + data[at + 30 :])
        documents, rejects = read(path)
        parts, part_rejects = read(path, range_bytes=700)
        assert texts(parts) == texts(documents)
        assert [r["source"] for r in part_rejects] == [r["source"] for r in rejects]
        if kind in ("parquet", "snappy", "bzip2", "xz"):  # the others have no checksums
            assert set(texts(documents)) <= wanted, at
        middle = len(data) // 4 < at < len(data) * 3 // 4
        if middle and kind not in ("arrow", "parquet"):
            assert len(documents) > 150, at
            if kind not in ("null", "zstandard"):
                assert {r["reason"] for r in rejects} == {"damaged_stream"}


def test_avro_goes_on_behind_a_damaged_block(tmp_path):
    path = write_avro(tmp_path / "a.avro", [{"text": text} for text in TEXTS], codec="snappy")
    data = bytearray(path.read_bytes())
    marker = data[data.index(bytes(range(200, 216))) :][:16]
    begins = []
    at = data.find(marker)
    while at >= 0:
        begins.append(at + 16)
        at = data.find(marker, at + 1)
    data[begins[5] + 10] ^= 0xFF
    data[begins[9] - 1] ^= 0xFF  # a marker: the block after it cannot be found
    path.write_bytes(data)
    lost = {}
    for range_bytes in (None, 100):
        documents, rejects = read(path, range_bytes=range_bytes)
        lost[range_bytes] = [text for text in TEXTS if text not in set(texts(documents))]
        assert texts(documents) == [text for text in TEXTS if text not in lost[range_bytes]]
        assert [r["reason"] for r in rejects] == ["damaged_stream"] * 2
        assert f"the block at byte {begins[5]:,} is damaged" in rejects[0]["detail"]
        assert f"read on from byte {begins[6]:,}" in rejects[0]["detail"]
        assert f"read on from byte {begins[10]:,}" in rejects[1]["detail"]
    assert lost[None] == lost[100]
    assert 2 < len(lost[None]) < 30


def test_parquet_goes_on_behind_a_damaged_row_group(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", TABLE, row_group_size=20, write_page_checksum=True)
    column = pq.read_metadata(path).row_group(3).column(0)
    data = bytearray(path.read_bytes())
    data[column.dictionary_page_offset + column.total_compressed_size - 3] ^= 0xFF
    path.write_bytes(data)
    documents, rejects = read(path)
    assert texts(documents) == TEXTS[:60] + TEXTS[80:]
    assert [(r["source"], r["reason"]) for r in rejects] == [(f"{path}@60", "damaged_stream")]
    assert "row group 3 is lost from row 60 of the file on, up to 80" in rejects[0]["detail"]


def test_other_files_called_so_are_damaged(tmp_path):
    for ending in ("parquet", "avro", "arrow"):
        path = tmp_path / f"a.{ending}"
        path.write_bytes(b"neither of them\n" * 1000)
        documents, rejects = read(path, range_bytes=1000)
        assert documents == []
        assert [r["reason"] for r in rejects] == ["damaged_stream"]


def test_a_file_of_an_unknown_codec_is_a_reject(tmp_path):
    path = write_avro(tmp_path / "a.avro", [{"text": "One."}] * 1000, codec="deflate")
    path.write_bytes(path.read_bytes().replace(b"deflate", b"deflat9"))
    documents, (reject,) = read(path, range_bytes=100)
    assert documents == []
    assert reject["reason"] == "damaged_stream"
    assert "avro: packed with 'deflat9'; write it again with one of null, def" in reject["detail"]


@pytest.mark.parametrize("kind", KINDS)
def test_known_by_the_first_bytes_too(kind, tmp_path):
    path = write(kind, tmp_path)
    bare = path.rename(tmp_path / "data")
    assert texts(read(bare)[0]) == TEXTS


@pytest.mark.parametrize("kind", ["parquet", "arrow", "deflate"])
def test_what_is_packed_twice_or_read_as_text_is_refused(kind, tmp_path):
    path = write(kind, tmp_path)
    with pytest.raises(ConfigError, match="going by its name, and not jsonl; say --format auto"):
        read(path, format="jsonl")
    packed = tmp_path / f"{path.name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(ConfigError, match="in gz: unpack it"):
        read(packed)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "deflate"])
def test_on_another_file_system(kind, tmp_path, monkeypatch):
    path = write(kind, tmp_path)
    monkeypatch.setattr(MemoryFileSystem, "files", {f"memory://b/{path.name}": path.read_bytes()})
    documents, rejects = read("memory://b", range_bytes=1000)
    assert texts(documents) == TEXTS
    assert rejects == []


@pytest.mark.parametrize("kind", ["parquet", "arrow", "deflate"])
def test_progress_adds_up_to_the_file(kind, tmp_path):
    path = write(kind, tmp_path)
    seen: list[dict[str, int]] = []
    progress.set_listener(lambda **amounts: seen.append(amounts))
    try:
        read(path, range_bytes=3_000)
    finally:
        progress.set_listener(None)
    assert sum(each["raw_bytes"] for each in seen) == path.stat().st_size
    assert sum(each["documents"] for each in seen) == 200
    assert all(amount >= 0 for each in seen for amount in each.values())


def test_a_large_row_group_is_never_held_whole(tmp_path):
    rows = [os.urandom(20_000).hex() for _ in range(1500)]  # 60 MB
    path = write_parquet(
        tmp_path / "a.parquet",
        pa.table({"text": rows}),
        compression="none",
        use_dictionary=False,
        data_page_size=1 << 20,
        write_batch_size=10,  # a page is no less
    )
    assert pq.read_metadata(path).num_row_groups == 1
    del rows
    (share,) = plan_reads(
        list_inputs([str(path)], format="auto"), num_stripes=1, range_bytes=1 << 30
    )
    before = pa.total_allocated_bytes()
    most = count = 0
    tracemalloc.start()
    try:
        for _, batch in read_task(share):
            most = max(most, pa.total_allocated_bytes() - before)
            count += batch.num_rows
        pythons = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 1500
    assert most < 25 << 20
    assert pythons < 50 << 20


def test_damaged_metadata_of_columns_end_no_process(tmp_path):
    """pyarrow throws where it does not catch: metadata of a column may not be asked for."""
    path = write_parquet(tmp_path / "a.parquet", TABLE, row_group_size=100)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    counts: Counter[str] = Counter()
    for at in range(footer, len(data) - 8):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        try:
            documents, rejects = read(path)
        except MissingColumnError:  # the column has another name
            continue
        counts["documents"] += len(documents)
        counts["rejects"] += len(rejects)
    assert counts["documents"] > 10 * len(TEXTS)
    assert counts["rejects"] > 10


def test_indices_that_lead_out_of_a_dictionary_are_damage(tmp_path):
    column = pa.array(TEXTS).dictionary_encode()
    path = write_arrow(tmp_path / "a.arrow", pa.table({"text": column}), rows=50)
    data = path.read_bytes()
    indices = np.arange(50, 100, dtype=np.int32)
    at = data.index(indices.tobytes())
    for wrong in (-1, 200):
        indices[20] = wrong
        path.write_bytes(data[:at] + indices.tobytes() + data[at + indices.nbytes :])
        documents, rejects = read(path)
        assert texts(documents) == TEXTS[:50] + TEXTS[100:]
        assert [(r["source"], r["reason"]) for r in rejects] == [(f"{path}@50", "damaged_stream")]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_offsets_that_lead_out_of_a_batch_are_damage(kind, tmp_path):
    table = pa.table({"text": pa.array(TEXTS).cast(kind)})
    path = write_arrow(tmp_path / "a.arrow", table, rows=50)
    data = path.read_bytes()
    dtype = np.int32 if kind == pa.string() else np.int64
    ends = np.cumsum([0, *(len(text.encode()) for text in TEXTS[50:100])]).astype(dtype)
    at = data.index(ends.tobytes())
    ends[20] = 1 << 30
    path.write_bytes(data[:at] + ends.tobytes() + data[at + ends.nbytes :])
    documents, rejects = read(path)
    assert texts(documents) == TEXTS[:50] + TEXTS[100:]
    assert [(r["source"], r["reason"]) for r in rejects] == [(f"{path}@50", "damaged_stream")]


def test_only_the_columns_that_are_asked_for_are_read(tmp_path):
    """The other column's bytes are destroyed, and nobody notices."""
    path = write_parquet(tmp_path / "a.parquet", TABLE, row_group_size=100, compression="none")
    data = bytearray(path.read_bytes())
    for group in range(2):
        column = pq.read_metadata(path).row_group(group).column(1)
        begin = column.dictionary_page_offset or column.data_page_offset
        data[begin : begin + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(data)
    documents, rejects = read(path)
    assert texts(documents) == TEXTS
    assert rejects == []
    assert read(path, text_field="other")[1][0]["reason"] == "damaged_stream"
