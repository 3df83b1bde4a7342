"""Of an export the articles are read, each once, and a broken page costs that page."""

from __future__ import annotations

import bz2
import contextlib
import itertools
import tracemalloc
from pathlib import Path

import pytest

from schemas.errors import RecordError
from tests.unit.compressing import COMPRESS
from tests.unit.reading import read_rows
from tests.unit.test_documents import read, reasons
from tests.unit.wiki_exports import export, page
from transforms.formats.mediawiki import MediaWiki, read_page
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads

PAGES = [
    page(
        f"'''Article {i}''' is a page about {i} [[stone|stones]]. Its café is 漢字 & 😀.",
        title=f"T {i}",
    )
    for i in range(40)
]


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def names(documents) -> list[str]:
    return [document["source"].partition("#")[2] for document in documents]


def test_articles_are_read_and_other_pages_are_not(tmp_path):
    pages = [
        page("It is an article.", title="A"),
        page("It is talk.", title="Talk:A", inside="<ns>1</ns>"),
        page("It is a file.", title="File:A", inside="<ns>6</ns>"),
        page("It moved.", title="B", inside='<ns>0</ns><redirect title="A" />'),
        page("#REDIRECT [[A]]\n\nIt moved.", title="C"),
        page(" #пренасочване [[A]]\n\nIt moved.", title="D"),
        page("a { color: red }", title="E", more="<model>css</model>"),
        page("return 1", title="F", more="<model>Scribunto</model>"),
        page("It is an article too.", title="Alien: a film", more="<model>wikitext</model>"),
        page("{{only|a template}}\n[[Category:X]]", title="G"),
        page("", title="H"),
    ]
    path = written(tmp_path / "a.xml", export(pages))
    documents, rejects = read(path)
    assert [(d["text"], d["language"]) for d in documents] == [
        ("It is an article.", "en"),
        ("It is an article too.", "en"),
    ]
    assert names(documents) == ["A", "Alien: a film"]
    assert rejects == []


def test_namespaces_of_old_exports_are_those_of_the_titles(tmp_path):
    titles = [
        "A",
        "Talk:A",
        "нещо:A",
        "Категория:A",
        "User talk:B",
        "Portal:C",
        "Terminator: D",
        ":E",
    ]
    pages = [page("It is a text.", title=title, inside="") for title in titles]
    documents, _ = read(written(tmp_path / "a.xml", export(pages)))
    assert names(documents) == ["A", "Terminator: D", ":E"]


def test_links_that_are_no_text_have_the_names_of_the_wiki(tmp_path):
    text = "[[Файл:A.tga|мини|b]][[Категория:C]]Това е [[D|статия]]."
    documents, _ = read(written(tmp_path / "a.xml", export([page(text)], language="bg")))
    assert [(d["text"], d["language"]) for d in documents] == [("Това е статия.", "bg")]
    (document,), _ = read(written(tmp_path / "a.xml", export([page(text)])), language_field=None)
    assert document["language"] is None


def test_of_several_revisions_the_last_is_read():
    data = page("Old.", more="<model>css</model>").replace(
        "  </page>",
        "<revision><text>New.</text><content><text>a slot</text></content></revision></page>",
    )
    found = read_page(data.strip().encode())
    assert (found.text, found.model) == ("New.", "wikitext")


