"""A text is the same text in any encoding, and a byte that is not of it costs one record."""

from __future__ import annotations

import codecs
import itertools
import json
import re
from importlib import metadata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ConfigError
from tests.unit.compressing import COMPRESS
from tests.unit.reading import read_rows
from transforms.formats import detection
from transforms.formats.encodings import decide_encoding, require_encoding, transcode
from transforms.formats.registry import versions_of_readers
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads

MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}

#: Texts that each encoding can spell.
TEXTS = {
    "iso8859-1": "Die Größe der Häuser ist für die Bürger natürlich überall gleich schön. ",
    "cp1252": "“L’été dernier”, dit-elle, “nous étions à Besançon — près de l’église.” ",
    "cp1251": "Все люди рождаются свободными и равными в своём достоинстве и правах. ",
    "koi8-r": "Они наделены разумом и совестью и должны поступать в духе братства. ",
    "shift_jis": "すべての人間は、生まれながらにして自由であり、尊厳と権利について平等である。",
    "euc_jp": "人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動する。",
    "gb18030": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系相对待。",
    "big5": "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係相對待。",
    "iso2022_jp": "すべての人間は、生まれながらにして自由であり、尊厳と権利について平等である。",
}


def sources(path, rows):
    return [row["source"].removeprefix(str(path)) for row in rows]


@pytest.mark.parametrize("packing", ["none", "gz", "zst"])
@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("form", ["jsonl", "text", "prose"])
def test_a_byte_order_mark_decides(tmp_path, name, form, packing):
    texts = [f"Größe {i}: 人人生而自由 \U0001f600" for i in range(2000)]
    if form == "jsonl":
        content = "".join(json.dumps({"text": t}, ensure_ascii=False) + "\r\n" for t in texts)
    else:
        content = ("\n\n" if form == "text" else "\n---\n").join(texts)
    separator = "---" if form == "prose" else None
    path = tmp_path / "a"
    path.write_bytes(COMPRESS[packing](MARKS[name] + content.encode(name)))
    for stripes in (1, 3):
        documents, rejects = read_rows(
            path,
            # Its first bytes tell, in any encoding, but of prose.
            format="prose" if form == "prose" else "auto",
            encoding="latin-1",  # the mark has the last word
            stripes=stripes,
            range_bytes=10_000,
            document_separator=separator,
        )
        assert rejects == []
        assert sorted(row["text"] for row in documents) == sorted(texts)


def test_offsets_are_those_of_the_text_as_utf_8(tmp_path):
    lines = [json.dumps({"text": f"Größe {i}"}, ensure_ascii=False) + "\n" for i in range(9)]
    found = []
    for name in ("utf-8", "utf-16-le"):
        path = tmp_path / name
        path.write_bytes(MARKS[name] + "".join(lines).encode(name))
        found.append(sources(path, read_rows(path, format="jsonl")[0]))
    assert found[0] == found[1]
    assert found[0][1] == f"@{3 + len(lines[0].encode())}"


def test_what_is_not_utf_8_goes_in_stripes_and_adds_up(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(("Ein Satz.\n\n" * 50_000).encode("utf-16"))
    files = list_inputs([str(path)], format="auto")
    assert (files[0].encoding, files[0].encoding_by) == ("utf-16-le", "its byte order mark")
    tasks = plan_reads(files, num_stripes=3, range_bytes=50_000)
    assert [task.shares[0].num_stripes for task in tasks] == [3, 3, 3]
    assert sum(task.weight for task in tasks) == path.stat().st_size
    assert len(read_rows(path, stripes=3, range_bytes=50_000)[0]) == 50_000


@pytest.mark.parametrize("name", [*TEXTS, "utf-7", "hz", "cp037", "utf-16", "utf-32-be"])
def test_every_encoding_of_pythons_is_read(tmp_path, name):
    text = TEXTS.get(name, "One (+) sentence: 5 > 4, äöü." if name == "cp037" else "One ~ (+).")
    lines = [json.dumps({"text": f"{i} {text}"}, ensure_ascii=False) for i in range(300)]
    path = tmp_path / "a.jsonl"
    content = "\n".join(lines)
    path.write_bytes(content.encode("utf-16-le" if name == "utf-16" else name))
    for stripes in (1, 2):
        documents, rejects = read_rows(path, encoding=name, stripes=stripes, range_bytes=3000)
        assert rejects == []
        assert sorted(row["text"] for row in documents) == sorted(
            f"{i} {text}".strip() for i in range(300)
        )


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["utf-16-le", "utf-32-be", "gb18030", "utf-7", "shift_jis", "iso2022_jp"]),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(1, 7),
)
def test_transcoding_is_the_same_for_any_pieces(name, text, step):
    # The escape of ISO 2022 is no character of it.
    data = text.replace("\x1b", "").encode(name, "ignore")
    chunks = [data[i : i + step] for i in range(0, len(data), step)]
    assert b"".join(transcode(chunks, name)) == data.decode(name).encode()


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["utf-16-le", "utf-32-be", "ascii", "gb18030", "cp1252", "shift_jis", "utf-7"]),
    st.binary(max_size=60),
)
def test_bytes_that_are_not_of_the_encoding_never_pass_for_text(name, data):
    content = b"".join(transcode([data], name))
    try:
        expected = data.decode(name).encode()
    except UnicodeError:  # or what no UTF-8 can spell
        with pytest.raises(UnicodeDecodeError):
            content.decode()
    else:
        assert content == expected


