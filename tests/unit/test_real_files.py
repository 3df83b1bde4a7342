"""Real files are read whole: how many documents each has, and that none is refused."""

from __future__ import annotations

import pytest

from tests.unit.reading import read_rows

pytest.importorskip("resiliparse")

DOCUMENTS = {
    "bert-sample_text.txt": 3,
    "book-raw-crlf.txt": 346,
    "wikitext-raw.test.txt": 2891,
    "dolma-cc_en_head-0091.jsonl.gz": 10,
    "dolma-documents-000.json.gz": 10,
    "dolma-sample-0000.warc.gz": 22,
    "enwiki-table-markup.xml.bz2": 5,
    "bgwiki-latest-pages-articles-shortened.xml.bz2": 1,
    "handbook.ar-MA.jsonl": 107,
    "handbook.de-DE.jsonl": 116,
    "handbook.ja-JP.jsonl": 107,
    "handbook.ru-RU.jsonl": 104,
    "handbook.zh-CN.jsonl": 100,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_all_of_it_is_read(shared, name):
    documents, rejects = read_rows(shared / "data" / "corpora" / name)
    assert (len(documents), rejects) == (DOCUMENTS[name], [])
    assert all(document["text"].strip() for document in documents)
    assert not any("\ufffd" in document["text"] for document in documents)
