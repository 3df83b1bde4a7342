"""The word cache gives what the ``tokenizers`` library gives, whatever the text."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import itertools
import json
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from tokenizers import AddedToken, normalizers, pre_tokenizers

from transforms import word_scan
from transforms.vocabulary import Vocabulary, load_tokenizer
from transforms.word_cache import PlainEncoder, WordCache
from transforms.word_scan import LONGEST
from transforms.word_units import has_word_property, isolated_characters, word_property_obstacle

DATA = Path(__file__).parents[1] / "data"
RELEASED = ("uncased", "cased", "chinese", "multilingual-cased")


@functools.cache
def released(folder: Path, name: str) -> Vocabulary:
    path = folder / "data" / "vocab" / f"bert-base-{name}-vocab.txt"
    return load_tokenizer(str(path), do_lower_case=name == "uncased")


@functools.cache
def released_cache(folder: Path, name: str) -> WordCache:
    return WordCache(released(folder, name))


@pytest.fixture(scope="module")
def small() -> Vocabulary:
    return load_tokenizer(str(DATA / "vocab.txt"), do_lower_case=None)


def array(sentences: Iterable[str]) -> pa.LargeStringArray:
    return pa.array(list(sentences), pa.large_string())


def lists(encoded: tuple[np.ndarray, np.ndarray]) -> list[list[int]]:
    ids, offsets = encoded
    assert offsets[0] == 0
    assert offsets[-1] == len(ids)
    return [ids[a:b].tolist() for a, b in itertools.pairwise(offsets)]


def from_library(vocabulary: Vocabulary, sentences: Iterable[str]) -> list[list[int]]:
    encodings = vocabulary.tokenizer().encode_batch_fast(list(sentences), add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def assert_same(cache: WordCache, vocabulary: Vocabulary, sentences: list[str]) -> None:
    found = lists(cache.encode(array(sentences)))
    if found != (expected := from_library(vocabulary, sentences)):
        for text, got, wanted in zip(sentences, found, expected, strict=True):
            assert (text, got) == (text, wanted)


# --- real text ---------------------------------------------------------------------------------


def opened(path: Path) -> Iterator[str]:
    """The lines of a text file; WARC files are read as text too, whatever they hold."""
    with contextlib.ExitStack() as stack:
        stream: Any = stack.enter_context(path.open("rb"))
        if path.suffix == ".gz":
            stream = stack.enter_context(gzip.open(stream))
        elif path.suffix == ".zst":
            stream = zstandard.ZstdDecompressor().stream_reader(stream)
        for line in io.TextIOWrapper(stream, "utf-8", errors="replace", newline="\n"):
            yield line.removesuffix("\n")


def texts(path: Path) -> Iterator[str]:
    """The lines of the documents of a corpus."""
    for line in opened(path):
        if ".json" in path.name:
            yield from json.loads(line)["text"].split("\n")
        else:
            yield line


@functools.cache
def corpora(shared: Path) -> list[str]:
    """Every line of every corpus but the books, each once."""
    found: dict[str, None] = {}
    for folder in (shared / "data" / "corpora", shared / "data" / "gold", DATA):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".txt", ".jsonl", ".gz"):
                found.update(dict.fromkeys(texts(path)))
    return list(found)


@pytest.mark.parametrize(("name", "step"), zip(RELEASED, (2, 10, 10, 8), strict=True))
def test_lines_of_the_corpora(shared, name, step):
    """Every other one with one vocabulary that lower-cases; shares with those that do not."""
    lines = corpora(shared)[RELEASED.index(name) % step :: step]
    assert len(lines) > 30_000 // step
    assert_same(released_cache(shared, name), released(shared, name), lines)


@pytest.mark.parametrize("name", RELEASED)
def test_lines_of_the_books(shared, name):
    """One document in 320 for each vocabulary, others for each; the benchmark's --verify takes all."""
    path = shared / "data" / "corpora" / "books-130mb.jsonl.zst"
    documents = itertools.islice(opened(path), RELEASED.index(name), None, 320)
    lines = [line for document in documents for line in json.loads(document)["text"].split("\n")]
    assert sum(map(len, lines)) > 150_000
    cache = released_cache(shared, name)
    assert_same(cache, released(shared, name), lines)
    before = cache.misses
    cache.encode(array(lines))
    assert cache.misses - before < 100  # only what is too long to be stored


