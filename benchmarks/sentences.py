"""Splitting of sentences: rate, identity of the compiled path, and boundary F1 on gold treebanks.

python benchmarks/sentences.py --documents books.jsonl [--verify]     rate on {"text"} lines
python benchmarks/sentences.py --gold sentences.jsonl                 F1 by treebank
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import sentencex
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from schemas.arrow import DOCUMENT_BATCH
from transforms.sentences import split_batch
from transforms.splitting import split_sentences

__all__ = ["main"]

BATCH_BYTES = 8_000_000


def batches(path: Path, *, limit: int | None) -> Iterator[pa.RecordBatch]:
    with open(path, encoding="utf-8") as lines:
        texts: list[str] = []
        size = 0
        for line in itertools.islice(lines, limit):
            texts.append(json.loads(line)["text"])
            size += len(texts[-1])
            if size >= BATCH_BYTES:
                yield batch_of(texts)
                texts, size = [], 0
        yield batch_of(texts)


def batch_of(texts: list[str]) -> pa.RecordBatch:
    empty = pa.array([""] * len(texts)), pa.nulls(len(texts), pa.string())
    return pa.record_batch([pa.array(texts, pa.large_string()), *empty], schema=DOCUMENT_BATCH)


def measure(path: Path, *, limit: int | None) -> None:
    """Rates in one process, in turn, since the machine's speed varies: ours and bare sentencex."""
    split_batch(batch_of(["One. Two."]), language="en")  # compiles
    size, sentences, ours, bare = 0, 0, 0.0, 0.0
    for batch in batches(path, limit=limit):
        texts = batch.column("text").to_pylist()
        lines = [line for text in texts for line in text.split("\n") if line]
        began = time.process_time()
        split = split_batch(batch, language="en")
        halfway = time.process_time()
        for line in lines:
            sentencex.segment("en", line)
        ours += halfway - began
        bare += time.process_time() - halfway
        size += sum(len(text.encode()) for text in texts)
        sentences += len(split.column("sentences").values)
    mb = size / 1e6
    print(f"{mb:.1f} MB, {sentences:,} sentences, CPU time of one core")
    print(f"split_batch            {mb / ours:6.1f} MB/s (keys and Arrow included)")
    print(f"sentencex, line by line {mb / bare:5.1f} MB/s (bare, not repaired)")


def verify(path: Path, *, limit: int | None) -> int:
    """Compares the compiled path with split_sentences; returns how many documents differ."""
    documents = differing = 0
    for batch in batches(path, limit=limit):
        got = split_batch(batch, language="en").column("sentences").to_pylist()
        for text, sentences in zip(batch.column("text").to_pylist(), got, strict=True):
            documents += 1
            differing += sentences != split_sentences(text, language="en")
    print(f"{documents:,} documents compared with split_sentences, {differing} differ")
    return differing


def solid_offsets(text: str) -> list[int]:
    """For each offset the number of characters before it that are not white space."""
    return [0, *itertools.accumulate(not character.isspace() for character in text)]


def score(path: Path, *, console: Console) -> None:
    """Boundary F1 by treebank: internal boundaries, aligned on what is not white space."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    with open(path, encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            solid = solid_offsets(record["text"])
            want = {solid[end] for _, end in record["spans"]} - {0, solid[-1]}
            ours = split_sentences(record["text"], language=record["lang"])
            bare = sentencex.segment(record["lang"], record["text"])
            for name, sentences in (("ours", ours), ("bare", bare)):
                got = ends(sentences) - {0, solid[-1]}
                counts[record["set"]][f"{name} right"] += len(want & got)
                counts[record["set"]][f"{name} found"] += len(got)
            counts[record["set"]]["wanted"] += len(want)
    table = Table("treebank", "boundaries", "precision", "recall", "F1", "F1 of bare sentencex")
    for name, count in counts.items():
        right, found, wanted = count["ours right"], count["ours found"], count["wanted"]
        figures = [right / max(found, 1), right / wanted, 2 * right / (found + wanted)]
        figures.append(2 * count["bare right"] / (count["bare found"] + wanted))
        table.add_row(name, str(wanted), *(f"{figure:.3f}" for figure in figures))
    console.print(table)


def ends(sentences: Iterable[str]) -> set[int]:
    sizes = (len("".join(sentence.split())) for sentence in sentences)
    return set(itertools.accumulate(sizes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--documents", type=Path, help='JSON lines with a "text"')
    parser.add_argument("--limit", type=int, help="documents to read")
    parser.add_argument("--verify", action="store_true", help="compare the two paths, no rates")
    parser.add_argument("--gold", type=Path, help='JSON lines with "set", "lang", "text", "spans"')
    flags = parser.parse_args()
    differing = 0
    if flags.documents and flags.verify:
        differing = verify(flags.documents, limit=flags.limit)
    elif flags.documents:
        measure(flags.documents, limit=flags.limit)
    if flags.gold:
        score(flags.gold, console=Console(width=100))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
