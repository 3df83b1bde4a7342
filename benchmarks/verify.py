"""Builds a data set with two workers and proves every row against the corpus.

    python -m benchmarks.verify books.jsonl --vocab_file vocab.txt

Token ids of the corpus come from the `tokenizers` library alone, sentence by sentence; every A and B
is looked up where the row's provenance says it is. Then ``bert-data check`` does the same in its own way.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.library_proof import prove


def main() -> None:
    """Prints what was counted; an assertion fails where a row breaks a promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", nargs="+")
    parser.add_argument("--vocab_file", required=True)
    given, extra = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "out"
        program = [sys.executable, "-m", "pipeline"]
        command = [*program, "build", *given.input, "--provenance", "--num_workers", "2"]
        command += ["--vocab_file", given.vocab_file, "--output", str(output)]
        subprocess.run([*command, "--do_whole_word_mask", *extra], check=True)
        start = time.monotonic()
        seen = prove(output, given.input)
        print(f"every row proved in {time.monotonic() - start:.0f} s: {dict(seen)}", flush=True)
        subprocess.run([*program, "check", str(output), "--corpus", *given.input], check=True)


if __name__ == "__main__":
    main()