def test_the_sample_text(small):
    lines = [
        line for name in ("sentences.txt", "multilingual.jsonl") for line in texts(DATA / name)
    ]
    assert_same(WordCache(small), small, lines)


# --- all of Unicode ----------------------------------------------------------------------------

#: What is near the edges of the rules: see the tests' names in the library's own source.
PIECES = [
    *" \t\n\r\v\f\x00\x01\x1b\x1c\x1f\x7f\x85\xa0\xad",
    *"\u0300\u0301\u0327\u0338\u0345\u05b0\u064b\u093c\u0e38\u20d0\u302a\u3099\ufe0f\U000e0100",
    *"\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\ufffd",
    *"İıſẞßΣσςÅÅKΩﬁǅǄŉΐᾳᾼ\u1e9b\u037e\u1fef\u2260\u226e\u0958\u2126",
    *"“”‘’«»—–…¿¡§¶·、。「」，！？：؟،।၊។᠂‿⁀﹏＿",
    *"中文字㐀\u3400\u9fff\u4db6\uf900\ufa0e\U00020000\U0002a6d7\U0002b740\U0002b820\U0002f800",
    *"〇々ヶーあカｶﾞ가각힣각",
    *"👩🏽\U0001f468\U0001f1e9\u2764\u00ae\U0001d400\U00010400\U0001e900\ue000\U0010fffd\ufdd0",
    *"[](){}<>#$%^&*!?.,;:'\"`~|\\/@+=-_",
    *("[MASK]", "[SEP]", "[CLS]", "[PAD]", "[UNK]", "[mask]", "[unused5]", "##ing", "##"),
    *(
        "the",
        "The",
        "THE",
        "naïve",
        "cafe\u0301",
        "straße",
        "Москва",
        "ελληνικός",
        "שלום",
        "العربية",
    ),
    *(
        "العربية",
        "हिन्दी",
        "ภาษาไทย",
        "မြန်မာ",
        "தமிழ்",
        "Tiếng",
        "unaffable",
        "donaudampfschifffahrt",
    ),
    *("x" * n for n in (7, 8, 9, 15, 16, 17, 23, 24, 25, 63, 64, 65, 199, 200, 201, 300)),
    *("é" * n for n in (4, 8, 11, 12, 13, 31, 32, 33, 100, 101, 200, 201)),
    "ไ" * 21,
    "ไ" * 22,
    "中" * 300,
    "a\x00b",
    "\x00" * 9,
    "aB\u0301Cd",
]


#: Blocks of code points; most of the space above is not assigned.
BLOCKS = [(0x20, 0x7F), (0x80, 0x800), (0x800, 0xD800), (0xE000, 0x10000), (0x10000, 0x12000)]
BLOCKS += [(0x1D000, 0x20000), (0x20000, 0x30000), (0xE0000, 0xE0200), (0x10000, 0x110000)]


@functools.cache
def strings(count: int, *, seed: int) -> list[str]:
    """Pieces and characters of all planes in a row, some normalized, some in capitals."""
    rng = np.random.default_rng(seed)
    texts = []
    for length, form in zip(rng.integers(0, 16, count), rng.integers(0, 6, count), strict=True):
        whole, fraction = rng.integers(0, len(PIECES), length), rng.random((length, 2))
        text = ""
        for piece, (kind, where) in zip(whole.tolist(), fraction.tolist(), strict=True):
            low, high = BLOCKS[piece % len(BLOCKS)]
            text += PIECES[piece] if kind < 0.7 else chr(low + int(where * (high - low)))
        if form < 3:
            text = unicodedata.normalize(("NFD", "NFC", "NFKD")[form], text)
        texts.append(text.upper() if form == 3 else text)
    return texts


@pytest.mark.parametrize(("seed", "name"), enumerate(RELEASED))
def test_random_strings(shared, seed, name):
    """20,000 of them, a quarter for each vocabulary."""
    assert_same(released_cache(shared, name), released(shared, name), strings(5000, seed=seed))