@pytest.mark.parametrize("kind", ["none", "gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(("stripes", "range_bytes"), [(1, None), (3, 1000), (2, 57)])
def test_the_same_documents_however_it_is_packed_and_shared_out(
    tmp_path, kind, encoding, stripes, range_bytes
):
    expected, _ = read(written(tmp_path / "plain.xml", export(PAGES)))
    assert len(expected) == 40
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    data = mark + export(PAGES, prologue='<?xml version="1.0"?>\n').encode(encoding)
    path = written(tmp_path / "export", COMPRESS[kind](data))
    found, rejects = read(path, stripes=stripes, range_bytes=range_bytes)
    assert rejects == []
    key = lambda d: (d["text"], d["source"].partition("#")[2], d["language"])  # noqa: E731
    assert sorted(map(key, found)) == sorted(map(key, expected))


def test_a_file_of_many_bz2_streams_is_shared_out(tmp_path):
    parts = [PAGES[i : i + 3] for i in range(0, 40, 3)]
    head, end = export([]).split("</mediawiki>")
    members = [head, *map("".join, parts), "</mediawiki>" + end]
    path = written(tmp_path / "m.xml.bz2", b"".join(bz2.compress(m.encode()) for m in members))
    plain = written(tmp_path / "plain.xml", export(PAGES))
    tasks = plan_reads(list_inputs([str(path)], format="auto"), num_stripes=4, range_bytes=900)
    assert len(tasks) == 4
    found, rejects = read(path, stripes=4, range_bytes=900)
    assert rejects == []
    assert sorted(d["text"] for d in found) == sorted(d["text"] for d in read(plain)[0])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_only_utf8_is_entered_in_the_middle(tmp_path, encoding):
    path = written(tmp_path / "a.xml", export(PAGES).encode(encoding))
    for form in ("auto", "mediawiki"):
        (file,) = list_inputs([str(path)], format=form)
        assert file.format == "mediawiki"
        tasks = plan_reads([file], num_stripes=3, range_bytes=1000)
        stripes = {share.num_stripes for task in tasks for share in task.shares}
        assert stripes == ({1} if encoding == "utf-8" else {3})
        assert sum(task.weight for task in tasks) == path.stat().st_size


@pytest.mark.parametrize(
    ("begins", "found"),
    [
        ("<mediawiki xmlns='x'>", "mediawiki"),
        ("\ufeff<?xml version='1.0' encoding='utf-8'?>\n<!-- a > b -->\n<mediawiki>", "mediawiki"),
        ("\n <!DOCTYPE m [<!ENTITY a 'b'>]><mediawiki\n", "mediawiki"),
        ("<mediawikis>", "text"),
        ("<html><mediawiki>", "html"),
        ("A text about <mediawiki>", "text"),
    ],
)
def test_it_is_known_by_its_beginning_whatever_its_name(tmp_path, begins, found):
    for name, encoding in itertools.product(["a.xml", "a.xml-p1p9.bz2", "a"], ["utf-8", "utf-16"]):
        text = begins.removeprefix("\ufeff") if encoding == "utf-16" else begins
        compress = COMPRESS["bz2" if name.endswith("bz2") else "none"]
        path = written(tmp_path / name, compress(text.encode(encoding)))
        (file,) = list_inputs([str(path)], format="auto")
        assert file.format == found, (name, encoding)


# What is broken


def offset_of(text: str, title: str) -> int:
    """Where the page begins."""
    return text.encode().rindex(b"<page>", 0, text.encode().index(f"<title>{title}<".encode()))


@pytest.mark.parametrize(
    ("broken", "reason", "detail"),
    [
        (PAGES[3].replace("</title>", ""), "broken_xml", "mismatched tag"),
        (PAGES[3].replace("</page>", ""), "broken_xml", "no element found"),
        (PAGES[3].replace("stones", "&unknown;"), "broken_xml", "undefined entity"),
        (PAGES[3].replace("stones", "\x01"), "broken_xml", "not well-formed"),
        (
            PAGES[3].replace("stones", "<!DOCTYPE x [<!ENTITY a 'b'>]>&a;"),
            "broken_xml",
            "not well-formed",
        ),
        (PAGES[3].replace("<title>T 3</title>", "<id>T 3</id>"), "broken_xml", "no <title>"),
        (PAGES[3].replace("stones", "<a>" * 40 + "</a>" * 40), "broken_xml", "more than 32 levels"),
        (PAGES[3].replace("stones", "\udcff"), "undecodable", "not UTF-8: 0xff"),
    ],
)
def test_a_broken_page_costs_that_page(tmp_path, broken, reason, detail):
    text = export([*PAGES[:3], broken, *PAGES[4:]])
    path = written(tmp_path / "a.xml", text.encode(errors="surrogateescape"))
    for stripes, range_bytes in ((1, None), (1, 333)):
        documents, rejects = read(path, stripes=stripes, range_bytes=range_bytes)
        assert names(documents) == [f"T {i}" for i in range(40) if i != 3]
        assert reasons(rejects) == [(offset_of(export(PAGES), "T 3"), reason)]
        assert detail in rejects[0]["detail"]
        assert rejects[0]["excerpt"].startswith("<page>")


def test_half_a_character_of_utf16_costs_its_page(tmp_path):
    data = bytearray(b"\xff\xfe" + export(PAGES).encode("utf-16-le"))
    at = data.index("T 7".encode("utf-16-le"))
    data[at + 2 : at + 4] = b"\x3d\xd8"
    documents, rejects = read(written(tmp_path / "a.xml", bytes(data)))
    assert names(documents) == [f"T {i}" for i in range(40) if i != 7]
    assert [row["reason"] for row in rejects] == ["undecodable"]


def test_a_file_that_is_cut_short(tmp_path):
    data = export(PAGES).encode()
    documents, rejects = read(written(tmp_path / "a.xml", data[: data.index(b"<title>T 7") + 5]))
    assert names(documents) == [f"T {i}" for i in range(7)]
    assert [row["reason"] for row in rejects] == ["broken_xml"]
    packed = bz2.compress(data[:4000]) + bz2.compress(data[4000:])[:-20]
    documents, rejects = read(written(tmp_path / "b.xml.bz2", packed))
    assert names(documents) == [f"T {i}" for i in range(data[:4000].count(b"</page>"))]
    assert [row["reason"] for row in rejects] == ["damaged_stream"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ending", ["", ".gz", ".bz2"])
def test_a_file_that_is_no_export_is_one_reject(tmp_path, ending, mark):
    data = mark + b"".join(b'{"text": "A line of JSON, number %d."}\n' % i for i in range(5000))
    packed = COMPRESS[ending.removeprefix(".") or "none"](data)
    path = written(tmp_path / f"a.jsonl{ending}", packed)
    for stripes, range_bytes in ((1, None), (1, 9000), (3, 900)):
        documents, rejects = read_rows(
            path, format="mediawiki", stripes=stripes, range_bytes=range_bytes
        )
        assert documents == []
        (row,) = rejects
        assert row["source"] == f"{path}@{len(mark)}"
        assert row["reason"] == "broken_xml"
        assert "is it an export of MediaWiki?" in row["detail"]
        assert row["excerpt"].startswith('{"text": "A line')


@pytest.mark.parametrize("begin", ["<mediawiki", "<page>", "</title>"])
def test_a_part_of_an_export_is_read(tmp_path, begin):
    text = export(PAGES)
    path = written(tmp_path / "a.xml", text[text.index(begin) :])
    documents, rejects = read_rows(path, format="mediawiki")
    assert len(documents) >= len(PAGES) - 1
    assert rejects == []
    path = written(tmp_path / "b.xml", export([]))
    assert read_rows(path, format="mediawiki") == ([], [])


def test_a_page_that_is_too_long(tmp_path):
    long = page("A long story. " * 500, title="long")
    text = export([*PAGES[:3], long, *PAGES[3:]])
    documents, rejects = read(written(tmp_path / "a.xml", text), max_document_bytes=5000)
    assert len(documents) == 40
    assert reasons(rejects) == [(offset_of(text, "long"), "too_long")]
    assert "all of its history" in rejects[0]["detail"]


# What is meant to do harm


def test_entities_are_not_expanded(tmp_path):
    laughs = "".join(f'<!ENTITY lol{n} "{f"&lol{n - 1};" * 10}">\n' for n in range(1, 10))
    prologue = f'<?xml version="1.0"?>\n<!DOCTYPE lolz [<!ENTITY lol0 "lol">\n{laughs}]>\n'
    bomb = page("LOL", title="bomb").replace("LOL", "&lol9;")
    outside = page("OUT", title="outside").replace("OUT", "&file;")
    path = written(
        tmp_path / "a.xml", export([PAGES[0], bomb, outside, PAGES[1]], prologue=prologue)
    )
    tracemalloc.start()
    documents, rejects = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert names(documents) == ["T 0", "T 1"]
    assert [row["reason"] for row in rejects] == ["broken_xml"] * 2
    assert peak < 20 << 20


def test_entities_of_the_head_are_text(tmp_path):
    head = b'<mediawiki xml:lang="&lol;"><namespace key="6">&amp;lol9;</namespace><page>'
    form = MediaWiki().with_head(head)
    assert form.language is None
    assert form.prefixes.drop("&LOL9;:x")


@pytest.mark.parametrize(
    "inside",
    [
        "<a>" * 200_000,
        '<a b="' + "x" * 100_000 + '"/>',
        "<a " + "b='' " * 100_000,
        "<!--" * 100_000,
    ],
)
def test_xml_that_nests_or_repeats_is_refused_or_read(inside):
    data = PAGES[0].strip().replace("<ns>", inside + "<ns>").encode()
    with contextlib.suppress(RecordError):
        assert read_page(data).title == "T 0"
