"""Words of Chinese: what the segmenter joins, and that it changes nothing else."""

from __future__ import annotations

import importlib.util
import itertools
import json
import logging
import re
import tempfile
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from schemas.errors import ConfigError
from tests.small_tokenizers import KINDS, small_vocabulary, texts
from transforms import word_segments
from transforms.tokenization import Encoder
from transforms.vocabulary import Vocabulary, load_tokenizer
from transforms.word_segments import WordMarker, count_chinese, load_segmenter
from transforms.word_units import CHINESE_BLOCKS

pytest.importorskip("jieba")

#: The blocks of BERT's ``_is_chinese_char``, written by hand but for the third extension, where the
#: library differs.
CHINESE = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f]+"
)


#: With unknown and rare characters, words that the segmenter glues to Latin, and no spaces of note.
FRAGMENTS = [
    *["中国", "人民银行", "南京市长江大桥", "手机", "维生素"],
    *["的", "茶叶", "清明", "𠀀", "\uf900", "〇", "3月", "2008年"],
    *["iPhone", "phone", "AA制", "卡拉OK", "T恤", "é", "##", "[MASK]"],
    *["カタカナ", "食べる", "한국어", "，", "。", "．", "😀"],
    *[" ", "  ", "\u3000", "\u200b", "\ufffd"],
]


@pytest.fixture(scope="module")
def segmenter():
    return load_segmenter("jieba")


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory) -> dict[str, Vocabulary]:
    return {kind: small_vocabulary(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


def mark(vocabulary, sentences: Sequence[str], segmenter=None):
    array = pa.array(sentences, pa.large_string())
    ids, offsets = Encoder(vocabulary).encode(array)
    marked = WordMarker(vocabulary, segmenter=segmenter).mark(array, ids, offsets)
    return ids, offsets, marked


def joined_texts(tokenizer: Tokenizer, sentence: str, marked: np.ndarray) -> list[str]:
    """The text under each run of tokens that go together."""
    spans = tokenizer.encode(sentence, add_special_tokens=False).offsets
    runs: list[list[int]] = []
    for (start, end), joins in zip(spans, marked, strict=True):
        if joins:
            runs[-1][1] = end
        else:
            runs.append([start, end])
    return [sentence[start:end] for start, end in runs]


def chinese_words(segmenter, sentence: str) -> list[str]:
    """The Chinese parts of the segmenter's words."""
    return [part for word in segmenter(sentence) for part in CHINESE.findall(word)]


def check_words(vocabulary: Vocabulary, segmenter, sentences: list[str]) -> int:
    """Each word is a run of its own, and other tokens are as the table has them."""
    tokenizer = vocabulary.tokenizer()
    ids, offsets, marked = mark(vocabulary, sentences, segmenter)
    joined = 0
    for i, (start, end) in enumerate(itertools.pairwise(offsets.tolist())):
        runs = joined_texts(tokenizer, sentences[i], marked[start:end])
        found = [run for run in runs if CHINESE.search(run)]
        assert found == chinese_words(segmenter, sentences[i])
        joined += sum(len(run) > 1 for run in found)
        spans = tokenizer.encode(sentences[i], add_special_tokens=False).offsets
        others = [k for k, (a, b) in enumerate(spans) if not CHINESE.search(sentences[i][a:b])]
        table = vocabulary.is_subword[ids[start:end]]
        assert marked[start:end][others].tolist() == table[others].tolist()
    return joined


def test_runs_are_the_words_of_the_segmenter(vocabularies, segmenter):
    sentences = [*texts("zh"), *texts("ja"), *texts("ko"), *texts("de")]
    assert check_words(vocabularies["chinese"], segmenter, sentences) > 200


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join), max_size=4))
def test_runs_are_the_words_of_the_segmenter_in_any_mixture(vocabularies, segmenter, sentences):
    check_words(vocabularies["chinese"], segmenter, sentences)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3)).map("".join)))
def test_whatever_the_text_only_chinese_is_marked_anew(vocabularies, segmenter, kind, sentences):
    vocabulary = vocabularies[kind]
    ids, offsets, marked = mark(vocabulary, sentences, segmenter)
    plain_ids, plain_offsets, plain = mark(vocabulary, sentences)
    assert ids.tolist() == plain_ids.tolist()
    assert offsets.tolist() == plain_offsets.tolist()
    for i, (start, end) in enumerate(itertools.pairwise(offsets.tolist())):
        assert not marked[start:end][:1].any()
        alone = mark(vocabulary, [sentences[i]], segmenter)[2]
        assert marked[start:end].tolist() == alone.tolist()
        if not count_chinese([*sentences[i]]):
            assert marked[start:end].tolist() == plain[start:end].tolist()


def test_latin_letters_never_join_chinese_ones(vocabularies, segmenter):
    def glue(text: str) -> list[str]:
        return [text]

    vocabulary = vocabularies["chinese"]
    tokenizer = vocabulary.tokenizer()
    for sentence, wanted in {
        "iphone手机": ["iphone", "手机"],
        "中国phone中国": ["中国", "phone", "中国"],
        "卡拉ok": ["卡拉", "ok"],
        "中国 人民": ["中国", "人民"],
        "中\u200b国": ["中", "国"],
    }.items():
        marked = mark(vocabulary, [sentence], glue)[2]
        assert joined_texts(tokenizer, sentence, marked) == wanted


