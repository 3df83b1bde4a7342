"""What ``best`` mends, rule by rule; the same texts by the library alone show that it is needed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.splitters import pieces_of, split_text
from transforms.splitting_repairs import mend

pytest.importorskip("choppa")

#: A boundary that best finds, or does not, is marked with a bar.
UNLIKE_SENTENCEX = [
    "It is a great shop!! | I come every day.",
    "They have lots of room??? | because nobody goes there.",
    "I appreciate that. | (Laughter.) | There is more to it.",
    "We had a nice time. :) | They were kind to us.",
    "Nice place ;-) | We shall be back.",
    "See www.example.org/news.asp?Article=97 for it.",
    "Posted via Newsfeed.Com today.",
    "2. Matter is made of atoms. | 3. So are you.",
]
UNLIKE_SRX = {
    "fr": ["Il faisait beau ; | Le train partit à midi.", "Tout est prêt ; | J'arrive."],
    "de": ["Es war schon spät; | Die Lira fiel. | Dann nicht mehr."],
    "ru": [
        "Он получил 25 фр. и ушёл. | Потом вернулся.",
        "Реки, озёра и т. п. | Состояние их разное.",
    ],
}
KEPT = {
    "en": [
        "The Acme (Inc.) Board met. | It went home.",
        'He said "No!!" and left.',
        "Hello there. | Is it you? | It is.",
        "Stendhal; the red and the black.",
    ],
    "fr": ["Paris ; Lyon ; Marseille sont des villes.", "Il vint ; elle partit."],
    "ru": ["Он ушёл в лес. | Там было тихо."],
}


def sentences(marked: str) -> list[str]:
    return marked.split(" | ")


def split(marked: str, language: str, splitter: str) -> list[str]:
    return split_text(marked.replace(" | ", " "), language=language, sentence_splitter=splitter)


@pytest.mark.parametrize("marked", UNLIKE_SENTENCEX)
def test_what_sentencex_does_not_see(marked):
    assert split(marked, "en", "best") == sentences(marked)
    assert split(marked, "en", "sentencex") != sentences(marked)


@pytest.mark.parametrize("language", UNLIKE_SRX)
def test_what_the_rules_of_languages_do_not_see(language):
    for marked in UNLIKE_SRX[language]:
        assert split(marked, language, "best") == sentences(marked)
        assert split(marked, language, "srx") != sentences(marked)


@pytest.mark.parametrize("language", KEPT)
def test_what_looks_like_it_and_is_not(language):
    for marked in KEPT[language]:
        assert split(marked, language, "best") == sentences(marked)


def test_a_full_stop_behind_quote_marks_is_their_sentences():
    pieces = ["Он сказал: ``Верю! ", "``. ", "Потом ушёл."]
    assert mend("".join(pieces), pieces, language="ru") == [
        "Он сказал: ``Верю! ``. ",
        "Потом ушёл.",
    ]
    pieces = ['"Wirklich"! ', '", fragte er.']
    assert mend("".join(pieces), pieces, language="de") == ["".join(pieces)]


@settings(deadline=None, max_examples=200)
@given(
    st.text("aBÉд.!?;:)(\"'” \n\u00a0-1,D", max_size=60), st.sampled_from(["en", "fr", "ru", "zh"])
)
def test_nothing_is_lost_and_lines_stay_lines(text, language):
    pieces = pieces_of(text, language=language, sentence_splitter="sentencex")
    mended = mend(text, pieces, language=language)
    assert "".join(mended) == text.replace("\n", "")
    place = 0
    for piece in mended:
        while text[place : place + 1] == "\n":
            place += 1
        assert text[place : place + len(piece)] == piece
        place += len(piece)


@pytest.mark.parametrize(
    "unit", ["!? ", "?!", "(a.) ", ".)", ":) ", "; Le ", "1. ", '"', " ", "((((", "; "]
)
def test_time_is_linear(unit):
    def took(count: int) -> float:
        text = unit * count
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            mend(text, [text], language="fr")
            best = min(best, time.process_time() - began)
        return best

    small, large = took(1_000), took(16_000)
    assert large < 16 * 6 * max(small, 1e-3)
