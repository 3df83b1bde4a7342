"""What tiny learns of a corpus in 2,000 steps, as a table.

    bert-data build books.jsonl --vocab_file vocab.txt --output books --validation_fraction 0.01
    python -m benchmarks.train_books books --output books-model [flags of bert-train]

It runs ``bert-train`` with validation at every quarter of the steps, and prints what is in its
``metrics.jsonl``. About ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_FLAGS = {"model": "tiny", "batch_size": "32", "learning_rate": "1e-3", "warmup_steps": "200"}


def table(lines: list[dict[str, Any]], *, steps: int) -> str:
    """Validation at a quarter, a half and all of the steps."""
    head = "| step | loss | perplexity | right | [MASK] | random | kept | pairs right |"
    rows = [head, "|---" * 8 + "|"]
    for line in lines:
        if line["kind"] == "validation" and line["step"] in (steps // 4, steps // 2, steps):
            shares = [
                line.get(name)
                for name in (
                    "masked_lm_accuracy",
                    "mask_token_accuracy",
                    "random_token_accuracy",
                    "kept_token_accuracy",
                    "next_sentence_accuracy",
                )
            ]
            cells = ["" if share is None else f"{share:.1%}" for share in shares]
            loss, perplexity = line["masked_lm_loss"], line["perplexity"]
            rows.append(
                f"| {line['step']:,} | {loss:.3f} | {perplexity:,.0f} | {' | '.join(cells)} |"
            )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", help="a data set with a validation split")
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=2_000, help="a multiple of 4")
    given, more = parser.parse_known_args()
    command = [sys.executable, "-m", "train", given.data, "--output", given.output]
    command += ["--steps", str(given.steps), "--save_checkpoints_steps", str(given.steps // 4)]
    command += [text for name, value in _FLAGS.items() for text in (f"--{name}", value)]
    subprocess.run([*command, *more], check=True)
    text = (Path(given.output) / "metrics.jsonl").read_text(encoding="utf8")
    lines = [json.loads(line) for line in text.splitlines()]
    run = next(line for line in lines if line["kind"] == "run")
    print(f"Token frequencies alone: {run['baseline_loss']:.3f}", end="")
    print(f", on held-out rows {run['baseline_validation_loss']:.3f}")
    print(table(lines, steps=given.steps))


if __name__ == "__main__":
    main()
