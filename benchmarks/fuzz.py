"""Mutated files of every format through its reader: no crash, no hang, no more than 1 GB of memory.

    python -m benchmarks.fuzz [--inputs 20000] [--only parquet] [--first 0]

Each format has a process of its own. Where it dies, the last file is kept and its path printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzzing import SEEDS, fuzz

_ROOT = Path(__file__).resolve().parents[1]


def _run_one(name: str, folder: Path, seeds: range) -> None:
    done = fuzz(name, folder, seeds=seeds)
    print(
        f"| {name} | {done.inputs:,} | {done.documents:,} | {done.rejects:,} | {done.refused:,} "
        f"| {done.slowest:.2f} | {done.memory / 1e6:,.0f} |",
        flush=True,
    )


def main() -> None:
    """Prints a row for each format; exit code 1 if a reader broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=20_000, help="of each format")
    parser.add_argument("--first", type=int, default=0, help="the first mutation's number")
    parser.add_argument("--only", help="formats whose name begins so")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        _run_one(given.one, given.folder, range(given.first, given.first + given.inputs))
        return
    print("| file | inputs | documents | rejects | refused | slowest, s | memory, MB |")
    print("|---" * 7 + "|", flush=True)
    broken = False
    for name in SEEDS:
        if given.only and not name.startswith(given.only):
            continue
        folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        command = [sys.executable, "-m", "benchmarks.fuzz", "--one", name, "--folder", str(folder)]
        command += ["--inputs", str(given.inputs), "--first", str(given.first)]
        if subprocess.run(command, cwd=_ROOT, check=False).returncode:
            broken = True
            print(f"{name}: broken; the file is in {folder}", flush=True)
        else:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
    sys.exit(broken)


if __name__ == "__main__":
    main()
