"""Vocabularies of other kinds than BERT's: special tokens by role, and what marks words."""

from __future__ import annotations

import itertools
import json
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from schemas.errors import ConfigError
from tests.small_tokenizers import (
    ALBERT,
    BERT,
    KINDS,
    ROBERTA,
    byte_level,
    save_tokenizer,
    small_vocabulary,
    texts,
    unigram,
)
from transforms.tokenization import Encoder
from transforms.vocabulary import Vocabulary, load_tokenizer
from transforms.word_marks import WordMarks, find_word_marks
from transforms.word_segments import WordMarker


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory) -> dict[str, Vocabulary]:
    return {kind: small_vocabulary(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


def words_of(vocabulary: Vocabulary, sentences: list[str]) -> list[list[list[int]]]:
    """The ids of each sentence in groups: what is masked together."""
    array = pa.array(sentences, pa.large_string())
    ids, offsets = Encoder(vocabulary).encode(array)
    continues = WordMarker(vocabulary).mark(array, ids, offsets)
    assert continues.dtype == np.uint8
    assert len(continues) == len(ids)
    found = []
    for start, end in itertools.pairwise(offsets.tolist()):
        groups: list[list[int]] = []
        for token, joins in zip(ids[start:end].tolist(), continues[start:end], strict=True):
            if joins:
                groups[-1].append(token)
            else:
                groups.append([token])
        found.append(groups)
    return found


@pytest.mark.parametrize(
    ("kind", "names"), [("unigram", ALBERT), ("metaspace", ROBERTA), ("bytelevel", ROBERTA)]
)
def test_special_tokens_by_any_name(vocabularies, kind, names):
    vocabulary = vocabularies[kind]
    roles = [
        vocabulary.pad_id,
        vocabulary.unk_id,
        vocabulary.cls_id,
        vocabulary.sep_id,
        vocabulary.mask_id,
    ]
    wanted = ALBERT if names is ALBERT else ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    assert [vocabulary.tokens[i] for i in roles] == wanted
    assert sorted(vocabulary.special_ids) == sorted(roles) == [0, 1, 2, 3, 4]
    assert not set(vocabulary.regular_ids) & set(roles)
    assert vocabulary.warnings == ()


@pytest.mark.parametrize("kind", ["unigram", "metaspace", "bytelevel"])
def test_text_never_becomes_a_special_token(vocabularies, kind):
    vocabulary = vocabularies[kind]
    spelled = [" ".join(f"a{name}b {name}" for name in (*ALBERT, *ROBERTA))]
    ids, _ = Encoder(vocabulary).encode(pa.array(spelled, pa.large_string()))
    assert not set(ids.tolist()) & (set(vocabulary.special_ids) - {vocabulary.unk_id})


def test_the_names_of_bert_win_and_a_missing_role_is_named(tmp_path):
    both = [*BERT, "<pad>", "<s>", "</s>", "<mask>", "<unk>", "a"]
    path = tmp_path / "tokenizer.json"

    def save(tokens):
        model = models.WordLevel({t: i for i, t in enumerate(tokens)}, unk_token=tokens[1])
        Tokenizer(model).save(str(path))

    def load():
        return load_tokenizer(str(path), do_lower_case=None)

    save(both)
    assert (load().pad_id, load().cls_id, load().mask_id) == (0, 2, 4)
    save(["<pad>", "<unk>", "[cls]", "a"])
    with pytest.raises(ConfigError) as error:
        load()
    text = str(error.value)
    assert "\n" not in text
    assert "has no [CLS] or <s>, [SEP] or </s>, [MASK] or <mask>" in text
    assert "it has [cls], but the case matters" in text
    # A list of tokens is BERT's, whose tokenizer knows no other names.
    listed = tmp_path / "vocab.txt"
    listed.write_text("\n".join([*ROBERTA, "a"]))
    with pytest.raises(ConfigError, match=r"has no \[PAD\] \[UNK\] \[CLS\] \[SEP\] \[MASK\]$"):
        load_tokenizer(str(listed), do_lower_case=None)


def test_kinds_are_told_by_the_parts_of_the_tokenizer(vocabularies):
    assert vocabularies["unigram"].word_marks == WordMarks("sentencepiece", "▁")
    assert vocabularies["metaspace"].word_marks == WordMarks("sentencepiece", "▁")
    assert vocabularies["bytelevel"].word_marks == WordMarks("bytelevel", "Ġ")
    assert vocabularies["chinese"].word_marks == WordMarks("wordpiece", "##")
    llama = Tokenizer(models.BPE())
    assert find_word_marks(llama) == WordMarks("wordpiece", "##")
    llama.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    assert find_word_marks(llama).kind == "sentencepiece"
    nested = Tokenizer(models.BPE())
    nested.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(use_regex=False)]
    )
    assert find_word_marks(nested).kind == "bytelevel"
    other_prefix = Tokenizer(models.WordPiece({"a": 0}, continuing_subword_prefix="@@"))
    other_prefix.decoder = decoders.WordPiece(prefix="@@")
    assert find_word_marks(other_prefix) == WordMarks("wordpiece", "@@")


