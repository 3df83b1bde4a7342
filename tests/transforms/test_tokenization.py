"""TokenizeSentences: what becomes of documents and sentences, with and without Beam."""

from __future__ import annotations

import itertools
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that
from tokenizers import normalizers

from schemas.arrow import KEY_BYTES, SENTENCE_BATCH, token_batch
from transforms.tokenization import Encoder, TokenizeSentences, tokenize_batch
from transforms.vocabulary import Vocabulary, load_tokenizer
from transforms.word_cache import PlainEncoder, WordCache
from transforms.word_segments import WordMarker

DATA = Path(__file__).parents[1] / "data"

DOCUMENTS = [
    ["The cat sat.", "", "It slept."],
    [],
    ["\u200b", " \t", "\u0301"],  # sentences, but without a token
    ["[MASK] is text.", "ünïcödé 中文"],
    ["", "One."],
]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return load_tokenizer(str(DATA / "vocab.txt"), do_lower_case=None)


def batch_of(documents: list[list[str]], first: int = 0) -> pa.RecordBatch:
    keys = [(first + i).to_bytes(KEY_BYTES, "big") for i in range(len(documents))]
    return pa.record_batch(
        [pa.array(keys, pa.binary(KEY_BYTES)), pa.array(documents, SENTENCE_BATCH.field(1).type)],
        schema=SENTENCE_BATCH,
    )


def expected(vocabulary: Vocabulary, documents: list[list[str]]) -> list[list[list[int]]]:
    """By the library, a sentence at a time."""
    tokenizer = vocabulary.tokenizer()
    ids = [
        [tokenizer.encode(sentence, add_special_tokens=False).ids for sentence in document]
        for document in documents
    ]
    return [[sentence for sentence in document if sentence] for document in ids]


def test_documents_stay_and_empty_sentences_go(vocabulary):
    batch = batch_of(DOCUMENTS)
    tokens = tokenize_batch(batch, Encoder(vocabulary))
    tokens.validate(full=True)
    assert tokens.schema == token_batch(vocabulary.vocab_size)
    assert tokens.column("key").equals(batch.column("key"))
    found = tokens.column("sentences").to_pylist()
    assert [len(document) for document in found] == [2, 0, 0, 2, 1]
    assert found == expected(vocabulary, DOCUMENTS)


@pytest.mark.parametrize("documents", [[], [[]], [[""]], [["", ""], []]])
def test_batches_without_a_token(vocabulary, documents):
    tokens = tokenize_batch(batch_of(documents), Encoder(vocabulary))
    tokens.validate(full=True)
    assert tokens.column("sentences").to_pylist() == [[] for _ in documents]


def sample() -> list[list[str]]:
    documents = []
    for name in ("documents.jsonl", "multilingual.jsonl"):
        for line in (DATA / name).read_text().splitlines():
            documents.append(json.loads(line)["text"].replace(". ", ".\n").split("\n"))
    return documents


def test_slices_of_a_batch(vocabulary):
    documents = sample()
    whole, encoder = batch_of(documents), Encoder(vocabulary)
    for start, length in ((0, 3), (1, 1), (5, 10), (len(documents) - 1, 1), (3, 0)):
        tokens = tokenize_batch(whole.slice(start, length), encoder)
        tokens.validate(full=True)
        assert tokens.column("key").equals(whole.column("key").slice(start, length))
        wanted = expected(vocabulary, documents[start : start + length])
        assert tokens.column("sentences").to_pylist() == wanted


def test_how_documents_are_batched_does_not_show(vocabulary):
    documents = sample()
    whole = tokenize_batch(batch_of(documents), Encoder(vocabulary)).column("sentences")
    rng = np.random.default_rng(2)
    for _ in range(3):
        cuts = np.sort(rng.integers(0, len(documents), 5)).tolist()
        encoder = Encoder(vocabulary)
        parts = [
            tokenize_batch(batch_of(documents[a:b]), encoder).column("sentences")
            for a, b in itertools.pairwise([0, *cuts, len(documents)])
        ]
        assert pa.concat_arrays(parts).to_pylist() == whole.to_pylist()


