"""SplitSentences: the batch function against the splitter, keys, languages, the Beam step."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.arrow import DOCUMENT_BATCH, SENTENCE_BATCH
from schemas.errors import ConfigError
from tests.unit.test_splitting import texts
from transforms.sentences import SplitSentences, document_key, split_batch
from transforms.slicing import slice_sentences
from transforms.splitting import split_sentences


def batch_of(documents: list[str], languages: list[str | None] | None = None) -> pa.RecordBatch:
    columns = [
        pa.array(documents, pa.large_string()),
        pa.array([f"test#{n}" for n in range(len(documents))], pa.string()),
        pa.array(languages or [None] * len(documents), pa.string()),
    ]
    return pa.record_batch(columns, schema=DOCUMENT_BATCH)


def sample(data: Path) -> list[dict[str, str]]:
    records = []
    for name in ("documents.jsonl", "multilingual.jsonl"):
        with open(data / name, encoding="utf-8") as lines:
            records += [json.loads(line) for line in lines]
    return records


def test_sample_is_split_as_the_splitter_says(data: Path) -> None:
    records = sample(data)
    batch = batch_of([r["text"] for r in records], [r.get("lang") for r in records])
    split = split_batch(batch, language="en")
    split.validate(full=True)
    assert split.schema == SENTENCE_BATCH
    want = [split_sentences(r["text"], language=r.get("lang") or "en") for r in records]
    assert split.column("sentences").to_pylist() == want


@settings(max_examples=400, deadline=None)
@given(st.lists(texts.filter(str.strip), max_size=5), st.sampled_from(["en", "fr", "zh"]))
def test_compiled_slices_are_those_of_the_splitter(documents: list[str], language: str) -> None:
    split = split_batch(batch_of(documents), language=language)
    split.validate(full=True)
    want = [split_sentences(text, language=language) for text in documents]
    assert split.column("sentences").to_pylist() == want


def test_books_are_split_as_the_splitter_says(shared: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    documents = []
    with zstandard.open(shared / "data/corpora/books-130mb.jsonl.zst", "rt", encoding="utf-8") as f:
        for n, line in zip(range(600), f, strict=False):
            if n % 10 == 0:
                documents.append(json.loads(line)["text"])
    split = split_batch(batch_of(documents), language="en")
    want = [split_sentences(text, language="en") for text in documents]
    assert split.column("sentences").to_pylist() == want


def test_key_is_the_digest_of_the_text() -> None:
    documents = ["One. Two.", "Zwei Ä. 😀", "One. Two."]
    keys = split_batch(batch_of(documents), language="en").column("key").to_pylist()
    want = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in documents]
    assert keys == want
    assert keys == [document_key(text.encode()) for text in documents]
    # A change of the digest changes every data set: it is written down here.
    assert keys[0].hex() == "39ea00104774ff324ac78ed267691fa9"


def test_a_slice_of_a_batch_is_its_own_documents() -> None:
    documents = ["Eins. Zwei.", "One is “here”. Two.", "Trois. « Oui. » Non.", "Four."]
    whole = split_batch(batch_of(documents), language="en")
    part = split_batch(batch_of(documents).slice(1, 2), language="en")
    assert part.to_pylist() == whole.to_pylist()[1:3]


def test_own_language_comes_before_the_run_s() -> None:
    text = "Am 3. Mai kam z.B. Dr. Meier. Er blieb bis zum 19. Lebensjahr. Dann ging er."
    german, russian = (split_sentences(text, language=code) for code in ("de", "ru"))
    assert german != russian
    batch = batch_of([text] * 3, ["de-DE", None, "de"])
    assert split_batch(batch, language="ru").column("sentences").to_pylist() == [
        german,
        russian,
        german,
    ]


def test_lines_are_the_sentences_without_a_splitter() -> None:
    batch = batch_of(["One. Two.\n\nThree\n \nfour. five", "Six."])
    split = split_batch(batch, language="en", sentence_splitter="none")
    assert split.schema == SENTENCE_BATCH
    assert split.column("sentences").to_pylist() == [
        ["One. Two.", "Three", "four. five"],
        ["Six."],
    ]


@pytest.mark.parametrize("splitter", ["sentencex", "none"])
def test_no_documents_and_no_sentences(splitter: str) -> None:
    empty = split_batch(batch_of([]), language="en", sentence_splitter=splitter)
    assert (empty.schema, empty.num_rows) == (SENTENCE_BATCH, 0)
    blank = split_batch(batch_of([" \n ", "A."]), language="en", sentence_splitter=splitter)
    assert blank.column("sentences").to_pylist() == [[], ["A."]]


@pytest.mark.parametrize("length", [3, 6])
def test_pieces_of_another_length_are_refused(length: int) -> None:
    data = np.frombuffer("ab é".encode(), np.uint8)
    pieces = np.array([0, 1], np.int64)
    bounds, _ = slice_sentences(data, np.array([0, 5], np.int64), np.array([4], np.int64), pieces)
    assert bounds.tolist() == [0, 5]
    with pytest.raises(RuntimeError, match="document 0"):
        slice_sentences(data, np.array([0, 5], np.int64), np.array([length], np.int64), pieces)


def test_unknown_splitter_is_refused_with_the_choice() -> None:
    with pytest.raises(ConfigError, match=r"--sentence_splitter='punkt': .*sentencex.*none"):
        SplitSentences("en", sentence_splitter="punkt")


def test_step_counts_what_goes_in_and_out() -> None:
    batches = [batch_of(["One. Two.", "Drei é."]), batch_of(["“Four.” Five. Six."])]
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as pipeline:
        _ = (
            pipeline
            | beam.Create(batches, reshuffle=False)
            | "SplitSentences" >> SplitSentences("en")
            | beam.Map(lambda batch: batch.to_pylist())
            | beam.combiners.ToList()
            | beam.Map(check_split)
        )
    query = beam.metrics.MetricsFilter().with_namespace("SplitSentences")
    counters = pipeline.result.metrics().query(query)["counters"]
    assert {counter.key.metric.name: counter.committed for counter in counters} == {
        "documents_in": 3,
        "bytes_in": 9 + 8 + 22,
        "documents_out": 3,
        "sentences_out": 6,
        "bytes_out": 8 + 8 + 20,
    }


def check_split(batches: list[list[dict[str, object]]]) -> None:
    documents = sorted((row["sentences"] for batch in batches for row in batch), key=str)
    assert documents == [["Drei é."], ["One.", "Two."], ["“Four.”", "Five.", "Six."]]
