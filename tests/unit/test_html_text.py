"""Web pages: what their bytes are, what their text is, and what would take for ever."""

from __future__ import annotations

import time

import pytest

from schemas.errors import RecordError
from tests.web_archives import NEWS, page, response
from transforms.formats.html_text import decode_page, main_text
from transforms.inputs import list_inputs
from transforms.language_codes import one_language
from transforms.read_tasks import plan_reads
from transforms.reader import ReadOptions, read_task

pytest.importorskip("resiliparse")

SAID = {
    "iso-8859-1": "Les élèves étaient déjà partis à la fête où l'on dansait, très gaiement. ",
    "windows-1251": "Ученики уже ушли на праздник, где весело танцевали до самого утра. ",
    "shift_jis": "生徒たちはもう祭りに出かけて、朝まで楽しく踊っていました。これは文章です。",
    "iso-2022-jp": "生徒たちはもう祭りに出かけて、朝まで楽しく踊っていました。これは文章です。",
    "koi8-r": "Ученики уже ушли на праздник, где весело танцевали до самого утра. ",
    "gb2312": "学生们已经去参加节日了，他们在那里愉快地跳舞直到早晨。这是一段文字。",
    "euc-kr": "학생들은 이미 축제에 가서 아침까지 즐겁게 춤을 추었습니다. 이것은 글입니다. ",
    "utf-8": "Žáci už odešli na slavnost, где весело танцевали 朝まで踊って. ",
}


def read(path):
    found: dict[str, list] = {"documents": [], "rejects": []}
    for task in plan_reads(
        list_inputs([str(path)], format="auto"), num_stripes=1, range_bytes=None
    ):
        for kind, batch in read_task(task, options=ReadOptions()):
            found[kind] += batch.to_pylist()
    return found["documents"], found["rejects"]


@pytest.mark.parametrize("how", ["header", "meta", "http-equiv", "detection"])
@pytest.mark.parametrize("encoding", SAID)
def test_encodings_are_known_by_header_meta_and_detection(tmp_path, encoding, how):
    lines = [(SAID[encoding] * 6).strip()] * 3
    head = {
        "meta": f'<meta name=x content=y><META charset="{encoding}">',
        "http-equiv": f"<meta http-equiv=Content-Type content='text/html;charset={encoding}'>",
    }.get(how, "")
    body = page(lines, head=head).encode(encoding)
    media = f"text/html; charset={encoding.upper()}" if how == "header" else "text/html"
    path = tmp_path / "a.warc"
    path.write_bytes(response(body, media=media))
    (document,), rejects = read(path)
    assert document["text"] == "\n".join(lines)
    assert rejects == []


def test_a_name_that_the_bytes_contradict_is_not_believed():
    text = page([SAID["windows-1251"] * 9])
    wrong = "text/html; charset=utf-8"
    assert decode_page(text.encode("cp1251"), content_type=wrong) == text
    nobody_knows = "text/html; charset=x-nothing"
    assert decode_page(text.encode(), content_type=nobody_knows) == text


def test_an_encoding_that_python_does_not_know_is_no_end(monkeypatch):
    monkeypatch.setattr("resiliparse.parse.encoding.detect_encoding", lambda *_, **__: "VISCII")
    assert decode_page(b"<p>caf\xe9") == "<p>caf�"


def test_a_single_wrong_byte_does_not_change_the_encoding():
    body = page([SAID["utf-8"] * 9]).encode().replace(b"</p>", b"\xff</p>", 1)
    assert decode_page(body, content_type="text/html; charset=utf-8").count("�") == 1


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_decides(encoding):
    text = page([NEWS * 3])
    assert decode_page(text.encode(encoding), content_type="text/html; charset=latin1") == text


def test_an_xml_declaration_names_the_encoding():
    text = '<?xml version="1.0" encoding="windows-1251"?>' + page([SAID["windows-1251"] * 3])
    assert decode_page(text.encode("cp1251")) == text


def test_a_paragraph_is_a_line_and_menus_are_left_out():
    text, language = main_text(
        page(["One\n  paragraph, " + NEWS, "Two & three, " + NEWS], lang="nl")
    )
    assert text == f"One paragraph, {NEWS.strip()}\nTwo & three, {NEWS.strip()}"
    assert language == "nl"
    assert main_text("") == ("", None)
    assert main_text("<p>only</p>")[0] == "only"


@pytest.mark.parametrize("name", ["a.html", "a.HTM", "a.xhtml", "a.html.gz", "page"])
def test_a_file_is_a_document(tmp_path, name):
    import gzip

    raw = page([NEWS * 3, NEWS * 2]).encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    (document,), rejects = read(tmp_path / name)
    assert document["text"] == f"{(NEWS * 3).strip()}\n{(NEWS * 2).strip()}"
    assert rejects == []


@pytest.mark.parametrize("raw", [b"", b"<html><body><nav><a href=x>menu</a></nav></body></html>"])
def test_a_file_without_text_is_refused(tmp_path, raw):
    (tmp_path / "a.html").write_bytes(raw)
    (tmp_path / "b.html").write_bytes(page([NEWS]).encode())
    documents, rejects = read(tmp_path)
    assert len(documents) == 1
    assert [r["reason"] for r in rejects] == ["empty_document"]


BOMBS = {
    "nested": "<div>" * 100_000,
    "nested, with ends of others": "<div></b>" * 100_000,
    "nested in turns": "<div><span><x-y>" * 50_000,
    "attributes": f"<p {' '.join(f'a{i}' for i in range(50_000))}>",
    "attributes with values": "<p " + " ".join(f'a{i}=">"' for i in range(50_000)) + ">",
    "attributes after slashes": f"<p/{'/'.join(f'a{i}' for i in range(50_000))}>",
    "wide and deep": "<div>" * 3_000 + "<i>x</i>" * 100_000,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_would_take_for_ever_is_refused_at_once(bomb):
    began = time.process_time()
    with pytest.raises(RecordError) as error:
        main_text(BOMBS[bomb] + "text")
    assert error.value.reason == "too_complex"
    # The extraction of these takes from half a minute up to an hour.
    assert time.process_time() - began < 20


def test_a_long_page_is_no_bomb():
    rows = "".join(
        f"<tr><td>{i}<td class='x' title='a > b'>{NEWS}<br><img src=x>" for i in range(20_000)
    )
    text, _ = main_text(f"<html><body><article><p>{NEWS}<p>open<table>{rows}</table></article>")
    assert text.count("This story") == 20_001


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        *[("en", "en"), ("EN_us", "en"), (" de-CH-1996 ", "de"), ("rus", "ru"), ("zho", "zh")],
        *[("cmn", "zh"), ("ger", "de"), ("ast", "ast"), ("eng,deu", None), ("", None)],
        *[("english", None), ("x-default", None), ("{lang}", None), ("en;q=1", None)],
    ],
)
def test_tags_of_languages(tag, expected):
    assert one_language(tag) == expected
