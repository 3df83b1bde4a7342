"""How fast sentences become ids: the word cache, cold and warm, against the library alone.

    python benchmarks/tokenization.py books.jsonl --vocab_file vocab.txt [--verify]

Everything is measured in this one process, in processor time of one core, so that the ratios hold
also on a machine that others use.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

from transforms.vocabulary import Vocabulary, load_tokenizer
from transforms.word_cache import PlainEncoder, WordCache
from transforms.word_units import word_property_obstacle

#: Rough sentences will do here.
_SENTENCE_END = re.compile(r"\n+|(?<=[.!?]) ")

_BATCH_BYTES = 8 << 20


def batches(path: str, *, megabytes: float, lines: bool) -> Iterator[pa.LargeStringArray]:
    """The sentences (or lines) of the documents' texts, about 8 MB at a time."""
    some: list[str] = []
    size = total = 0
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            text = json.loads(line)["text"]
            some += text.split("\n") if lines else filter(None, _SENTENCE_END.split(text))
            size += len(text.encode())
            if size >= _BATCH_BYTES:
                yield pa.array(some, pa.large_string())
                total, size, some = total + size, 0, []
                if total >= megabytes * 1e6:
                    return
    yield pa.array(some, pa.large_string())


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def text_bytes(batch: pa.LargeStringArray) -> int:
    return batch.nbytes - 8 * len(batch)


def measure(
    vocabulary: Vocabulary, texts: list[pa.LargeStringArray], plain_megabytes: float
) -> None:
    size = sum(map(text_bytes, texts)) / 1e6
    rows: list[tuple[str, float, float]] = []
    words = pa.array(["The naïve cat, 中 unbelievably."], pa.large_string())
    print(f"{size:.1f} MB of sentences, {vocabulary.vocab_size:,} entries")
    first = seconds(lambda: WordCache(vocabulary).encode(words))
    print(f"compile or load the kernels  {first:6.2f} s")
    print(f"make a cache                 {seconds(lambda: WordCache(vocabulary)):6.2f} s")

    cache = WordCache(vocabulary)
    resolve, in_library = cache._resolver.resolve, [0.0]

    def timed(*args, **kwargs):  # type: ignore[no-untyped-def]
        begin = time.process_time()
        found = resolve(*args, **kwargs)
        in_library[0] += time.process_time() - begin
        return found

    cache._resolver.resolve = timed  # type: ignore[method-assign]
    rows.append(("word cache, cold", size, seconds(lambda: [cache.encode(b) for b in texts])))
    misses, spent = cache.misses, in_library[0]
    for turn in range(3):
        warm = seconds(lambda: [cache.encode(b) for b in texts])
        rows.append((f"word cache, warm, {turn + 1}", size, warm))
    few = texts[0].slice(0, max(1, int(len(texts[0]) * plain_megabytes / (_BATCH_BYTES / 1e6))))
    plain = PlainEncoder(vocabulary)
    rows.append(("encode_batch_fast", text_bytes(few) / 1e6, seconds(lambda: plain.encode(few))))
    for name, megabytes, took in rows:
        print(f"{name:28} {took:6.2f} s {megabytes / took:8.1f} MB/s")
    print(
        f"misses {misses:,} in {spent:.2f} s of the cold pass, {1e6 * spent / max(misses, 1):.2f} "
        f"us each; resets {cache.resets}"
    )


def verify(vocabulary: Vocabulary, texts: Iterator[pa.LargeStringArray]) -> None:
    cache, plain, lines = WordCache(vocabulary), PlainEncoder(vocabulary), 0
    for batch in texts:
        for some in (batch.slice(a, 20_000) for a in range(0, len(batch), 20_000)):
            found, wanted = cache.encode(some), plain.encode(some)
            if not all((a == b).all() for a, b in zip(found, wanted, strict=True)):
                sys.exit(f"different ids in lines {lines:,} to {lines + len(some):,}")
            lines += len(some)
    print(f"{lines:,} lines: the same ids; {cache.misses:,} misses")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", help="JSON lines with a field text")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--do_lower_case", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--megabytes", type=float, default=65, help="of text to take (65)")
    parser.add_argument("--plain_megabytes", type=float, default=4, help="for the library (4)")
    parser.add_argument("--verify", action="store_true", help="compare the ids of every line")
    flags = parser.parse_args()
    vocabulary = load_tokenizer(flags.vocab_file, do_lower_case=flags.do_lower_case)
    print(*vocabulary.warnings, sep="\n", end="\n" if vocabulary.warnings else "")
    if obstacle := word_property_obstacle(vocabulary.tokenizer_json):
        sys.exit(f"the word cache cannot take this tokenizer: {obstacle}")
    if flags.verify:
        verify(vocabulary, batches(flags.path, megabytes=flags.megabytes, lines=True))
    else:
        texts = [*batches(flags.path, megabytes=flags.megabytes, lines=False)]
        measure(vocabulary, texts, flags.plain_megabytes)


if __name__ == "__main__":
    main()
