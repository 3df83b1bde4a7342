"""Splitting of sentences: rate, identity of the compiled path, and boundary F1 on gold treebanks.

python benchmarks/sentences.py --documents books.jsonl [--verify]     rate on {"text"} lines
python benchmarks/sentences.py --gold sentences.jsonl                 F1 by treebank and splitter
python benchmarks/sentences.py --languages documents.jsonl            whether --language auto is right
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import sentencex
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from schemas.arrow import DOCUMENT_BATCH
from transforms.languages import detect_language
from transforms.sentences import split_batch
from transforms.splitters import split_text
from transforms.splitting import split_sentences

__all__ = ["main"]

BATCH_BYTES = 8_000_000

#: Characters below which a document tells little of its language.
SHORT = 200


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


def measure(path: Path, *, limit: int | None, splitter: str, language: str) -> None:
    """Rates in one process, in turn, since the machine's speed varies: ours and bare sentencex."""
    split = functools.partial(split_batch, language=language, sentence_splitter=splitter)
    split(batch_of(["One. Two."]))  # compiles
    size, sentences, ours, bare = 0, 0, 0.0, 0.0
    for batch in batches(path, limit=limit):
        texts = batch.column("text").to_pylist()
        lines = [line for text in texts for line in text.split("\n") if line]
        began = time.process_time()
        found = split(batch)
        halfway = time.process_time()
        for line in lines:
            sentencex.segment(language, line)
        ours += halfway - began
        bare += time.process_time() - halfway
        size += sum(len(text.encode()) for text in texts)
        sentences += len(found.column("sentences").values)
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


def score(path: Path, *, splitters: Sequence[str], console: Console) -> None:
    """Boundary F1 by treebank: internal boundaries, aligned on what is not white space."""
    ways: dict[str, Callable[[str, str], list[str]]] = {
        name: functools.partial(_split, sentence_splitter=name) for name in splitters
    }
    ways["bare sentencex"] = lambda text, language: sentencex.segment(language, text)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    seconds: dict[tuple[str, str], float] = collections.defaultdict(float)
    with open(path, encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            text, counted = record["text"], counts[record["set"]]
            solid = solid_offsets(text)
            want = {solid[end] for _, end in record["spans"]} - {0, solid[-1]}
            counted["wanted"] += len(want)
            counted["bytes"] += len(text.encode())
            for name, split in ways.items():
                if not counted[f"{name} found"]:
                    split(text, record["lang"])  # loads what it needs
                began = time.process_time()
                sentences = split(text, record["lang"])
                seconds[record["set"], name] += time.process_time() - began
                got = ends(sentences) - {0, solid[-1]}
                counted[f"{name} right"] += len(want & got)
                counted[f"{name} found"] += len(got)
    table = Table("treebank", "boundaries", *ways, title="F1, and MB/s of one core")
    for treebank, count in counts.items():
        cells = [
            f"{2 * count[f'{name} right'] / (count[f'{name} found'] + count['wanted']):.3f} "
            f"{count['bytes'] / 1e6 / seconds[treebank, name]:5.1f}"
            for name in ways
        ]
        table.add_row(treebank, str(count["wanted"]), *cells)
    console.print(table)


def _split(text: str, language: str, *, sentence_splitter: str) -> list[str]:
    return split_text(text, language=language, sentence_splitter=sentence_splitter)


def detect(path: Path, *, console: Console) -> None:
    """How often ``--language auto`` finds the language of the records, and how fast."""
    right: collections.Counter[tuple[str, bool]] = collections.Counter()
    total: collections.Counter[tuple[str, bool]] = collections.Counter()
    detect_language("loads the model")
    size = 0
    spent = 0.0
    with open(path, encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            text, place = record["text"], (record["lang"], len(record["text"]) >= SHORT)
            began = time.process_time()
            found = detect_language(text)
            spent += time.process_time() - began
            size += len(text.encode())
            total[place] += 1
            right[place] += found == record["lang"].partition("-")[0]
    table = Table("language", "characters", "documents", "right")
    for language, long in sorted(total):
        place = language, long
        characters = f"{SHORT} or more" if long else f"fewer than {SHORT}"
        table.add_row(language, characters, str(total[place]), f"{right[place] / total[place]:.1%}")
    console.print(table)
    print(f"{size / 1e6 / spent:.1f} MB/s, {1e3 * spent / total.total():.2f} ms a document")


def ends(sentences: Iterable[str]) -> set[int]:
    sizes = (len("".join(sentence.split())) for sentence in sentences)
    return set(itertools.accumulate(sizes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--documents", type=Path, help='JSON lines with a "text"')
    parser.add_argument("--limit", type=int, help="documents to read")
    parser.add_argument("--verify", action="store_true", help="compare the two paths, no rates")
    parser.add_argument("--gold", type=Path, help='JSON lines with "set", "lang", "text", "spans"')
    parser.add_argument("--splitters", default="sentencex,best", help="those to score, with commas")
    parser.add_argument("--splitter", default="sentencex", help="the one whose rate is measured")
    parser.add_argument("--language", default="en", help="of the documents")
    parser.add_argument("--languages", type=Path, help='JSON lines with "lang" and "text"')
    flags = parser.parse_args()
    differing = 0
    if flags.documents and flags.verify:
        differing = verify(flags.documents, limit=flags.limit)
    elif flags.documents:
        measure(
            flags.documents, limit=flags.limit, splitter=flags.splitter, language=flags.language
        )
    if flags.gold:
        score(flags.gold, splitters=flags.splitters.split(","), console=Console(width=100))
    if flags.languages:
        detect(flags.languages, console=Console(width=100))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
