"""A small corpus that takes its time: words that no cache has seen, for tests that interrupt a build."""

from __future__ import annotations

import json
from pathlib import Path

from transforms.formats.batching import REJECT_ROWS

__all__ = ["FLAGS", "is_reading", "is_writing", "make_slow_corpus"]

#: About a second of reading, and two of writing.
FLAGS = (
    "--num_shards=8",
    "--dupe_factor=10",
    "--max_reject_fraction=1",
    "--sentence_splitter=none",
)

_BYTES = 600_000


def make_slow_corpus(path: Path) -> Path:
    """JSON lines; so many of the first are refused that they are written at once, which can be seen."""
    number = 0
    with path.open("w") as file:
        size = file.write("{\n" * (REJECT_ROWS + 1))
        while size < _BYTES:
            words = [f"x{(number + i) * 2654435761 % 2**32:x}" for i in range(300)]
            sentences = [" ".join(words[i : i + 12]) for i in range(0, len(words), 12)]
            size += file.write(json.dumps({"text": "\n".join(sentences)}) + "\n")
            number += len(words)
    return path


def is_reading(output: Path) -> bool:
    """Whether something was read, and nothing written."""
    return any(output.glob("rejects/*.jsonl")) and not is_writing(output)


def is_writing(output: Path) -> bool:
    """Whether a shard is done."""
    return any(output.glob("seq*/*.parquet"))
