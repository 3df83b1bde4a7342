"""One language has one name, however it is written; what is no language is said before anything runs."""

from __future__ import annotations

import pytest

from pipeline.config import BuildConfig
from pipeline.prepare import prepare
from tests.builds import DATA, VOCAB
from transforms.language_codes import base_language, is_language, meant_by
from transforms.splitters import split_text


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("de", "de"),
        ("deu", "de"),
        ("ger-AT", "de"),
        ("pt_BR", "pt"),
        (" EN ", "en"),
        ("gsw", "gsw"),
    ],
)
def test_the_splitters_see_one_code(language, code):
    assert base_language(language) == code
    text = "Das kostet ca. 5 Euro bzw. 6 Dollar. Er kam am 3. Oktober."
    split = split_text(text, language=language, sentence_splitter="sentencex")
    assert split == split_text(text, language=code, sentence_splitter="sentencex")


def warnings_of(**settings: str) -> list[str]:
    values = {
        "input": (str(DATA / "documents.jsonl"),),
        "output": "unused",
        "vocab_file": str(VOCAB),
    }
    return list(prepare(BuildConfig.from_values({**values, **settings})).warnings)


@pytest.mark.parametrize(
    ("language", "words"), [("xx", "general"), ("jp", "did you mean ja?"), ("ua-UA", "mean uk?")]
)
def test_what_is_no_language_is_said(language, words):
    assert not is_language(language)
    (warning,) = warnings_of(language=language)
    assert f"--language={language} is no language" in warning
    assert words in warning


@pytest.mark.parametrize("language", ["en", "deu", "zh-Hant", "gsw", "auto"])
def test_languages_are_no_reason_to_warn(language):
    pytest.importorskip("py3langid")
    assert warnings_of(language=language) == []
    assert meant_by(language) is None
