"""Of wikitext the prose is left, and nothing of the markup."""

# ruff: noqa: E501 - a line is a case

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import RecordError
from transforms.formats import wikitext, wikitext_blocks
from transforms.formats.wikitext import to_prose
from transforms.formats.wikitext_links import Prefixes

DOCS = Path(__file__).resolve().parents[2] / "docs"
MARKUP = re.compile(r"\{\{|\}\}|\[\[|\]\]|\|-|\{\||<ref", re.IGNORECASE)


def prose(text: str, *names: str) -> str:
    return to_prose(text, prefixes=Prefixes().and_of_wiki(frozenset(names)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A '''bold''' and ''slanted'' word, '''''both''''', l''''A''''.", "A bold and slanted word, both, l'A'."),
        ("See [[a]], [[a|b]], [[a#c|''d'']], [[bus]]es and [[:Category:X|y]].", "See a, b, d, buses and y."),
        ("Two\nlines of a paragraph.\n\nThe next.", "Two lines of a paragraph.\nThe next."),
        ("One.\r\n\r\nTwo.", "One.\nTwo."),
        ("It is [http://x.org/a?b here], [//x.org there], [http://y.org].", "It is here, there,."),
        ("A{{cite|a={{b|c}}|d={{{e}}}}} word.", "A word."),
        ("{{Infobox\n| a = [[File:x.png|thumb|of [[y]]]]\n| b = {|\n|-\n| c\n|}\n}}\nText.", "Text."),
        ("A.\n{| class=x\n! h\n|-\n| a || b\n{|\n| inner\n|}\n|}\nB.", "A.\nB."),
        ("A.\n:{|\n| x\n|}\nB <table><tr><td><table>x</table></td></tr></table>c.", "A.\nB c."),
        ("A<ref>no</ref> b<ref name=x /> c<REF name='y'>n{{o}}</ref>.", "A b c."),
        ("A <!-- no\n\n--> b.", "A b."),
        ("A <math>x^{2}</math> <gallery>\nFile:a.png|b\n</gallery> b <timeline>t</timeline>.", "A b."),
        ("A <syntaxhighlight lang=c>int {{ x;</syntaxhighlight> <score>c</score> <pre>p</pre> b.", "A b."),
        ("[[File:A.jpg|thumb|A ''caption'' with a [[link]] and [http://x y].]]A.", "A."),
        ("[[Файл:A.jpg|мини|b]][[Категория:X]][[category:y]][[de:Foo]][[zh-yue:Bar]]A.", "A."),
        ("[[Datei:A.JPG|mini|of [[b]]]] A [[Vitamin: a guide|guide]].", "A guide."),
        ("H<sub>2</sub>O <small>is</small> <span style='a: b'>w</span>ater<br />here.", "H2O is water\nhere."),
        ("1&nbsp;km &ndash; 2&#160;km, &lt; 3 &amp; 4.", "1 km – 2 km, < 3 & 4."),
        ("__NOTOC__ A __init__ b.__БЕЗСЪД__", "A __init__ b."),
        ("A -{zh-hans:计算机; zh-hant:電腦;}- b -{kept}- c-{H|zh:x}-.", "A 计算机 b kept c."),
        ("A (; born 1950) and (1950 ; ) and ({{x}}) and ({{x}}; {{y}}) .", "A (born 1950) and (1950) and and."),
        ("A <nowiki>''b''</nowiki> &#91;&#91;c]] {{d.", "A ''b'' c"),
        ("= H =\nA.\n== References ==\n{{reflist}}\n=== E ===\n* [http://x Y]\n== End ==", "A."),
        ("* A [[sentence]].\n** ''Another'' one.\n# Third!\n: Fourth.\n; Term", "A sentence.\nAnother one.\nThird!\nFourth."),
        ("* [[A link]]\n* [[Another]], ''[[one]]''.\n* [http://x.org A site.] is here.\n* short", ""),
        ("----\nA.\n\n| a row\n! scope=col | b\n|}\n!Kung is a language.", "A.\n!Kung is a language."),
        ("A < b and c > d, [x] {y} | z.", "A < b and c > d, [x] {y} | z."),
        ("It is {{convert|5|to(-)|7|km2|mi|abbr=on}} or {{cvt|3|ft}}, {{Convert|1=6|2=C}}.", "It is 5 to 7 km² or 3 ft, 6 °C."),
        ("{{lang|fr|Un [[a|mot]]}}, {{lang-de|Wort|w}}, {{transl|grc|ISO|lógos}}, {{nowrap|a b|}}{{nowrap}}.", "Un mot, Wort, lógos, a b."),
        ("A {{lang|fr|{{x}}}} b {{convert|{{y}}|km}} {{languages|a}}c.", "A b c."),
        ("", ""),
        ("{{x}}\n[[File:a.png]]", ""),
    ],
)  # fmt: skip
def test_markup(text, shown):
    assert prose(text, "файл", "категория") == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A {{b c.\n\nD.", "A\nD."),
        ("A {{b {{c}} d.\n\nE {{f}}.", "A\nE."),
        ("A }} b.", "A b."),
        ("A [[b c.\n\nD.", "A b c.\nD."),
        ("[[File:a.png|thumb|b [[c]]\nD.", "D."),
        ("A ]] b.", "A b."),
        ("A <ref>b c.\nD.\n\nE.", "A\nE."),
        ("A <ref>b.\n\nC <ref>d</ref> e.", "A\nC e."),
        ("A </ref> b.", "A b."),
        ("A.\n{|\n| b\n\nC.\n| d || e\nF.", "A.\nC.\nF."),
        ("A.\n{|\n| {{b\n|}\nC.", "A.\nC."),
        ("A <!-- b", "A"),
        ("A <div>b <span class=c>d.", "A\nb d."),
        ("A <ref b.", "A b."),
    ],
)
def test_markup_without_its_other_end(text, shown):
    assert prose(text) == shown