def test_the_table_of_single_tokens(vocabularies):
    for vocabulary in vocabularies.values():
        assert not vocabulary.is_subword[list(vocabulary.special_ids)].any()
        assert vocabulary.is_subword.any()
    starts = WordMarks("bytelevel", "Ġ")
    assert not any(starts.continues(t) for t in ("Ġthe", "Ġ", "Ċ", "ĉĉ", "čĊ", "Âł", "ãĢĢ", ""))
    assert all(starts.continues(t) for t in ("the", "Ã©", "ł", ".", "ä¸", "theĠ"))
    pieces = WordMarks("sentencepiece", "▁")
    assert [pieces.continues(t) for t in ("▁the", "▁", "the", "<0xE4>", "")] == [0, 0, 1, 1, 0]


@pytest.mark.parametrize("kind", ["unigram", "metaspace", "bytelevel"])
def test_whole_words_are_the_words_between_spaces(vocabularies, kind):
    vocabulary = vocabularies[kind]
    tokenizer = Tokenizer.from_str(vocabulary.tokenizer_json)
    sentences = [" ".join(text.split()) for text in texts()]
    found = words_of(vocabulary, sentences)
    pieces = 0
    for sentence, groups in zip(sentences, found, strict=True):
        if kind == "unigram":
            sentence = unicodedata.normalize("NFKC", sentence).lower()
        decoded = [tokenizer.decode(ids).strip() for ids in groups]
        assert decoded == sentence.split()
        pieces += sum(len(ids) > 1 for ids in groups)
    assert pieces > 1000


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(sentences=st.lists(st.text(max_size=30), max_size=6))
def test_no_word_reaches_across_sentences(vocabularies, kind, sentences):
    vocabulary = vocabularies[kind]
    together = words_of(vocabulary, sentences)
    # Alone it is the same as among others, so no sentence knows of the one before it.
    assert together == [words_of(vocabulary, [sentence])[0] for sentence in sentences]


def test_the_first_token_begins_a_word_without_a_mark(vocabularies):
    vocabulary = vocabularies["bytelevel"]
    ids, _ = Encoder(vocabulary).encode(pa.array(["der"], pa.large_string()))
    assert vocabulary.is_subword[ids].all()
    assert [len(groups) for groups in words_of(vocabulary, ["der", "der der", "", "der"])] == (
        [1, 2, 0, 1]
    )


def test_wordpieces_follow_the_table(vocabularies):
    vocabulary = vocabularies["chinese"]
    array = pa.array(["phone abc 中国", "##one"], pa.large_string())
    ids, offsets = Encoder(vocabulary).encode(array)
    marked = WordMarker(vocabulary).mark(array, ids, offsets)
    assert marked.tolist() == vocabulary.is_subword[ids].tolist()
    assert 0 < marked.sum() < len(marked)


def test_a_tokenizer_that_drops_merges_at_random_no_longer_does(tmp_path):
    tokenizer = byte_level()
    steady = load_tokenizer(str(save_tokenizer("bytelevel", tmp_path)), do_lower_case=None)
    tokenizer.model.dropout = 0.5
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert json.loads((tmp_path / "tokenizer.json").read_text())["model"]["dropout"] == 0.5
    vocabulary = load_tokenizer(str(tmp_path / "tokenizer.json"), do_lower_case=None)
    assert [w for w in vocabulary.warnings if "at random" in w]
    assert vocabulary.digest == steady.digest


def test_capitals_are_looked_for_in_the_text_that_tokens_stand_for(tmp_path):
    """Ġ is a capital letter, and an accent that no normalizer strips is no contradiction."""
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_tokenizer(str(tmp_path / "tokenizer.json"), do_lower_case=True)
    (warning,) = vocabulary.warnings
    assert "upper-case letters" in warning
    assert "Ġ" not in warning
    tokenizer = unigram()
    tokenizer.normalizer = None
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_tokenizer(str(tmp_path / "tokenizer.json"), do_lower_case=None)
    (warning,) = vocabulary.warnings
    assert warning.endswith("words with capitals fall into small pieces")
