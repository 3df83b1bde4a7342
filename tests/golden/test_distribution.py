"""Our examples against the reference's own output, on the same text and vocabulary.

One run of the reference is one draw. Ours is drawn with many seeds, and the reference's figure has
to lie within what single runs of ours scatter. Where we differ on purpose is not compared: the share of
NotNext, and the number of examples, which grows with it, since NotNext puts segments back.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from schemas.arrow import token_batch
from transforms.canonical import canonical_text
from transforms.examples import ExampleOptions, ExampleStream, SpecialTokens
from transforms.sentences import split_batch
from transforms.token_blocks import gather_block
from transforms.tokenization import tokenize_batch
from transforms.vocabulary import load_tokenizer

SEEDS = 120
GOLDENS = (
    "default-smallvocab",
    "short64-smallvocab",
    "wwm-smallvocab",
    "wwm-uncased",
    "long512-cased",
)


def _golden(shared: Path, name: str):
    with gzip.open(shared / "golden" / f"{name}.jsonl.gz", "rt") as file:
        settings = json.loads(file.readline())
        return settings, [json.loads(line) for line in file]


def _vocabulary(shared: Path, settings: dict):
    for folder in (shared / "sample", shared / "data" / "vocab"):
        if (path := folder / settings["vocab"]).exists():
            return load_tokenizer(str(path), do_lower_case=settings["do_lower_case"])
    raise AssertionError(settings["vocab"])


def _statistics(rows, *, longest: int, mask_id: int) -> dict[str, float]:
    """Of rows ``(ids, first of B, positions, labels, next_sentence_label)``."""
    lengths = np.array([len(ids) for ids, *_ in rows])
    now = np.concatenate([np.array(ids)[positions] for ids, _, positions, _, _ in rows])
    labels = np.concatenate([labels for *_, labels, _ in rows])
    return {
        "mean length": lengths.mean(),
        "full rows": (lengths == longest).mean(),
        "rows below half": (lengths < longest / 2).mean(),
        "masked": len(labels) / lengths.sum(),
        "[MASK]": (now == mask_id).mean(),
        "kept": (now == labels).mean(),
        "mean length of A": np.mean([first - 2 for _, first, *_ in rows]),
    }


def _ours(documents, vocabulary, settings: dict, seed: int):
    options = ExampleOptions(
        masked_lm_prob=settings["masked_lm_prob"],
        short_seq_prob=settings["short_seq_prob"],
        dupe_factor=settings["dupe_factor"],
        random_seed=seed,
        do_whole_word_mask=settings["do_whole_word_mask"],
        provenance=False,
    )
    special = SpecialTokens(
        cls_id=vocabulary.cls_id,
        sep_id=vocabulary.sep_id,
        mask_id=vocabulary.mask_id,
        unk_id=vocabulary.unk_id,
        is_subword=vocabulary.is_subword,
        random_ids=vocabulary.regular_ids,
    )
    stream = ExampleStream(
        documents,
        options,
        special,
        max_seq_length=settings["max_seq_length"],
        max_predictions_per_seq=settings["max_predictions_per_seq"],
    )
    for batch in stream:
        rows = batch.to_pydict()
        for ids, types, positions, labels, label in zip(
            rows["input_ids"],
            rows["token_type_ids"],
            rows["masked_lm_positions"],
            rows["masked_lm_ids"],
            rows["next_sentence_label"],
            strict=True,
        ):
            yield ids, types.index(1), positions, labels, label


@pytest.mark.parametrize("name", GOLDENS)
def test_distribution_is_the_references(shared, name):
    settings, golden = _golden(shared, name)
    vocabulary = _vocabulary(shared, settings)
    text = (shared / "sample" / settings["inputs"][0]).read_text(encoding="utf8")
    documents = _documents(text, vocabulary)
    theirs = _statistics(golden, longest=settings["max_seq_length"], mask_id=vocabulary.mask_id)
    draws = [
        _statistics(
            list(_ours(documents, vocabulary, settings, seed)),
            longest=settings["max_seq_length"],
            mask_id=vocabulary.mask_id,
        )
        for seed in range(SEEDS)
    ]
    for what, their in theirs.items():
        ours = np.array([draw[what] for draw in draws])
        assert abs(their - ours.mean()) < 4 * ours.std() + 1e-9, (what, their, ours.mean())


def _documents(text: str, vocabulary):
    import pyarrow as pa

    from schemas.arrow import DOCUMENT_BATCH
    from transforms.tokenization import Encoder

    texts = [canonical_text(document) for document in text.split("\n\n")]
    texts = [document for document in texts if document]
    batch = pa.RecordBatch.from_pydict(
        {"text": texts, "source": [""] * len(texts), "language": [None] * len(texts)},
        schema=DOCUMENT_BATCH,
    )
    sentences = split_batch(batch, language="en", sentence_splitter="none")
    tokens = tokenize_batch(sentences, Encoder.of(vocabulary))
    return gather_block([tokens], token_batch(vocabulary.vocab_size))