PIECES = "{{ }} {{{ }}} [[ ]] [ ] {| |} |- | -{ }- <ref> </ref> <ref <!-- --> <nowiki> </nowiki> '' \n * == &#91; &#123; &lt;ref"
PIECES += " <table> </table> <span a='b'> </span> <div> </div> http://a File: a (x) <math> </math>"
markup = st.lists(
    st.sampled_from([*PIECES.split(" "), " ", "\n\n", "\ufdd0", "\ufdd2"]), max_size=40
)


@settings(max_examples=600, deadline=None)
@given(markup.map("".join))
def test_no_markup_is_left_of_anything(text):
    shown = prose(text)
    assert not MARKUP.search(shown)
    assert not re.search("[\ufdd0-\ufdd2]|  |\n\n", shown)


@settings(max_examples=100, deadline=None)
@given(
    st.text(
        st.characters(
            exclude_characters="<>[]{}|'=*#:;&_!-\n\r()（）", categories=["L", "P", "Zs"]
        ),
        min_size=1,
    )
)
def test_text_without_markup_is_left_as_it_is(text):
    words = " ".join(f"a{text}b".split())
    assert prose(words) in (words, re.sub(r" ([,.])(?=\s|$)", r"\1", words))


NESTS = [
    "{{",
    "[[",
    "<div>",
    "<div class=x>",
    "<span a='b'>",
    "<ref>",
    "<ref ",
    "{|\n",
    "[http://a ",
]
NESTS += [
    "<!--",
    "<nowiki>",
    "-{",
    "<ref>a\n\n",
    "{{a\n\n",
    "[[a|",
    "[[File:a|",
    "<table>",
    "( ",
    '<a b="<c d="',
]


@pytest.mark.parametrize("begins", NESTS)
def test_time_grows_with_the_page_and_not_with_its_square(begins):
    """Ten times as much markup takes about ten times as long, be it nested or without end."""

    def seconds(count: int) -> float:
        text = begins * count
        best = 9e9
        for _ in range(3):
            started = time.process_time()
            assert not MARKUP.search(prose(text))
            best = min(best, time.process_time() - started)
        return best

    assert seconds(20_000) < 40 * seconds(2_000) + 0.3


@pytest.mark.parametrize("begins", ["{{", "<ref>"])
def test_an_end_that_is_not_there_is_looked_for_once(begins, monkeypatch):
    looked = []
    find = wikitext_blocks._paragraph_end

    def counted(*place):
        looked.append(place)
        return find(*place)

    monkeypatch.setattr(wikitext_blocks, "_paragraph_end", counted)
    assert prose(f"A {begins}" + f"b {begins}" * 1000 + "\n\nC.") == "A\nC."
    assert len(looked) <= 2


def test_what_the_documentation_shows():
    shown = (DOCS / "wikipedia.md").read_text(encoding="utf8")
    (source,) = re.findall(r"```wikitext\n(.*?)```", shown, re.DOTALL)
    (result,) = re.findall(r"comes out as\n\n```text\n(.*?)\n```", shown, re.DOTALL)
    assert prose(source) == result


def test_a_text_that_no_wiki_takes_is_refused(monkeypatch):
    monkeypatch.setattr(wikitext, "_MOST_CHARACTERS", 100)
    assert prose("x" * 100)
    with pytest.raises(RecordError, match="too_long: 101 characters of wikitext, more than 100"):
        prose("x" * 101)
