"""Time of ``bert-data check``, alone and with the corpus, against that of the build, in one run.

    python -m benchmarks.check books.jsonl --vocab_file vocab.txt [--runs 3]

All of them are the commands a user types, start-up included, in processes of their own. They take turns,
so that a busy machine hurts all. Other flags are the build's.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from schemas.manifest import load_manifest


@dataclasses.dataclass(frozen=True)
class Spent:
    """What a command took: seconds on the clock, and seconds of all its processes."""

    wall: float
    cores: float


def run(*arguments: str) -> Spent:
    """Runs ``bert-data``.

    Raises:
      subprocess.CalledProcessError: it failed, or what it checked does not hold.
    """
    before, start = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments], check=True, stdout=subprocess.DEVNULL
    )
    wall, after = time.perf_counter() - start, os.times()
    used = (after.children_user, after.children_system)
    return Spent(wall, sum(used) - before.children_user - before.children_system)


def table(spent: dict[str, list[Spent]]) -> list[str]:
    """Medians of the runs, and the medians of the ratios to the first command."""
    lines = ["| | seconds | of the build | core-seconds | of the build |", "|---|---|---|---|---|"]
    first = next(iter(spent.values()))
    for label, runs in spent.items():
        cells = [label]
        for kind in ("wall", "cores"):
            seconds = [getattr(each, kind) for each in runs]
            whole = [getattr(each, kind) for each in first]
            ratios = [a / b for a, b in zip(seconds, whole, strict=True)]
            cells += [f"{statistics.median(seconds):.1f}", f"{statistics.median(ratios):.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", nargs="+")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--num_workers", help="of all three")
    given, extra = parser.parse_known_args()
    workers = ["--num_workers", given.num_workers] if given.num_workers else []
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder) / "out")
        build = ["build", *given.input, "--vocab_file", given.vocab_file, "--output", output]
        commands = {
            "build": [*build, "--overwrite", "--provenance", *workers, *extra],
            "check": ["check", output, *workers],
            "check --corpus": ["check", output, *workers, "--corpus", *given.input],
        }
        for command in commands.values():  # compiles the kernels, fills the page cache
            run(*command)
        spent: dict[str, list[Spent]] = {label: [] for label in commands}
        for _ in range(given.runs):
            for label, command in commands.items():
                spent[label].append(run(*command))
        manifest = load_manifest(output)
    shards = sum(len(d.shards) for d in manifest.data_sets)
    print(f"{manifest.counts.examples:,} rows in {shards} shards")
    print("\n".join(table(spent)))


if __name__ == "__main__":
    main()
