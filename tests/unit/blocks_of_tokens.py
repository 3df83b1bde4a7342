"""Makes token blocks for tests, from lists or at random (seeded)."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from schemas.arrow import token_batch
from transforms.examples import ExampleOptions, SpecialTokens
from transforms.token_blocks import TokenBlock, gather_block

#: [PAD] [UNK] [CLS] [SEP] [MASK] are 0 to 4; from 500 on, every fifth entry continues a word.
VOCAB_SIZE = 1000
PAD, UNK, CLS, SEP, MASK = range(5)
IS_SUBWORD = np.array([i >= 500 and i % 5 == 0 for i in range(VOCAB_SIZE)])
SPECIAL = SpecialTokens(
    cls_id=CLS,
    sep_id=SEP,
    mask_id=MASK,
    unk_id=UNK,
    is_subword=IS_SUBWORD,
    random_ids=np.arange(5, VOCAB_SIZE).astype(np.uint16),
)


def options(**changes) -> ExampleOptions:
    values = {
        "masked_lm_prob": 0.15,
        "short_seq_prob": 0.1,
        "dupe_factor": 2,
        "random_seed": 12345,
        "do_whole_word_mask": True,
        "provenance": True,
    }
    return ExampleOptions(**(values | changes))


def key_of(document: list[list[int]]) -> bytes:
    return hashlib.blake2b(repr(document).encode(), digest_size=16).digest()


def batch_of(documents: list[list[list[int]]]) -> pa.RecordBatch:
    """A token batch; documents are lists of sentences of ids."""
    return pa.RecordBatch.from_pydict(
        {"key": [key_of(d) for d in documents], "sentences": documents},
        schema=token_batch(VOCAB_SIZE),
    )


def block_of(documents: list[list[list[int]]]) -> TokenBlock:
    return gather_block([batch_of(documents)], token_batch(VOCAB_SIZE))


def random_documents(
    rng: np.random.Generator, *, count: int, sentences: int = 30, tokens: int = 40
) -> list[list[list[int]]]:
    """Documents of 1 to ``sentences`` sentences of 1 to ``tokens`` tokens, none of them special."""
    return [
        [
            rng.integers(5, VOCAB_SIZE, rng.integers(1, tokens + 1)).tolist()
            for _ in range(rng.integers(1, sentences + 1))
        ]
        for _ in range(count)
    ]
