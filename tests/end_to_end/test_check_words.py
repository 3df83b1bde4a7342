"""``bert-data check`` where ``##`` does not mark words: by the corpus, whole words are whole."""

from __future__ import annotations

import pytest

from pipeline.check import audit
from schemas.manifest import load_manifest
from tests.builds import DATA, build_here
from tests.faults import Planter, Row
from tests.small_tokenizers import save_tokenizer

CORPUS = DATA / "multilingual.jsonl"


def broken(directory, *, corpus: bool) -> set[str]:
    inputs = [str(CORPUS)] if corpus else []
    found = audit(str(directory), load_manifest(directory), corpus=inputs, num_workers=1)
    assert bool(found.violations) == bool(found.broken)
    return set(found.broken)


@pytest.mark.parametrize(
    ("kind", "segmenter"), [("unigram", "none"), ("bytelevel", "none"), ("chinese", "jieba")]
)
def test_words_of_other_vocabularies(tmp_path, kind, segmenter):
    if segmenter == "jieba":
        pytest.importorskip("jieba")
    vocab_file = save_tokenizer(kind, tmp_path)
    for objective, masking in (("nsp", "static"), ("mlm", "none")):
        output = tmp_path / masking
        build_here(
            CORPUS,
            output=output,
            vocab_file=str(vocab_file),
            do_whole_word_mask=True,
            word_segmenter=segmenter,
            provenance=True,
            dupe_factor=2,
            num_shards=2,
            objective=objective,
            masking=masking,
        )
        assert not broken(output, corpus=False)
        assert not broken(output, corpus=True)
        spoil(output, masking)
        assert not broken(output, corpus=False) - {"rate"}
        rule = "half_word" if masking == "static" else "continues_word"
        assert rule in broken(output, corpus=True)


def spoil(output, masking: str) -> None:
    """In many rows, one prediction is taken back, or one token is said to begin a word."""
    planter = Planter(output)
    for number in range(2):
        rows = planter.rows(number)
        for row in rows:
            if masking == "none":
                begin_a_word(row)
            elif row["masked_lm_positions"]:
                planter.forget(row, row["masked_lm_positions"][-1])
        planter.write(rows, number)


def begin_a_word(row: Row) -> None:
    if True in row["continues_word"]:
        row["continues_word"][row["continues_word"].index(True)] = False