def test_unknown_characters_stay_in_their_word(vocabularies, segmenter):
    vocabulary = vocabularies["chinese"]
    known = set(vocabulary.tokens)
    word = next(
        word
        for sentence in texts("zh")
        for word in segmenter(sentence)
        if len(word) > 1 and CHINESE.fullmatch(word) and known & {*word} and {*word} - known
    )
    ids, _, marked = mark(vocabulary, [word], segmenter)
    assert vocabulary.unk_id in ids
    assert marked.tolist() == [0] + [1] * (len(word) - 1)


@pytest.mark.parametrize("kind", ["unigram", "metaspace", "bytelevel"])
def test_pieces_of_other_kinds_are_cut_where_the_segmenter_cuts(vocabularies, segmenter, kind):
    """A piece may hold several words; where one ends at a piece's end, the next piece begins one."""
    vocabulary = vocabularies[kind]
    tokenizer = vocabulary.tokenizer()
    sentences = texts("zh")
    _, offsets, marked = mark(vocabulary, sentences, segmenter)
    checked = 0
    for i, (start, end) in enumerate(itertools.pairwise(offsets.tolist())):
        sentence = sentences[i]
        word_ends = set(itertools.accumulate(map(len, segmenter(sentence))))
        spans = tokenizer.encode(sentence, add_special_tokens=False).offsets
        for (_, before), (after, _), joins in zip(
            spans, spans[1:], marked[start:end][1:], strict=False
        ):
            if before == after and CHINESE.fullmatch(sentence[after - 1 : after + 1]):
                assert joins == (after not in word_ends)
                checked += 1
    assert checked > 100


def test_a_space_that_is_a_token_belongs_to_the_word_after_it(vocabularies, segmenter):
    vocabulary = vocabularies["metaspace"]
    sentences = [f"der {text}" for text in texts("zh")]
    ids, offsets, marked = mark(vocabulary, sentences, segmenter)
    space = vocabulary.tokens.index("▁")
    after = np.flatnonzero(ids[:-1] == space) + 1
    after = after[~np.isin(after, offsets)]
    assert len(after) > 5
    assert marked[after].all()


def test_the_blocks_are_those_that_the_tokenizer_sets_apart(vocabularies):
    normalizer = vocabularies["chinese"].tokenizer().normalizer
    for first, last in CHINESE_BLOCKS:
        for point in (first, last):
            assert normalizer.normalize_str(f"a{chr(point)}b")[:2] == "a "
        for point in (first - 1, last + 1):
            if not any(a <= point <= b for a, b in CHINESE_BLOCKS):
                assert normalizer.normalize_str(f"a{chr(point)}b")[:2] != "a "


def test_a_segmenter_of_its_own_that_leaves_no_trace(tmp_path, monkeypatch, capfd, segmenter):
    import jieba

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # What another release, or another process at work, may have left there.
    cache = tmp_path / "jieba.cache"
    cache.write_bytes(b"\x00not a dictionary")
    sentence = "南京市长江大桥和上海自来水"
    wanted = ["南京市", "长江大桥", "和", "上海", "自来水"]
    assert load_segmenter("jieba")(sentence) == segmenter(sentence) == wanted
    assert [*tmp_path.iterdir()] == [cache]
    assert cache.read_bytes() == b"\x00not a dictionary"
    assert not jieba.dt.initialized
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert logging.getLogger("jieba").handlers  # it would have said something there


def test_a_package_that_is_missing_is_said_in_a_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as error:
        load_segmenter("jieba")
    assert str(error.value) == (
        "--word_segmenter='jieba': needs a package that is not installed: "
        'pip install "bert-data[chinese]"'
    )
    word_segments.require_segmenter("none")


def test_a_segmenter_that_loses_text_is_not_believed(vocabularies):
    with pytest.raises(RuntimeError, match="words are not the text"):
        mark(vocabularies["chinese"], ["中国 人民"], str.split)


def test_a_process_has_one_marker_a_vocabulary_and_segmenter(vocabularies):
    vocabulary = vocabularies["chinese"]
    assert WordMarker.of(vocabulary, "jieba") is WordMarker.of(vocabulary, "jieba")
    assert WordMarker.of(vocabulary, "jieba") is not WordMarker.of(vocabulary, "none")


def test_the_released_chinese_vocabulary(shared, segmenter):
    folder = shared / "data"
    path = folder / "vocab" / "bert-base-chinese-tokenizer.json"
    vocabulary = load_tokenizer(str(path), do_lower_case=None)
    records = (folder / "corpora" / "handbook.zh-CN.jsonl").read_text("utf8").splitlines()[:20]
    sentences = [
        line for record in records for line in re.split("\n|(?<=。)", json.loads(record)["text"])
    ]
    assert check_words(vocabulary, segmenter, sentences) > 2000
