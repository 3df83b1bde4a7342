"""One large file, as JSON lines and as text: both workers read it at once, in memory that stays flat.

    python -m benchmarks.large_files books.jsonl --vocab_file vocab.txt [--gigabytes 2]

For each format a file of a tenth of the size is built first, then the whole one; the files are made of
the corpus over and over, with a counter in each document, and removed. What a worker read is counted by
the kernel (``rchar`` of /proc): the input, and its part of the spilled tokens.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.memory import watch


def _documents(source: Path) -> Iterator[str]:
    """The corpus without end, no document twice."""
    for copy in itertools.count():
        with source.open(encoding="utf8") as lines:
            for line in lines:
                yield f"{copy}.\n{json.loads(line)['text'].strip()}"


def _write(source: Path, target: Path, size: int) -> None:
    """About ``size`` bytes, in the format of the target's name."""
    with target.open("w", encoding="utf8") as out:
        for text in _documents(source):
            if target.suffix == ".jsonl":
                out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            else:
                lines = filter(None, map(str.strip, text.split("\n")))
                out.write("\n".join(lines) + "\n\n")
            if out.tell() >= size:
                return


def main() -> None:
    """Prints peak memory and what each worker read."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", type=Path, help="JSON lines with a text field")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--gigabytes", type=float, default=2)
    given, extra = parser.parse_known_args()
    for ending in (".jsonl", ".txt"):
        for share in (0.1, 1):
            with tempfile.TemporaryDirectory() as name:
                path = Path(name) / f"large{ending}"
                _write(given.input, path, int(given.gigabytes * share * 1e9))
                command = [sys.executable, "-m", "pipeline", "build", str(path), "--dupe_factor=1"]
                command += ["--vocab_file", given.vocab_file, "--output", f"{name}/out", *extra]
                seen = watch(command)
                size = path.stat().st_size
            read = sorted(seen.read.values(), reverse=True)
            workers = ", ".join(f"{count / 1e6:,.0f}" for count in read if count > size / 20)
            print(
                f"{size / 1e6:,.0f} MB of {ending}: peak {seen.peak / 1e9:.2f} GB, {seen.seconds:.0f} s, "
                f"read by its processes: {workers} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