@pytest.mark.parametrize("segmenter", ["none", "jieba"])
def test_marks_lie_beside_the_ids(vocabulary, segmenter):
    """An item for each token, sentences without a token left out; the ids are the same."""
    documents = [*DOCUMENTS, *sample()]
    batch, encoder = batch_of(documents), Encoder.of(vocabulary)
    marker = WordMarker.of(vocabulary, segmenter)
    tokens = tokenize_batch(batch, encoder, word_marks=marker)
    tokens.validate(full=True)
    assert tokens.schema == token_batch(vocabulary.vocab_size, word_marks=True)
    plain = tokenize_batch(batch, encoder)
    assert tokens.select(["key", "sentences"]).equals(plain)
    rows = zip(plain["sentences"].to_pylist(), tokens["continues_word"].to_pylist(), strict=True)
    for sentences, marks in rows:
        assert len(marks) == sum(map(len, sentences))
        if segmenter == "none":
            assert marks == [int(vocabulary.is_subword[i]) for ids in sentences for i in ids]
    joined = sum(map(sum, tokens["continues_word"].to_pylist()))
    assert joined > 100
    for start, length in ((0, 3), (1, 1), (5, 10), (len(documents) - 1, 1), (3, 0)):
        part = tokenize_batch(batch.slice(start, length), Encoder(vocabulary), word_marks=marker)
        part.validate(full=True)
        assert part.to_pylist() == tokens.slice(start, length).to_pylist()


def test_wide_ids(tmp_path):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*specials, *(f"w{i}" for i in range(70_000))]))
    wide = load_tokenizer(str(path), do_lower_case=None)
    tokens = tokenize_batch(batch_of([["w0 w69999"], ["w65530 w65531"]]), Encoder(wide))
    assert tokens.schema == token_batch(70_005)
    assert tokens.column("sentences").to_pylist() == [[[5, 70_004]], [[65_535, 65_536]]]


def test_the_encoder_follows_from_the_tokenizer(vocabulary, tmp_path):
    assert isinstance(Encoder(vocabulary)._encoder, WordCache)
    tokenizer = vocabulary.tokenizer()
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    other = load_tokenizer(str(tmp_path / "tokenizer.json"), do_lower_case=None)
    assert isinstance(Encoder(other)._encoder, PlainEncoder)
    tokens = tokenize_batch(batch_of(DOCUMENTS), Encoder(other))
    assert tokens.schema == token_batch(other.vocab_size)
    assert tokens.column("sentences").to_pylist() == expected(other, DOCUMENTS)


def test_a_process_has_one_encoder_a_vocabulary(vocabulary):
    copy = pickle.loads(pickle.dumps(vocabulary))
    cased = load_tokenizer(str(DATA / "vocab.txt"), do_lower_case=False)
    with ThreadPoolExecutor(8) as pool:
        encoders = [*pool.map(Encoder.of, [vocabulary, copy, cased] * 8)]
    assert len({id(encoder) for encoder in encoders}) == 2
    assert Encoder.of(copy) is encoders[0]


@pytest.mark.parametrize("word_marks", [False, True])
def test_the_step(vocabulary, word_marks):
    documents = [*DOCUMENTS, *sample()]
    batches = [batch_of(documents[:4]), batch_of(documents[4:], first=4).slice(0)]
    pipeline = beam.Pipeline(runner=FnApiRunner())
    step = TokenizeSentences(vocabulary, word_marks=word_marks, word_segmenter="jieba")
    tokens = pipeline | beam.Create(batches) | step
    schema = token_batch(vocabulary.vocab_size, word_marks=word_marks)
    wanted = expected(vocabulary, documents)

    def check(found: list[pa.RecordBatch]) -> None:
        assert all(batch.schema == schema for batch in found)
        rows = sorted(
            (row["key"], row["sentences"]) for batch in found for row in batch.to_pylist()
        )
        assert [sentences for _, sentences in rows] == wanted
        assert [int.from_bytes(key, "big") for key, _ in rows] == [*range(len(documents))]

    assert_that(tokens, check)
    result = pipeline.run()
    result.wait_until_finish()
    counters = {
        counter.key.metric.name: counter.committed
        for counter in result.metrics().query(
            beam.metrics.MetricsFilter().with_namespace("TokenizeSentences")
        )["counters"]
    }
    assert counters == {
        "documents_in": len(documents),
        "sentences_in": sum(map(len, documents)),
        "bytes_in": sum(len(text.encode()) for document in documents for text in document),
        "documents_out": len(documents),
        "sentences_out": sum(map(len, wanted)),
        "tokens_out": sum(len(ids) for document in wanted for ids in document),
    }


def test_text_that_spells_a_special_token_is_unknown_where_the_model_knows_it(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(words[:5])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_tokenizer(str(tmp_path / "tokenizer.json"), do_lower_case=None)
    text = pa.array(["a [SEP] b [MASK] c"], pa.large_string())
    ids, _ = Encoder(vocabulary).encode(text)
    assert ids.tolist() == [5, 1, 6, 1, 1]
