"""The splitters beside sentencex: nothing is lost, time is linear, and what is missing is said."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ConfigError
from tests.builds import DATA, ROOT, build_here
from transforms import splitters
from transforms.splitters import (
    BEST,
    SPLITTERS,
    pieces_of,
    require_splitter,
    split_text,
    version_of_splitter,
)
from transforms.splitting import split_sentences

pytest.importorskip("choppa")
pytest.importorskip("pycrfsuite")

KINDS = [("srx", "de"), ("srx", "fr"), ("srx", "ar"), ("crfcut", "th"), ("best", "en")]


@pytest.mark.parametrize(("name", "language"), KINDS)
@settings(deadline=None, max_examples=60)
@given(st.text("aB. :!?\n\"'»“1)(。กข ๆฯ\u200b\xa0ิé\u2028\x85\t.", max_size=60))
def test_nothing_is_lost(name, language, text):
    assert_lossless(text, name, language)


def assert_lossless(text: str, name: str, language: str) -> None:
    pieces = pieces_of(text, language=language, sentence_splitter=name)
    assert sum(map(len, pieces)) == len(text.replace("\n", ""))
    sentences = split_text(text, language=language, sentence_splitter=name)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert not any("\n" in sentence for sentence in sentences)


@pytest.mark.parametrize("name", [name for name in SPLITTERS if name != "none"])
def test_real_texts_in_their_languages(name):
    for line in (DATA / "multilingual.jsonl").open(encoding="utf8"):
        record = json.loads(line)
        assert_lossless(record["text"], name, record["lang"])


def test_a_long_line_goes_in_windows_and_is_cut_as_in_short_ones():
    sentences = [f"Das ist z. B. der Satz Nr. {i}, der am 3. Mai kam." for i in range(300)]
    assert split_text(" ".join(sentences), language="de", sentence_splitter="srx") == sentences


@pytest.mark.parametrize("unit", [". ", "a. ", "1. "])
def test_many_full_stops_are_shown_a_few_at_a_time(monkeypatch, unit):
    """The rules' time grows with the fourth power of their number."""
    shown = []

    def segment(text: str) -> list[str]:
        shown.append(len(text))
        return [text]

    monkeypatch.setattr(splitters, "_load_srx", lambda code, asked: segment)
    pieces = pieces_of(unit * 5_000, language="de", sentence_splitter="srx")
    assert "".join(pieces) == unit * 5_000
    assert max(shown) <= 65 * len(unit)
    assert sum(shown) <= 4 * len(unit) * 5_000


def test_a_library_that_drops_characters_costs_the_boundaries_only(monkeypatch):
    monkeypatch.setattr(splitters, "_load_srx", lambda code, asked: str.split)
    assert split_text("One two. \nThree", language="en", sentence_splitter="srx") == [
        "One two.",
        "Three",
    ]


def test_best_takes_one_for_each_language():
    german = "Das kostet ca. 5 Euro bzw. 6 Dollar. Er kam am 3. Oktober. Gut so."
    for code, name in (("de", "srx"), ("de-AT", "srx"), ("ru", "srx"), ("th", "crfcut")):
        got = split_text(german, language=code, sentence_splitter="best")
        assert got == split_text(german, language=code, sentence_splitter=name)
    for code in ("zh", "ja", "hi", "xx"):
        got = split_text(german, language=code, sentence_splitter="best")
        assert got == split_sentences(german, language=code)
    assert set(BEST.values()) == {"srx", "crfcut"}


def test_best_keeps_numbers_with_what_they_count():
    text = "1. Matter is small.\n2. It is made of atoms. 3. So are you.\n4.\nFive."
    assert split_text(text, language="en", sentence_splitter="best") == [
        "1. Matter is small.",
        "2. It is made of atoms.",
        "3. So are you.",
        "4.",
        "Five.",
    ]


def test_the_sentences_of_thai_are_found_at_all():
    text = "ฉันไปโรงเรียนเมื่อวานนี้ แล้วฉันก็กลับบ้าน ขอบคุณครับ วันนี้อากาศดีมาก"
    assert len(split_text(text, language="th", sentence_splitter="crfcut")) > 1
    assert split_sentences(text, language="th") == [text]


@pytest.mark.parametrize(
    ("name", "language", "missing", "extra"),
    [
        ("srx", "en", "choppa", "sentences"),
        ("best", "en", "choppa", "sentences"),
        ("best", "th", "pycrfsuite", "thai"),
        ("crfcut", "en", "pycrfsuite", "thai"),
        ("crfcut", "en", "pythainlp", "thai"),
    ],
)
def test_a_missing_package_is_named_before_anything_runs(
    monkeypatch, tmp_path, name, language, missing, extra
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *rest: None if n == missing else find(n, *rest)
    )
    with pytest.raises(ConfigError, match=rf"bert-data\[{extra}\]"):
        require_splitter(name, language=language)
    with pytest.raises(ConfigError, match=rf"bert-data\[{extra}\]"):
        build_here(
            DATA / "documents.jsonl",
            output=tmp_path / "out",
            sentence_splitter=name,
            language=language,
        )
    assert not (tmp_path / "out").exists()


def test_none_of_them_is_needed_for_the_others():
    for name in ("sentencex", "none"):
        require_splitter(name, language="th")
        assert version_of_splitter(name) is None
    loaded = (
        "import sys; import transforms.sentences, transforms.languages; "
        "print(sorted({'choppa', 'pythainlp', 'pycrfsuite', 'py3langid'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_was_used_is_in_the_manifest(tmp_path):
    manifest = build_here(
        DATA / "multilingual.jsonl", output=tmp_path / "out", sentence_splitter="best", num_shards=1
    )
    used = manifest.created_by.sentence_splitter
    assert used == version_of_splitter("best")
    assert used is not None
    assert "choppa-srx" in used
    assert manifest.configuration["sentence_splitter"] == "best"