FLAGS = [
    dict(zip(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), v, strict=True))
    for v in itertools.product((True, False), (True, False), (None, True, False), (True, False))
]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: "-".join(map(str, flags.values())))
def test_random_strings_with_any_normalizer_flags(small, tmp_path, flags):
    tokenizer = small.tokenizer()
    tokenizer.normalizer = normalizers.BertNormalizer(**flags)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_tokenizer(str(tmp_path / "tokenizer.json"), do_lower_case=None)
    assert has_word_property(vocabulary.tokenizer_json)
    cache = WordCache(vocabulary)
    assert_same(cache, vocabulary, strings(150, seed=7))
    assert_same(cache, vocabulary, PIECES)
    assert_same(cache, vocabulary, [f"a{piece}B{piece}" for piece in PIECES])


def test_every_character(small):
    """Of the first plane, and a nineteenth of the others: alone, and between letters."""
    points = [*range(0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x10FFFF, 19)]
    alone = map(chr, points)
    between = (f"the{chr(point)}cat{chr(point)}\u0301" for point in points)
    both = ["  ".join(pair) for pair in zip(alone, between, strict=True)]
    sentences = [" ".join(both[i : i + 50]) for i in range(0, len(both), 50)]
    assert_same(WordCache(small), small, sentences)


def test_isolated_characters_are_those_of_the_library(small):
    """All CJK ideographs, and punctuation and spaces of the common blocks."""
    isolated = isolated_characters(small.tokenizer(), chinese=True)
    normalizer = small.tokenizer().normalizer
    spaced = {p for p in range(0x3400, 0x30000) if not 0xD800 <= p < 0xE000}
    spaced = {p for p in spaced if normalizer.normalize_str(chr(p)).startswith(" ") and p != 0x3000}
    letters = {p for p in np.flatnonzero(isolated).tolist() if p not in spaced}
    assert set(np.flatnonzero(isolated[0x3400:]) + 0x3400) >= spaced
    assert all(unicodedata.category(chr(p))[0] in "PZ" for p in letters)
    assert {*map(ord, "“”‘’«»—…¿、。「」，！？\u3000\xa0")} <= letters
    without = isolated_characters(small.tokenizer(), chinese=False)
    assert set(np.flatnonzero(without)) == letters


def test_text_that_spells_a_special_token_is_text(shared):
    vocabulary = released(shared, "uncased")
    sentences = ["[MASK]", "a[SEP]b", "[CLS][SEP][PAD]", "é[MASK]é", "[[SEP]]", "[SEP", "SEP]"]
    ids, _ = WordCache(vocabulary).encode(array(sentences * 3))
    assert not set(ids.tolist()) & set(vocabulary.special_ids)
    assert_same(WordCache(vocabulary), vocabulary, sentences)


@pytest.mark.parametrize("name", ["uncased", "multilingual-cased"])
def test_vocab_txt_and_the_released_tokenizer_agree_on_words_up_to_100(shared, name):
    path = shared / "data" / "vocab" / f"bert-base-{name}-tokenizer.json"
    other = load_tokenizer(str(path), do_lower_case=None)
    sentences = [
        text
        for text in [*strings(2000, seed=30), "é" * 100, "y" * 100]
        if all(len(word) <= 100 for word in unicodedata.normalize("NFD", text).split())
    ]
    assert len(sentences) > 1000
    assert lists(released_cache(shared, name).encode(array(sentences))) == lists(
        WordCache(other).encode(array(sentences))
    )
    (long,) = lists(WordCache(other).encode(array(["y" * 101])))
    assert long == [other.unk_id]


# --- the cache itself --------------------------------------------------------------------------


@pytest.mark.parametrize("max_entries", [1, 8, 100])
def test_a_cache_that_is_always_full(small, max_entries, monkeypatch):
    monkeypatch.setattr("transforms.word_cache._BLOCK_BYTES", 5000)
    cache = WordCache(small, max_entries=max_entries)
    sentences = [*texts(DATA / "sentences.txt"), *strings(1000, seed=5)]
    assert_same(cache, small, sentences)
    assert cache.resets > 20
    assert_same(cache, small, sentences)


