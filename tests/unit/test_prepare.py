"""What is looked up before a build: shards, workers, and what is said of settings that do nothing."""

from __future__ import annotations

import gzip
import importlib.util
import textwrap

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from pipeline.check import check
from pipeline.config import BuildConfig
from pipeline.prepare import SMALL_INPUT_BYTES, choose_workers, default_num_shards, prepare
from schemas.errors import ConfigError
from schemas.manifest import load_manifest
from tests.builds import DATA, VOCAB, documents_of, write_jsonl, write_text
from tests.small_tokenizers import ALBERT, save_tokenizer


def prepared(*inputs, **settings):
    values = {"vocab_file": str(VOCAB), "output": "nowhere", "input": tuple(map(str, inputs))}
    return prepare(BuildConfig.from_values(values | settings))


def test_shards_grow_with_the_text_and_never_shrink():
    found = [default_num_shards(megabytes << 20) for megabytes in range(0, 200_000, 7)]
    assert found == sorted(found)
    assert found[0] == 1
    assert default_num_shards(130_600_000) == 16
    assert default_num_shards(10 * 10**12) == 99_999  # names have five digits
    # Flat memory: ten times the text makes blocks of at most twice the size.
    assert 1_306_000_000 / default_num_shards(1_306_000_000) < 2.1 * 130_600_000 / 16


def test_small_input_takes_one_process_and_what_is_asked_for_counts():
    assert choose_workers(None, text_bytes=SMALL_INPUT_BYTES - 1) == 1
    assert choose_workers(5, text_bytes=1) == 5


def test_as_many_workers_read_a_compressed_file_as_there_are(tmp_path):
    path = tmp_path / "a.txt.gz"
    text = (DATA / "sentences.txt").read_bytes() * 30
    path.write_bytes(gzip.compress(text, 1))
    for workers in (1, 3):
        tasks = prepared(path, num_workers=workers).job.tasks
        assert max(share.num_stripes for task in tasks for share in task.shares) == workers


def test_the_splitter_follows_the_format(tmp_path):
    documents = documents_of(DATA / "sentences.txt")[:4]
    text = write_text(tmp_path / "a.txt", documents)
    jsonl = write_jsonl(tmp_path / "a.jsonl", documents)
    assert prepared(text).job.config.sentence_splitter == "none"
    assert prepared(jsonl).job.config.sentence_splitter == "sentencex"
    assert prepared(text, sentence_splitter="sentencex").job.config.sentence_splitter == "sentencex"
    with pytest.raises(ConfigError, match="partly BERT's text format"):
        prepared(text, jsonl)
    empty = tmp_path / "b.txt"
    empty.touch()
    assert prepared(empty, jsonl).job.config.sentence_splitter == "sentencex"


def test_settings_without_effect_are_said(tmp_path):
    path = DATA / "sentences.txt"
    assert prepared(path).warnings == ()
    (said,) = prepared(path, language="de").warnings
    assert said.startswith("--language=de has no effect: the input is read as BERT's text format")
    assert "--format prose" in said
    assert prepared(path, language="de", format="prose").warnings == ()
    words = tmp_path / "vocab.txt"
    words.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\na\n")
    (said,) = prepared(path, vocab_file=str(words), do_whole_word_mask=True).warnings
    assert said.startswith("--do_whole_word_mask has no effect")


def test_lines_that_are_parts_of_wrapped_paragraphs_are_said(tmp_path):
    documents = documents_of(DATA / "sentences.txt")
    paragraphs = [textwrap.fill(" ".join(sentences), 72) for sentences in documents]
    wrapped = tmp_path / "wrapped.txt.gz"
    wrapped.write_bytes(gzip.compress("\r\n\r\n".join(paragraphs).replace("\n", "\r\n").encode()))
    lines = write_text(tmp_path / "lines.txt", documents)
    for settings, how in (({}, "text"), ({"format": "prose"}, "prose")):
        (said,) = prepared(lines, wrapped, **settings).warnings
        assert said.startswith(f"{wrapped} looks like paragraphs with a line break")
        assert (
            f"the end of a sentence in {how}; --format gutenberg joins such lines, and takes"
            in said
        )
        assert prepared(lines, **settings).warnings == ()
    # Somebody has said how it is.
    for settings in (
        {"format": "text"},
        {"sentence_splitter": "none"},
        {"format": "gutenberg"},
        {"format": "prose", "document_separator": "***"},  # which gutenberg has not
    ):
        assert prepared(wrapped, **settings).warnings == ()


