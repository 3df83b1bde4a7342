"""Corpora with sentences that no row has room for: counted, split, and still what the laws promise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.check import audit
from pipeline.summary import warnings_after
from schemas.errors import ConfigError
from schemas.manifest import load_manifest
from tests.builds import DATA, build_here, digests, documents_of, write_text
from tests.faults import Planter
from tests.small_tokenizers import save_tokenizer

SETTINGS: dict[str, Any] = {
    "num_shards": 2,
    "max_seq_length": (32, 64),
    "sentence_splitter": "none",
    "dupe_factor": 3,
    "provenance": True,
    "split_long_sentences": True,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The sample, six sentences a line."""
    documents = [
        [" ".join(lines[i : i + 6]) for i in range(0, len(lines), 6)]
        for lines in documents_of(DATA / "sentences.txt")
    ]
    return write_text(tmp_path_factory.mktemp("corpus") / "long.txt", documents)


@pytest.fixture(scope="module")
def split(corpus, tmp_path_factory):
    output = tmp_path_factory.mktemp("split") / "out"
    build_here(corpus, output=output, **SETTINGS)
    return output


def broken(output, corpus) -> set[str]:
    return set(
        audit(str(output), load_manifest(output), corpus=[str(corpus)], num_workers=1).broken
    )


def test_next_to_nothing_is_left_out(corpus, split, tmp_path):
    build_here(corpus, output=tmp_path / "out", **SETTINGS | {"split_long_sentences": False})
    cut, whole = load_manifest(tmp_path / "out"), load_manifest(split)
    assert cut.counts.tokens == whole.counts.tokens
    assert cut.counts.sentences == whole.counts.sentences
    for before, after in zip(cut.data_sets, whole.data_sets, strict=True):
        assert before.long_sentences == after.long_sentences
        assert 0 < (after.long_sentences or 0) < whole.counts.sentences
        lost, still = before.rates.uncovered_tokens or 0, after.rates.uncovered_tokens or 0
        assert lost > 0.2
        assert still < lost / 4
    # A row has room for more of them, the longer it is.
    of_short, of_long = (d.long_sentences or 0 for d in whole.data_sets)
    assert of_short > of_long
    assert whole.fingerprint != cut.fingerprint


def test_each_length_is_as_if_alone(corpus, split, tmp_path):
    for length in SETTINGS["max_seq_length"]:
        output = tmp_path / str(length)
        build_here(corpus, output=output, **SETTINGS | {"max_seq_length": (length,)})
        alone = digests(output)
        assert alone == {p: d for p, d in digests(split).items() if p in alone}
        assert len(alone) == 2


def test_runners_and_replays_write_the_same(corpus, split, tmp_path):
    again = {"beam_args": ["--direct_runner_bundle_repeat=1"]}
    for name, how in (("replayed", again), ("own", {"runner": "FnApiRunner"})):
        build_here(corpus, output=tmp_path / name, **SETTINGS, **how)
        assert digests(tmp_path / name) == digests(split)
    build_here(corpus, output=tmp_path / "forked", **SETTINGS | {"num_workers": 2})
    assert digests(tmp_path / "forked") == digests(split)


@pytest.mark.parametrize(
    "kind",
    [{}, {"objective": "sop"}, {"objective": "mlm"}, {"dupe_mode": "remask", "layout": "shared"}],
    ids=lambda kind: "-".join(kind.values()) or "nsp",
)
def test_the_audit_proves_it(corpus, tmp_path, kind):
    output = tmp_path / "out"
    manifest = build_here(corpus, output=output, **SETTINGS | kind)
    assert all(d.long_sentences for d in manifest.data_sets)
    assert not broken(output, corpus)


@pytest.mark.parametrize("vocabulary", ["unigram", "chinese"])
def test_words_that_the_batches_mark(tmp_path, vocabulary):
    corpus, output = DATA / "multilingual.jsonl", tmp_path / "out"
    vocab_file = str(save_tokenizer(vocabulary, tmp_path))
    segmenter = {"word_segmenter": "jieba"} if vocabulary == "chinese" else {}
    if segmenter:
        pytest.importorskip("jieba")
    settings = SETTINGS | {"vocab_file": vocab_file, "do_whole_word_mask": True} | segmenter
    manifest = build_here(corpus, output=output, **settings | {"masking": "none"})
    assert all(d.long_sentences for d in manifest.data_sets)
    assert not broken(output, corpus)


def test_the_audit_finds_a_wrong_count_and_other_sentences(corpus, split, tmp_path):
    output = tmp_path / "out"
    build_here(corpus, output=output, **SETTINGS)
    path = output / "manifest.json"
    said = json.loads(path.read_text())
    said["data_sets"][0]["long_sentences"] += 1
    path.write_text(json.dumps(said))
    assert broken(output, corpus) == {"counts"}
    said["data_sets"][0]["long_sentences"] -= 1
    path.write_text(json.dumps(said))
    planter = Planter(output)
    rows = planter.rows(0)
    for row in rows:
        row["a_end_sentence"] += 1000
    planter.write(rows, 0)
    assert "sentence_span" in broken(output, corpus)


def test_a_corpus_without_them_has_the_rows_that_it_had(tmp_path):
    corpus = DATA / "sentences.txt"
    settings = SETTINGS | {"max_seq_length": (128,)}
    found = []
    for split in (True, False):
        settings["split_long_sentences"] = split
        manifest = build_here(corpus, output=tmp_path / str(split), **settings)
        assert all(d.long_sentences == 0 for d in manifest.data_sets)
        found.append(digests(tmp_path / str(split)))
    assert found[0] == found[1]


def test_an_older_manifest_is_still_checked(corpus, tmp_path):
    """It has neither the setting nor the count."""
    output = tmp_path / "old"
    build_here(corpus, output=output, **SETTINGS | {"split_long_sentences": False})
    path = output / "manifest.json"
    old = json.loads(path.read_text())
    del old["configuration"]["split_long_sentences"]
    for data_set in old["data_sets"]:
        del data_set["long_sentences"]
    path.write_text(json.dumps(old))
    assert not broken(output, corpus)


def test_a_warning_says_what_to_do(corpus, tmp_path):
    cut = build_here(corpus, output=tmp_path / "a", **SETTINGS | {"split_long_sentences": False})
    assert any("--split_long_sentences" in line for line in warnings_after(cut))
    kept = build_here(corpus, output=tmp_path / "b", **SETTINGS)
    assert not any("--split_long_sentences" in line for line in warnings_after(kept))


def test_running_text_that_is_taken_for_sentences_is_said(tmp_path):
    paragraph = "The fox saw the grapes, and they hung high. He went away. " * 10
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join([paragraph, paragraph + "So it was."]))
    said = "a line was taken for a sentence, and has "
    taken = build_here(path, output=tmp_path / "a", dupe_factor=1)
    assert any(line.startswith(said) for line in warnings_after(taken))
    read = build_here(path, output=tmp_path / "b", dupe_factor=1, sentence_splitter="sentencex")
    assert not any("a line was taken" in line for line in warnings_after(read))


def test_the_reference_is_what_it_was(corpus, tmp_path):
    settings = {"exact_reference": True, "max_seq_length": (64,), "dupe_factor": 1}
    with pytest.raises(ConfigError, match="split_long_sentences"):
        build_here(corpus, output=tmp_path / "out", split_long_sentences=True, **settings)
    manifest = build_here(corpus, output=tmp_path / "out", provenance=True, **settings)
    assert manifest.data_sets[0].long_sentences
    assert not broken(tmp_path / "out", corpus)
