"""CPU seconds of each stage of a build, one after the other in one process, without Beam.

    python -m benchmarks.stages books.jsonl --vocab_file vocab.txt [--cold]

The stages are the pure functions that the steps of ``pipeline/build.py`` wrap. What the table lacks of a
whole build is Beam, start-up, and waiting.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.config import BuildConfig
from pipeline.prepare import prepare
from pipeline.run import warm_up
from schemas.arrow import token_batch
from transforms.blocks import spill
from transforms.examples import ExampleStream
from transforms.reader import read_task
from transforms.sentences import split_batch
from transforms.shards import write_shard
from transforms.token_blocks import gather_block
from transforms.tokenization import Encoder, tokenize_batch


class Clock:
    """Adds up CPU seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[name] += time.process_time() - start


def measure(config: BuildConfig, clock: Clock) -> tuple[int, int]:
    """Takes the input through all stages; bytes of text and examples."""
    job = prepare(config).job
    with clock.time("load kernels and tokenizer"):
        warm_up(job)
    encoder, marker = Encoder.of(job.vocabulary), job.word_marker()
    text_bytes, examples = 0, 0
    ranges = defaultdict(list)
    waiting, waiting_bytes = [], 0
    for task in job.tasks:
        outputs = read_task(task)
        while True:
            with clock.time("read and parse"):
                output = next(outputs, None)
            if output is None:
                break
            text_bytes += output[1].column("text").nbytes
            with clock.time("split sentences"):
                sentences = split_batch(
                    output[1],
                    language=job.config.language,
                    sentence_splitter=job.config.sentence_splitter,
                )
            with clock.time("tokenize"):
                waiting.append(tokenize_batch(sentences, encoder, word_marks=marker))
            waiting_bytes += waiting[-1].nbytes
            if waiting_bytes > 32 << 20:
                with clock.time("spill"):
                    for block, spilled in spill(waiting, job.layout, config.output):
                        ranges[block].append(spilled)
                waiting, waiting_bytes = [], 0
    with clock.time("spill"):
        for block, spilled in spill(waiting, job.layout, config.output) if waiting else ():
            ranges[block].append(spilled)
    settings = job.shards
    for block, parts in sorted(ranges.items()):
        with clock.time("gather blocks"):
            schema = token_batch(job.vocabulary.vocab_size, word_marks=job.word_marks)
            documents = gather_block((part.read() for part in parts), schema)
        for max_seq_length, cap in settings.lengths:
            with clock.time("plan pairs"):
                stream = ExampleStream(
                    documents,
                    settings.options,
                    settings.special,
                    max_seq_length=max_seq_length,
                    max_predictions_per_seq=cap,
                )
            with clock.time("lay out, mask"):
                batches = list(stream)
            examples += stream.counts["examples"]
            with clock.time("write Parquet"):
                path = Path(config.output) / f"{max_seq_length}-{block}.parquet"
                write_shard(_Replay(stream, batches), str(path), metadata={})  # type: ignore[arg-type]
    return text_bytes, examples


class _Replay:
    """A stream that has been read, given out again."""

    def __init__(self, stream: ExampleStream, batches: list):
        self.schema = stream.schema
        self._batches = batches

    def __iter__(self) -> Iterator:
        return iter(self._batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", nargs="+")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--dupe_factor", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = BuildConfig(
            input=tuple(given.input),
            vocab_file=given.vocab_file,
            output=folder,
            dupe_factor=given.dupe_factor,
            do_whole_word_mask=True,
        )
        clock = Clock()
        text_bytes, examples = measure(config, clock)
    total = sum(clock.seconds.values())
    print(f"{text_bytes / 1e6:.1f} MB of text, {examples:,} examples")
    print("| stage | CPU seconds | MB/s |\n|---|---|---|")
    for name, seconds in clock.seconds.items():
        print(f"| {name} | {seconds:.2f} | {text_bytes / 1e6 / seconds:.0f} |")
    print(f"| total | {total:.2f} | {text_bytes / 1e6 / total:.1f} |")


if __name__ == "__main__":
    main()
