"""Microseconds an example to plan rows, and to lay out and mask them; here, or against another version.

    python -m benchmarks.kernels books.jsonl --vocab_file vocab.txt [--before TREE]

`TREE` is a checkout of another version: both run in turns, each in a process of its own, and the
best of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

#: Text that is tokenized, at most: some 3 million tokens.
_MEGABYTES = 16
_ROUNDS, _REPEATS = 3, 9
_OPTIONS: dict[str, Any] = {
    "masked_lm_prob": 0.15,
    "short_seq_prob": 0.1,
    "dupe_factor": 5,
    "random_seed": 12345,
    "do_whole_word_mask": True,
    "provenance": False,
}


def measure(corpus: str, vocab_file: str) -> dict[str, float]:
    """Best of some repetitions, in the version that is imported (names have moved since the first)."""
    import numpy as np
    import pyarrow as pa

    from schemas.arrow import DOCUMENT_BATCH, token_batch
    from transforms import examples
    from transforms.sentences import split_batch
    from transforms.tokenization import Encoder, tokenize_batch
    from transforms.vocabulary import load_tokenizer

    try:
        from transforms.token_blocks import gather_block
    except ImportError:
        from transforms.examples import gather_block  # type: ignore[attr-defined,no-redef]
    vocabulary = load_tokenizer(vocab_file, do_lower_case=None)
    texts, size = [], 0
    with open(corpus, encoding="utf8") as file:
        for line in file:
            texts.append(json.loads(line)["text"].strip())
            size += len(texts[-1])
            if size > _MEGABYTES << 20:
                break
    batch = pa.RecordBatch.from_pydict(
        {"text": texts, "source": [""] * len(texts), "language": [None] * len(texts)},
        schema=DOCUMENT_BATCH,
    )
    tokens = tokenize_batch(split_batch(batch, language="en"), Encoder.of(vocabulary))
    block = gather_block([tokens], token_batch(vocabulary.vocab_size))
    special = examples.SpecialTokens(
        cls_id=vocabulary.cls_id,
        sep_id=vocabulary.sep_id,
        mask_id=vocabulary.mask_id,
        unk_id=vocabulary.unk_id,
        is_subword=vocabulary.is_subword,
        random_ids=vocabulary.regular_ids.astype(np.uint16),
    )
    best = {"plan": float("inf"), "lay out, mask": float("inf")}
    for _ in range(_REPEATS):
        start = time.process_time()
        stream = examples.ExampleStream(
            block,
            examples.ExampleOptions(**_OPTIONS),
            special,
            max_seq_length=128,
            max_predictions_per_seq=20,
        )
        planned = time.process_time()
        for _ in stream:
            pass
        done = time.process_time()
        each = 1e6 / stream.counts["examples"]
        best["plan"] = min(best["plan"], (planned - start) * each)
        best["lay out, mask"] = min(best["lay out, mask"], (done - planned) * each)
    return best


def _measured_in(tree: Path, corpus: str, vocab_file: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, corpus, "--vocab_file", vocab_file, "--json"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="JSON lines with a text each")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--before", type=Path, help="a checkout of another version")
    parser.add_argument(
        "--json", action="store_true", help="print the figures of this version only"
    )
    given = parser.parse_args()
    if given.json:
        print(json.dumps(measure(given.corpus, given.vocab_file)))
        return
    here = Path(__file__).resolve().parents[1]
    where = os.path.abspath(given.corpus), os.path.abspath(given.vocab_file)
    trees = {"here": here} | ({"before": given.before.resolve()} if given.before else {})
    best: dict[str, dict[str, float]] = {}
    for _ in range(_ROUNDS):
        for name, tree in trees.items():
            found = _measured_in(tree, *where)
            best[name] = {n: min(us, best.get(name, found)[n]) for n, us in found.items()}
    print(f"| us an example | {' | '.join(best)} |\n|---|{'---|' * len(best)}")
    for step in best["here"]:
        print(f"| {step} | {' | '.join(f'{found[step]:.3f}' for found in best.values())} |")
    totals = [sum(found.values()) for found in best.values()]
    print(f"| together | {' | '.join(f'{total:.3f}' for total in totals)} |")
    if given.before:
        print(f"\nhere / before: {totals[0] / totals[1]:.2f}")


if __name__ == "__main__":
    main()