@pytest.mark.parametrize(
    ("name", "bad", "said"),
    [
        ("utf-16-le", b"\x00\xd8", "not utf-16-le: 0x00 in it"),  # half a character
        ("cp1252", b"\x81", "not cp1252: 0x81 in it"),
        ("ascii", "é".encode(), "not ascii: 0xc3 in it"),
        ("shift_jis", b"\x80", "not shift_jis: 0x80 in it"),
    ],
)
def test_a_byte_that_is_not_of_the_encoding_costs_its_record(tmp_path, name, bad, said):
    lines = [json.dumps({"text": f"Text {i}."}).encode(name) for i in range(9)]
    lines[4] = '{"text": "'.encode(name) + bad + '"}'.encode(name)
    path = tmp_path / "a.jsonl"
    path.write_bytes("\n".encode(name).join(lines))
    documents, rejects = read_rows(path, encoding=name)
    assert [row["text"] for row in documents] == [f"Text {i}." for i in range(9) if i != 4]
    (row,) = rejects
    assert row["reason"] == "undecodable"
    assert said in row["detail"]
    assert "--encoding" in row["detail"]
    assert row["excerpt"].startswith('{"text": "\N{REPLACEMENT CHARACTER}')


def test_half_a_unit_at_the_end_costs_the_last_record(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"text": "a"}\n{"text": "b"}'.encode("utf-16")[:-1])
    documents, rejects = read_rows(path)
    assert [row["text"] for row in documents] == ["a"]
    assert [row["reason"] for row in rejects] == ["undecodable"]


def test_a_damaged_stream_in_another_encoding_keeps_what_came_before(tmp_path):
    content = "".join(f"Satz {i}, größer.\n\n" for i in range(3000)).encode("utf-16")
    packed = COMPRESS["gz"](content)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(packed[: len(packed) // 2])
    whole, _ = read_rows(path)
    for stripes in (1, 3):
        documents, rejects = read_rows(path, stripes=stripes, range_bytes=2000)
        assert len(documents) > 1000
        found = {row["text"] for row in documents}
        assert found == {f"Satz {i}, größer." for i in range(len(documents))}
        assert found == {row["text"] for row in whole}
        (row,) = rejects
        assert row["reason"] == "damaged_stream"
        # Near the end of what came before, of the text as UTF-8.
        kept = sum(len(f"{text}\n\n".encode()) for text in found)
        assert kept <= int(row["source"].rpartition("@")[2]) < kept + 30


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("utf8x", "did you mean utf8?"),
        ("windows-1253x", "did you mean windows-1253?"),
        ("latin_one", "did you mean"),
        ("qqqqqqq", "give utf-8, latin-1, gb18030, ... or auto"),
        ("base64", "is no text encoding of Python's"),
        ("idna", "is no text encoding of Python's"),
        ("punycode", "is no text encoding of Python's"),
        ("undefined", "is no text encoding of Python's"),
        ("a\0b", "is no text encoding of Python's"),
    ],
)
def test_what_is_no_encoding_is_refused_in_a_line(name, remedy):
    with pytest.raises(ConfigError) as caught:
        require_encoding(name)
    assert caught.value.field == "encoding"
    assert remedy in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["rot13", "base64", "hex", "uu", "punycode", "mbcs", "zlib"])
def test_what_is_proposed_for_an_encoding_is_one(name):
    with pytest.raises(ConfigError) as caught:
        require_encoding(name)
    for proposed in re.findall(r"did you mean (.*)\?", str(caught.value)):
        require_encoding(proposed)


