"""Rows, bytes and seconds of each kind of data set, from the same text in one run.

python -m benchmarks.kinds books.jsonl --vocab_file vocab.txt
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from schemas.manifest import load_manifest

KINDS: tuple[tuple[str, ...], ...] = (
    (),
    ("--dupe_mode=remask",),
    ("--dupe_mode=remask", "--layout=shared"),
    ("--masking=none",),
    ("--masking=none", "--dupe_factor=1"),
    ("--objective=sop",),
    ("--objective=mlm",),
    ("--max_ngram_size=3",),
    ("--mask_per=word",),
)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--vocab_file", required=True)
    given = parser.parse_args()
    print("| flags | rows | MB | bytes a row | seconds |\n|---|---|---|---|---|")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder, "out")
            command = [sys.executable, "-m", "pipeline", "build", *given.inputs]
            flags = ["--vocab_file", given.vocab_file, "--do_whole_word_mask", *kind]
            start = time.perf_counter()
            subprocess.run(
                [*command, *flags, "--output", str(output)], check=True, capture_output=True
            )
            seconds = time.perf_counter() - start
            (data_set,) = load_manifest(output).data_sets
        size = sum(shard.bytes for shard in data_set.shards)
        print(
            f"| {' '.join(kind) or 'none'} | {data_set.examples:,} | {size / 1e6:.1f} | "
            f"{size / data_set.examples:.0f} | {seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
