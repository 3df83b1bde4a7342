"""``--language auto``: found out from the text alone, where the record does not say it."""

from __future__ import annotations

import importlib.util
import json

import pyarrow as pa
import pytest

from pipeline.check import audit
from schemas.arrow import DOCUMENT_BATCH
from schemas.errors import ConfigError
from tests.builds import DATA, build_here, digests
from transforms import languages
from transforms.languages import detect_language, require_detector, version_of_detector
from transforms.sentences import split_batch

pytest.importorskip("py3langid")

GERMAN = "Das kostet ca. 5 Euro bzw. 6 Dollar. Er kam z. B. am 3. Oktober und ging am 4. wieder. "
ENGLISH = "That was what Mr. Smith and the others had said before they left the house again. "


def test_the_languages_of_the_sample():
    for line in (DATA / "multilingual.jsonl").open(encoding="utf8"):
        record = json.loads(line)
        if len(record["text"]) > 300:
            assert detect_language(record["text"]) == record["lang"].partition("-")[0]


def test_only_the_beginning_decides():
    assert detect_language(GERMAN * 40 + ENGLISH * 400) == "de"
    assert detect_language(GERMAN * 40) == detect_language(GERMAN * 4_000)


@pytest.mark.parametrize("text", ["", " ", "Ok", "1234", "??", "lol nope"])
def test_what_tells_nothing_is_taken_for_english(text):
    assert detect_language(text) == "en"


def batch(*records: tuple[str, str | None]) -> pa.RecordBatch:
    texts, languages = zip(*records, strict=True)
    columns = {"text": texts, "source": [""] * len(texts), "language": languages}
    return pa.RecordBatch.from_pydict(columns, schema=DOCUMENT_BATCH)


def test_records_that_say_it_are_believed(monkeypatch):
    asked = []

    def detect(text: str) -> str:
        asked.append(text)
        return "de"

    monkeypatch.setattr(languages, "detect_language", detect)
    got = split_batch(batch((GERMAN, None), (GERMAN, "en"), (ENGLISH, "en")), language="auto")
    found = got.column("sentences").to_pylist()
    assert asked == [GERMAN]
    assert found[0] == split_batch(batch((GERMAN, "de")), language="en")["sentences"][0].as_py()
    assert found[1] == split_batch(batch((GERMAN, "en")), language="de")["sentences"][0].as_py()
    assert found[0] != found[1]


def test_a_build_is_that_of_records_with_their_language(tmp_path):
    """And in any order, on any runner, the same; the audit finds the languages out again."""
    records = [json.loads(line) for line in (DATA / "multilingual.jsonl").open(encoding="utf8")]
    texts = [r["text"] for r in records]
    settings = {"num_shards": 2, "language": "auto", "provenance": True, "dupe_factor": 2}
    named, bare = tmp_path / "named.jsonl", tmp_path / "bare.jsonl"
    lines = [{"text": text, "lang": detect_language(text)} for text in texts]
    named.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bare.write_text("".join(json.dumps({"text": text}) + "\n" for text in reversed(texts)))
    manifest = build_here(bare, output=tmp_path / "bare", **settings)
    build_here(named, output=tmp_path / "named", **settings | {"language": "en"})
    build_here(bare, output=tmp_path / "own", runner="FnApiRunner", **settings)
    assert digests(tmp_path / "bare") == digests(tmp_path / "named") == digests(tmp_path / "own")
    assert manifest.created_by.language_detector == version_of_detector("auto")
    found = audit(str(tmp_path / "bare"), manifest, corpus=[str(bare)], num_workers=1)
    assert not found.broken


def test_a_missing_package_is_named(monkeypatch):
    require_detector("en")
    assert version_of_detector("en") is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    with pytest.raises(ConfigError, match=r"bert-data\[languages\]"):
        require_detector("auto")
    require_detector("en")
