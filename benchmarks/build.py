"""Wall time of a whole build, against the tokenizer library alone over the same text, in one run.

    python -m benchmarks.build books.jsonl --vocab_file vocab.txt [--runs 3]

The build is the command a user types, start-up included, in processes of its own; the library gets the
text in memory, line by line as BERT wants it, and all cores. They take turns, so that a busy machine
hurts both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from schemas.manifest import load_manifest
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import read_task
from transforms.vocabulary import load_tokenizer

_LIBRARY = """
import json, sys, time
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_str(open(sys.argv[1]).read())
lines = json.load(open(sys.argv[2]))
start = time.perf_counter()
for i in range(0, len(lines), 10_000):
    tokenizer.encode_batch_fast(lines[i : i + 10_000], add_special_tokens=False)
print(time.perf_counter() - start)
"""


def _build(given: argparse.Namespace, output: Path, extra: list[str]) -> float:
    command = [sys.executable, "-m", "pipeline", "build", *given.input]
    command += ["--vocab_file", given.vocab_file, "--output", str(output), "--do_whole_word_mask"]
    start = time.perf_counter()
    subprocess.run([*command, *extra], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _library(folder: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _LIBRARY, folder / "tokenizer.json", folder / "lines.json"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "true"},
    )
    return float(done.stdout)


def _prepare(given: argparse.Namespace, folder: Path) -> int:
    """Writes the text's lines and the tokenizer to ``folder``; bytes of text."""
    vocabulary = load_tokenizer(given.vocab_file, do_lower_case=None)
    (folder / "tokenizer.json").write_text(vocabulary.tokenizer_json)
    lines: list[str] = []
    for task in plan_reads(
        list_inputs(given.input, format="auto"), num_stripes=1, range_bytes=None
    ):
        for kind, batch in read_task(task):
            if kind == "documents":
                for text in batch.column("text").to_pylist():
                    lines += [line for line in text.split("\n") if line]
    (folder / "lines.json").write_text(json.dumps(lines))
    return sum(len(line.encode()) for line in lines)


def main() -> None:
    """Prints a row for each, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", nargs="+")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--runs", type=int, default=3)
    given, extra = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text_bytes = _prepare(given, folder)
        output = folder / "out"
        _build(given, output, extra)  # compiles the kernels, fills the page cache
        builds, libraries = [], []
        for _ in range(given.runs):
            builds.append(_build(given, output, ["--overwrite", *extra]))
            libraries.append(_library(folder))
        manifest = load_manifest(output)
    print(f"{text_bytes / 1e6:.1f} MB of text, {manifest.counts.examples:,} examples")
    print("| | seconds (median of runs; all) | MB/s |\n|---|---|---|")
    for label, seconds in (("bert-data build", builds), ("encode_batch_fast", libraries)):
        median = statistics.median(seconds)
        every = ", ".join(f"{s:.1f}" for s in seconds)
        print(f"| {label} | {median:.1f} ({every}) | {text_bytes / 1e6 / median:.1f} |")
    ratio = statistics.median(a / b for a, b in zip(builds, libraries, strict=True))
    print(f"| build / library | {ratio:.2f} | |")


if __name__ == "__main__":
    main()
