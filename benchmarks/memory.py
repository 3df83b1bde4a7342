"""Peak memory of all processes of a build, on a corpus and on the same ten times over.

    python -m benchmarks.memory books.jsonl --vocab_file vocab.txt [--times 10]

The larger corpus has a counter in each text, so that no two documents are the same. Pages that forked
processes share count once (PSS); where the kernel does not tell, every process counts whole (RSS).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            found += _descendants(int(child))
    return found


def _memory(pid: int) -> int:
    """Bytes of a process."""
    return _number(f"/proc/{pid}/smaps_rollup", "Pss:") << 10


def _read(pid: int) -> int:
    """Bytes it has read, of files and whatever else."""
    return _number(f"/proc/{pid}/io", "rchar:")


def _number(path: str, name: str) -> int:
    """What the kernel has under a name; 0 of a process that is gone."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(name))


class Watched(NamedTuple):
    """What was seen of a command.

    Attributes:
      peak: bytes of all its processes, at most.
      seconds: how long it took.
      read: bytes that each process has read, by process id.
    """

    peak: int
    seconds: float
    read: dict[int, int]


def watch(command: list[str]) -> Watched:
    """Runs a command and looks at its processes ten times a second."""
    peak = 0
    read: dict[int, int] = {}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    done = threading.Event()

    def look() -> None:
        nonlocal peak
        while not done.wait(0.1):
            pids = _descendants(process.pid)
            peak = max(peak, sum(map(_memory, pids)))
            read.update((pid, max(_read(pid), read.get(pid, 0))) for pid in pids)

    watcher = threading.Thread(target=look)
    watcher.start()
    code = process.wait()
    done.set()
    watcher.join()
    if code:
        raise SystemExit(f"exit code {code}: {' '.join(command)}")
    return Watched(peak, time.perf_counter() - start, read)


def _multiply(source: Path, target: Path, times: int) -> None:
    with target.open("w", encoding="utf8") as out:
        for copy in range(times):
            with source.open(encoding="utf8") as lines:
                for line in lines:
                    record = json.loads(line)
                    record["text"] = f"{copy}.\n{record['text']}"
                    out.write(json.dumps(record, ensure_ascii=False) + "\n")


def main() -> None:
    """Prints both peaks and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", type=Path, help="JSON lines with a text field")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--times", type=int, default=10)
    given, extra = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        larger = folder / "larger.jsonl"
        _multiply(given.input, larger, given.times)
        peaks = []
        for source in (given.input, larger):
            command = [sys.executable, "-m", "pipeline", "build", str(source), "--overwrite"]
            command += ["--vocab_file", given.vocab_file, "--output", str(folder / "out")]
            peak, seconds, _ = watch([*command, "--do_whole_word_mask", *extra])
            peaks.append(peak)
            size = source.stat().st_size / 1e6
            print(
                f"{size:,.0f} MB: peak {peak / 1e9:.2f} GB, {seconds:.1f} s, {size / seconds:.1f} MB/s",
                flush=True,
            )
        print(f"ratio of the peaks: {peaks[1] / peaks[0]:.2f}")


if __name__ == "__main__":
    main()