def test_what_guesses_is_named_with_its_version():
    assert versions_of_readers(["text", "jsonl"], encoding="latin-1") is None
    assert (
        versions_of_readers(["text"], encoding="auto") == f"chardet {metadata.version('chardet')}"
    )


def test_auto_without_a_detector_names_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "bert-data\[encodings\]"'):
        require_encoding("auto")


@pytest.mark.parametrize("name", TEXTS)
def test_auto_reads_what_was_written(tmp_path, name):
    pytest.importorskip("chardet")
    path = tmp_path / "a.txt"
    path.write_bytes(("".join([TEXTS[name]] * 5) + "\n\n").encode(name) * 20)
    (file,) = list_inputs([str(path)], format="auto", encoding="auto")
    assert file.encoding_by == "a guess from its bytes"
    documents, rejects = read_rows(path, encoding="auto")
    assert rejects == []
    assert {row["text"] for row in documents} == {(TEXTS[name] * 5).strip()}


@pytest.mark.parametrize("ascii_bytes", [0, 1_000, 300_001, 17 << 20])
@pytest.mark.parametrize("codec", COMPRESS)
def test_what_is_guessed_from_hangs_on_the_content_and_not_on_its_packing(
    tmp_path, monkeypatch, codec, ascii_bytes
):
    """Members of any size, which end chunks where they end; the first may be a few bytes."""
    seen = []

    def decide(sample: bytes, asked: str):
        seen.append(sample)
        return decide_encoding(sample, asked)

    monkeypatch.setattr(detection, "decide_encoding", decide)
    plain = b'{"a": 1}\n' * (ascii_bytes // 9 + 1)
    content = plain[:ascii_bytes] + "Größe und Höhe.\n".encode("cp1252") * 30_000
    (tmp_path / "plain").write_bytes(content)
    cuts = [0, 3, 3, 5_001, 290_003, 300_000, len(content)]
    parts = [content[a:b] for a, b in itertools.pairwise(cuts)]
    (tmp_path / "packed").write_bytes(b"".join(map(COMPRESS[codec], parts)))
    kinds = [
        detection.detect(str(path), path.stat().st_size, format="auto", encoding="auto")
        for path in (tmp_path / "plain", tmp_path / "packed")
    ]
    assert kinds[0][1:] == kinds[1][1:]
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]
    assert ("Größe".encode("cp1252") in seen[-1]) == (ascii_bytes < 16 << 20)


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"plain ASCII\n" * 1000, "utf-8"),
        ("Größe\n".encode() * 50_000, "utf-8"),  # the sample ends within a character, or not
        (b"a" + "ö".encode() * 200_000, "utf-8"),
        (b"\xff\xfe\xfd" * 10 + bytes(range(128, 160)) * 10, None),
        ("Привет, мир. ".encode("utf-16-le") * 100, "utf-16-le"),
        ((TEXTS["cp1251"] * 40).encode("cp1251"), "cp1251"),
        # Nothing but ASCII for longer than a sample is.
        (b"All of it is plain.\n" * 40_000 + (TEXTS["cp1251"] * 40).encode("cp1251"), "cp1251"),
    ],
)
def test_auto_is_utf_8_wherever_it_can_be(tmp_path, content, encoding):
    pytest.importorskip("chardet")
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    (file,) = list_inputs([str(path)], format="auto", encoding="auto")
    assert file.encoding_by
    if encoding is not None:
        assert file.encoding == encoding


#: Language, of the files in shared/data; the encodings that it is written in.
REAL = {
    "handbook.de-DE.jsonl": ["cp1252"],
    "udhr/fra.txt": ["cp1252", "iso8859-1"],
    "handbook.ru-RU.jsonl": ["cp1251", "koi8-r"],
    "handbook.ja-JP.jsonl": ["shift_jis", "euc_jp"],
    "handbook.zh-CN.jsonl": ["gb18030"],
    "udhr/cmn_hant.txt": ["big5"],
}


@pytest.mark.parametrize(("name", "encoding"), [(n, e) for n, each in REAL.items() for e in each])
def test_auto_on_real_texts(shared, name, encoding):
    pytest.importorskip("chardet")
    text = (shared / "data" / "corpora" / name).read_text(encoding="utf-8")
    if name.endswith(".jsonl"):
        text = "\n".join(json.loads(line)["text"] for line in text.splitlines())
    data = text.encode(encoding, "ignore")[: 256 << 10]
    found = decide_encoding(data, "auto")
    assert data.decode(found.name, "ignore") == data.decode(encoding, "ignore")
