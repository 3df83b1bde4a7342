"""Whole builds with words that ``##`` does not mark: what is written keeps them together."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from schemas.manifest import load_manifest
from tests.builds import build_here, digests, run_command, write_text
from tests.small_tokenizers import save_tokenizer, texts
from transforms.sentences import document_key
from transforms.vocabulary import Vocabulary, load_tokenizer
from transforms.word_segments import load_segmenter
from transforms.word_units import CHINESE_BLOCKS

LANGUAGES = ("zh", "ja", "de", "fr", "ko", "ru")
SETTINGS = {
    "sentence_splitter": "none",
    "split_long_sentences": False,  # they are looked up by their numbers
    "dupe_factor": 2,
    "num_shards": 2,
    "provenance": True,
}


@pytest.fixture(scope="module")
def documents() -> list[list[str]]:
    """A sentence a line; more of them than the sample has, cut otherwise."""
    found = []
    for language in LANGUAGES:
        lines = [
            line
            for text in texts(language)
            for line in text.replace("。", "。\n").split("\n")
            if line
        ]
        found += [lines[i : i + 9] for i in range(0, len(lines), 9)]
    return found


def expected_marks(vocabulary: Vocabulary, sentence: str, segmented: bool) -> tuple[list, list]:
    """Ids and marks of a sentence, a token at a time from the library's offsets."""
    encoding = vocabulary.tokenizer().encode(sentence, add_special_tokens=False)
    chinese = [any(a <= ord(c) <= b for a, b in CHINESE_BLOCKS) for c in sentence]
    words = load_segmenter("jieba")(sentence) if segmented else []
    number = [i for i, word in enumerate(words) for _ in word]
    marks = []
    previous_end = -1
    for k, (start, end) in enumerate(encoding.offsets):
        if segmented and chinese[start] and k and chinese[previous_end - 1]:
            marks.append(int(start == previous_end and number[start] == number[start - 1]))
        elif vocabulary.word_marks.marks_first:
            token = encoding.tokens[k]
            begins = token[0] in "▁ĠĊĉ" or encoding.ids[k] in vocabulary.special_ids
            marks.append(int(k > 0 and not begins))
        else:
            marks.append(int(encoding.tokens[k].startswith("##")))
        previous_end = end
    return encoding.ids, marks


@pytest.mark.parametrize(
    ("kind", "segmenter"), [("unigram", "none"), ("bytelevel", "none"), ("chinese", "jieba")]
)
@pytest.mark.parametrize("masking", ["none", "static"])
def test_rows_keep_words_together(tmp_path, documents, kind, segmenter, masking, monkeypatch):
    if segmenter == "jieba":
        pytest.importorskip("jieba")
        jieba = load_segmenter("jieba")
        monkeypatch.setitem(globals(), "load_segmenter", lambda name: jieba)
    vocab_file = save_tokenizer(kind, tmp_path)
    vocabulary = load_tokenizer(str(vocab_file), do_lower_case=None)
    corpus = {}
    for document in documents:
        sentences = [expected_marks(vocabulary, s, segmenter != "none") for s in document]
        corpus[document_key("\n".join(document).encode())] = [s for s in sentences if s[0]]
    output = tmp_path / "out"
    build_here(
        write_text(tmp_path / "in.txt", documents),
        output=output,
        vocab_file=str(vocab_file),
        do_whole_word_mask=True,
        masking=masking,
        word_segmenter=segmenter,
        **SETTINGS,
    )
    joined = rows = 0
    for path in output.glob("seq128/*.parquet"):
        for row in pq.read_table(path).to_pylist():
            joined += check_row(row, corpus, vocabulary)
            rows += 1
    assert rows > 50
    assert joined > 10 * rows


def check_row(row: dict, corpus: dict, vocabulary: Vocabulary) -> int:
    ids = list(row["input_ids"])
    for at, original in zip(
        row.get("masked_lm_positions", ()), row.get("masked_lm_ids", ()), strict=True
    ):
        ids[at] = original
    first_of_b = row["token_type_ids"].index(1)
    marks = [0] * len(ids)
    for side, start, end in (("a", 1, first_of_b - 1), ("b", first_of_b, len(ids) - 1)):
        sentences = corpus[row[f"{side}_document"]]
        sentences = sentences[row[f"{side}_first_sentence"] : row[f"{side}_end_sentence"]]
        tokens = [i for found, _ in sentences for i in found]
        theirs = [m for _, found in sentences for m in found]
        at = next(k for k in range(len(tokens)) if tokens[k : k + end - start] == ids[start:end])
        marks[start:end] = theirs[at : at + end - start]
        marks[start] = 0
    if "continues_word" in row:
        assert [int(mark) for mark in row["continues_word"]] == marks
    else:
        words = np.cumsum(1 - np.array(marks))
        masked = np.zeros(len(ids), int)
        masked[row["masked_lm_positions"]] = 1
        for word, group in itertools.groupby(range(len(ids)), key=lambda k: words[k]):
            assert len({masked[k] for k in group}) == 1, f"word {word} is masked in part"
    return sum(marks)


def test_forked_workers_segment_alike_and_leave_nothing(tmp_path, documents):
    pytest.importorskip("jieba")
    vocab_file = save_tokenizer("chinese", tmp_path)
    corpus = write_text(tmp_path / "in.txt", documents)
    settings = {
        "vocab_file": str(vocab_file),
        "word_segmenter": "jieba",
        "do_whole_word_mask": True,
        **SETTINGS,
    }
    build_here(corpus, output=tmp_path / "here", **settings)
    temp = tmp_path / "temp"
    temp.mkdir()
    cache = temp / "jieba.cache"
    cache.write_bytes(b"\x00of another release")
    for i in range(3):
        write_text(tmp_path / f"in{i}.txt", documents[i::3])
    done = run_command(
        *["build", *(tmp_path / f"in{i}.txt" for i in range(3)), "--vocab_file", vocab_file],
        *["--output", tmp_path / "forked", "--word_segmenter=jieba", "--do_whole_word_mask"],
        *["--sentence_splitter=none", "--no-split_long_sentences", "--dupe_factor=2"],
        *["--num_shards=2", "--provenance"],
        "--num_workers=2",
        env={"TMPDIR": str(temp)},
    )
    assert done.returncode == 0, done.stderr
    assert "prefix dict" not in done.stderr
    assert digests(tmp_path / "forked") == digests(tmp_path / "here")
    assert [*temp.iterdir()] == [cache]
    assert cache.read_bytes() == b"\x00of another release"
    assert load_manifest(tmp_path / "forked").configuration["word_segmenter"] == "jieba"
    # Without the segmenter the masks are others.
    build_here(corpus, output=tmp_path / "without", **settings | {"word_segmenter": "none"})
    assert digests(tmp_path / "without") != digests(tmp_path / "here")


def test_a_missing_package_is_one_line(tmp_path, documents):
    vocab_file = save_tokenizer("chinese", tmp_path)
    corpus = write_text(tmp_path / "in.txt", documents[:3])
    hide = Path(tmp_path / "sitecustomize.py")
    hide.write_text("import importlib.util as u\n_f = u.find_spec\n")
    with hide.open("a") as file:
        file.write("u.find_spec = lambda name, *a: None if name == 'jieba' else _f(name, *a)\n")
    done = run_command(
        *["build", corpus, "--vocab_file", vocab_file, "--output", tmp_path / "out"],
        *["--word_segmenter=jieba", "--do_whole_word_mask"],
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'pip install "bert-data[chinese]"' in done.stderr
    assert not (tmp_path / "out").exists()