def test_what_is_stored_is_not_asked_for_again(small):
    cache = WordCache(small)
    stored = ["the", "The", "!", "é" * (LONGEST // 2), "a\x00b", "\x00", "中", "ไ" * 21, "…"]
    cache.encode(array(stored))
    assert cache.misses == len(stored) - 1  # "The" is "the"
    cache.encode(array([" ".join(stored), *stored, "THE", "the!", "the…", "the中the"]))
    assert cache.misses == len(stored) - 1
    for _ in range(2):
        cache.encode(array(["x" * (LONGEST + 1)]))
    assert cache.misses == len(stored) + 1


@pytest.mark.parametrize(
    "word", ["{}abcdefgh{:05}", "abcdefgh{:05}{}", "é{}abcdefg{:05}", "é{1:022}"]
)
def test_words_that_differ_in_few_bytes(small, word):
    """In a table so small that they meet in it."""
    words = [word.format("", i) for i in range(0, 100_000, 37)]
    cache = WordCache(small, max_entries=3 * len(words))
    for _ in range(2):
        assert_same(cache, small, words)
    assert cache.misses == len(words)


def hash_of(words: np.ndarray) -> np.ndarray:
    """The hash of long keys, here in numpy; uint64 [keys, words of a key]."""
    digest = np.full(len(words), int(word_scan._MIX_0), np.uint64)
    for column in words.T:
        digest = (digest ^ column) * np.uint64(int(word_scan._MIX_1))
        digest ^= digest >> np.uint64(29)
    return digest


def test_long_units_of_the_same_hash_are_told_apart(small):
    """The last eight bytes can be chosen so that they undo the difference of the first."""
    rng = np.random.default_rng(4)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
    keys = letters[rng.integers(0, len(letters), (1_500_000, 24))].view(np.uint64)
    keys[:, 1] = keys[0, 1]
    before = hash_of(keys[:, :2])
    keys[:, 2] = keys[0, 2] ^ before[0] ^ before
    assert len(np.unique(hash_of(keys))) == 1
    controls = [byte for byte in range(0x20) if chr(byte) not in "\t\n\r"]
    usable = np.isin(keys.view(np.uint8), [*letters, *controls]).all(axis=1)
    units = [key.tobytes().decode() for key in keys[usable]]
    assert len(set(units)) > 2
    cache = WordCache(small)
    for _ in range(2):
        assert_same(cache, small, [*units, *(unit[:20] for unit in units)])
    assert cache.misses == 2 * len(units)


@pytest.mark.parametrize("word", ["{}", "é{:030}", "{:05}" * 2])
def test_a_full_cache_is_emptied_and_filled_again(small, word):
    cache = WordCache(small, max_entries=100)
    cache.encode(array(word.format(i, i) for i in range(1000)))
    before = cache.misses
    for _ in range(3):
        assert_same(cache, small, ["the cat", "é" * 30])
    assert cache.resets == 1
    assert cache.misses - before == 3


def test_units_of_many_ids_and_of_none(small):
    words = ["\u200b", "\u0301", "a", "qzqzqzqzqz", "é" * 30, "unbelievablenesses", "\u200d\u200b"]
    sentences = [" ".join(some) for some in itertools.permutations(words, 3)]
    cache = WordCache(small)
    assert_same(cache, small, sentences)
    assert_same(cache, small, sentences)
    assert {len(ids) for ids in from_library(small, words)} >= {0, 1}


def test_ids_above_65535(shared):
    vocabulary = released(shared, "multilingual-cased")
    tokens = [t for t in vocabulary.tokens[70_000:] if t.isalpha()][::50]
    ids, _ = released_cache(shared, "multilingual-cased").encode(array(tokens))
    assert ids.dtype == np.uint32
    assert (ids > 65_535).sum() > 200
    assert released_cache(shared, "uncased").encode(array(tokens))[0].dtype == np.uint16


def test_empty_batches_and_sentences(small):
    cache = WordCache(small)
    for sentences in ([], [""], ["", ""], [" \t"], ["", "the", "", "", "cat", ""]):
        assert_same(cache, small, sentences)
    rng = np.random.default_rng(1)
    lines = [*texts(DATA / "sentences.txt")]
    for _ in range(50):
        some = [lines[i] if rng.random() < 0.5 else "" for i in rng.integers(len(lines), size=30)]
        assert_same(cache, small, some)


def test_slices(small):
    lines = [*texts(DATA / "sentences.txt")][:300]
    cache, whole = WordCache(small), array(lines)
    for start, length in ((0, 10), (7, 1), (100, 0), (100, 150), (299, 1)):
        found = lists(cache.encode(whole.slice(start, length)))
        assert found == from_library(small, lines[start : start + length])


@pytest.mark.parametrize(
    "words", [("the", "cat"), ("é", "ü"), ("the", "é"), ("…", "a"), ("x" * 8,) * 2]
)
def test_a_sentence_ends_where_the_next_begins(small, words):
    """There is nothing between two sentences of a batch."""
    assert_same(WordCache(small), small, [*words, *words[::-1], *words])


def test_blocks_do_not_show(small, monkeypatch):
    lines = [*texts(DATA / "sentences.txt")][:400]
    expected = WordCache(small).encode(array(lines))
    for size in (1, 100, 1001):
        monkeypatch.setattr("transforms.word_cache._BLOCK_BYTES", size)
        found = WordCache(small).encode(array(lines))
        assert all(map(np.array_equal, found, expected))


def test_a_failed_call_leaves_nothing_pending(small, monkeypatch):
    cache = WordCache(small)
    with monkeypatch.context() as patch:
        patch.setattr(cache._resolver, "resolve", lambda *_, **__: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            cache.encode(array(["the cat"]))
    assert_same(cache, small, ["the cat"])


def test_threads(small):
    lines = [*texts(DATA / "sentences.txt")]
    parts = [lines[i : i + 200] for i in range(0, len(lines), 100)]
    expected = [from_library(small, part) for part in parts]
    cache = WordCache(small, max_entries=500)
    barrier = threading.Barrier(4)

    def work(thread: int) -> None:
        barrier.wait()
        for i in range(thread, 3 * len(parts), 3):
            assert lists(cache.encode(array(parts[i % len(parts)]))) == expected[i % len(parts)]

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, thread) for thread in range(4)]:
            done.result()


# --- other tokenizers --------------------------------------------------------------------------


def changed(vocabulary: Vocabulary, change: str) -> str:
    tokenizer = vocabulary.tokenizer()
    if change == "normalizer":
        tokenizer.normalizer = normalizers.Lowercase()
    elif change == "pre-tokenizer":
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    elif change == "added token that is not special":
        tokenizer.add_tokens(["new york"])
    elif change == "added token with flags":
        tokenizer.add_special_tokens([AddedToken("<x>", lstrip=True)])
    parts = json.loads(tokenizer.to_str())
    if change == "model":
        parts["model"]["continuing_subword_prefix"] = "@@"
    return json.dumps(parts)


@pytest.mark.parametrize(
    "change",
    [
        "normalizer",
        "pre-tokenizer",
        "model",
        "added token that is not special",
        "added token with flags",
    ],
)
def test_tokenizers_without_the_word_property(small, tmp_path, change):
    (tmp_path / "tokenizer.json").write_text(changed(small, change))
    vocabulary = load_tokenizer(str(tmp_path / "tokenizer.json"), do_lower_case=None)
    assert not has_word_property(vocabulary.tokenizer_json)
    obstacle = word_property_obstacle(vocabulary.tokenizer_json)
    assert obstacle
    assert change in obstacle
    with pytest.raises(ValueError, match="not a tokenizer for the word cache"):
        WordCache(vocabulary)
    sentences = ["", "The cat in New York", "new york [MASK] <x>", *strings(100, seed=11)]
    ids, offsets = PlainEncoder(vocabulary).encode(array(sentences).slice(1))
    assert lists((ids, offsets)) == from_library(vocabulary, sentences[1:])
    assert ids.dtype == np.uint16


def test_released_tokenizers_have_the_word_property(shared):
    paths = sorted((shared / "data" / "vocab").glob("*.json"))
    assert len(paths) == 3
    for path in paths:
        vocabulary = load_tokenizer(str(path), do_lower_case=None)
        assert word_property_obstacle(vocabulary.tokenizer_json) is None
