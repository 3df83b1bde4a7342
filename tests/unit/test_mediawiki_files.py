"""What comes out of real exports is prose, without a trace of markup."""

from __future__ import annotations

import re
from collections import Counter

import mwparserfromhell
import pytest

from tests.unit.test_documents import read
from transforms.formats.framing import cut
from transforms.formats.mediawiki import MediaWiki, read_page
from transforms.formats.wikitext import to_prose
from transforms.formats.wikitext_templates import show_words
from transforms.inputs import list_inputs
from transforms.read_tasks import FileShare
from transforms.reader import ReadOptions
from transforms.streams import ByteStream

#: Articles, language and about how much text; of pages of other kinds there are as many again.
FILES = {
    "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2": (106, "en", 2_700_000),
    "enwiki-table-markup.xml.bz2": (5, "en", 95_000),
    "bgwiki-latest-pages-articles-shortened.xml.bz2": (1, "bg", 11_000),
    "testcorpus.xml.bz2": (9, "en", 170),
}


@pytest.mark.parametrize("name", FILES)
def test_no_markup_is_left(shared, name):
    articles, language, size = FILES[name]
    documents, rejects = read(shared / "data/corpora" / name)
    assert rejects == []
    assert len(documents) == articles
    assert {d["language"] for d in documents} == {language}
    assert sum(len(d["text"].encode()) for d in documents) > size
    for markup in (
        "{{",
        "}}",
        "[[",
        "]]",
        "|-",
        "{|",
        "|}",
        "||",
        "<ref",
        "</",
        "''",
        "&nbsp;",
        "()",
    ):
        assert sum(d["text"].count(markup) for d in documents) == 0, markup
    lines = [line for d in documents for line in d["text"].split("\n")]
    assert not [line for line in lines if re.match(r"[*#:;=|!]", line) and not line.startswith("!")]
    assert all(re.search(r"\w", line) for line in lines)


@pytest.mark.parametrize("name", FILES)
def test_stripes_have_the_same_articles(shared, name):
    path = shared / "data/corpora" / name
    whole, _ = read(path)
    striped, _ = read(path, stripes=3, range_bytes=50_000)
    assert Counter(d["source"] for d in striped) == Counter(d["source"] for d in whole)


def test_prose_is_that_of_a_full_parser(shared):
    """Of the words of mwparserfromhell's text those of headings, lists and captions are missing; hardly any
    is there that it does not have.
    """
    (file,) = list_inputs(
        [str(shared / "data/corpora/enwiki-latest-pages-articles1*")], format="auto"
    )
    form = ReadOptions().format_of(FileShare(file.path, file.compression, file.format, file.size))
    assert isinstance(form, MediaWiki)
    stream = ByteStream(file.path, compression="bz2", encoding=file.encoding)
    pieces = cut(stream, offset=0, owned_run=lambda offset: (None, True))
    ours = theirs = both = 0
    for record in list(form.frame(pieces, max_bytes=1 << 20))[::10]:
        text = read_page(bytes(record.data)).text
        if form.parse(record) is None:
            continue
        mine = Counter(re.findall(r"\w+", to_prose(text, prefixes=form.prefixes)))
        other = Counter(re.findall(r"\w+", mwparserfromhell.parse(show_words(text)).strip_code()))
        ours, theirs = ours + mine.total(), theirs + other.total()
        both += (mine & other).total()
    assert ours > 10_000
    assert both > 0.999 * ours
    assert both > 0.7 * theirs