@pytest.mark.parametrize(
    "line",
    [
        "这是一个很好的句子他说好的",
        "This is one.",
        "Each has four words and more.",
        "यह एक अच्छा वाक्य है।",
    ],
)
def test_lines_of_one_length_are_not_yet_wrapped_ones(tmp_path, line):
    path = tmp_path / "lines.txt"
    path.write_text(f"{line}\n" * 50 + f"\n{line}\n")
    assert not any("line break" in said for said in prepared(path).warnings)


def test_whole_words_where_a_token_is_a_word(tmp_path, monkeypatch):
    path = DATA / "sentences.txt"

    def said(vocab_file, **settings):
        return prepared(path, vocab_file=str(vocab_file), **settings).warnings

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    characters = [chr(0x4E00 + i) for i in range(2000)]
    words, pieces = tmp_path / "vocab.txt", tmp_path / "pieces.txt"
    words.write_text("\n".join(specials + characters))
    (text,) = said(words, do_whole_word_mask=True)
    assert text.startswith("--do_whole_word_mask has no effect: no entry")
    assert "--word_segmenter jieba" in text
    # As in bert-base-chinese: pieces that Chinese text never has.
    pieces.write_text("\n".join(specials + characters + [f"##{c}" for c in characters]))
    (text,) = said(pieces, do_whole_word_mask=True)
    assert text.startswith("--do_whole_word_mask has no effect on Chinese")
    assert "2,000 entries" in text
    for vocab_file in (words, pieces):
        assert said(vocab_file) == ()
        assert said(vocab_file, do_whole_word_mask=True, word_segmenter="jieba") == ()
    model = models.Unigram([(t, 0.0) for t in [*ALBERT, *"ABC", "▁a", *characters]], unk_id=1)
    spaced = Tokenizer(model)
    spaced.pre_tokenizer = pre_tokenizers.Metaspace()
    spaced.save(str(tmp_path / "spaced.json"))
    (text,) = said(tmp_path / "spaced.json", do_whole_word_mask=True)
    assert text.startswith("--do_whole_word_mask takes Chinese between two spaces for one word")
    for kind in ("unigram", "bytelevel"):
        assert said(save_tokenizer(kind, tmp_path), do_whole_word_mask=True) == ()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install"):
        said(pieces, word_segmenter="jieba")


def test_marks_are_made_where_the_table_does_not_do(tmp_path):
    path = DATA / "sentences.txt"

    def makes(vocab_file, **settings):
        return prepared(path, vocab_file=str(vocab_file), **settings).job.word_marks

    assert not makes(VOCAB)
    assert not makes(VOCAB, do_whole_word_mask=True)
    assert not makes(VOCAB, masking="none")
    assert not makes(VOCAB, word_segmenter="jieba")
    assert makes(VOCAB, word_segmenter="jieba", do_whole_word_mask=True)
    other = save_tokenizer("bytelevel", tmp_path)
    assert not makes(other)
    assert makes(other, do_whole_word_mask=True)


def test_a_vocabulary_needs_words_to_replace_others_with(tmp_path):
    empty = tmp_path / "vocab.txt"
    empty.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[unused0]\n")
    with pytest.raises(ConfigError, match=r"only special and \[unused\] tokens"):
        prepared(DATA / "sentences.txt", vocab_file=str(empty))
    assert prepared(DATA / "sentences.txt", vocab_file=str(empty), random_tokens="all").job


@pytest.mark.parametrize("field", ["output", "temp_dir"])
def test_folders_have_names_that_beam_can_hand_on(tmp_path, field):
    path = write_text(tmp_path / "a.txt", [["One sentence."]])
    with pytest.raises(ConfigError, match="has bytes that are not UTF-8; give another name"):
        prepared(path, **{field: "out\udcff"})


def test_nor_is_a_data_set_looked_for_in_another():
    for read in (load_manifest, check):
        with pytest.raises(
            ConfigError, match=r"--directory='out.udcff': has bytes that are not UTF-8"
        ):
            read("out\udcff")
