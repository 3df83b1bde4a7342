"""Batches a second of our loader, against ``datasets`` with the collator of ``transformers``, in one run.

    python -m benchmarks.loader DIR [--batch_size 32] [--num_workers 0 2] [--seconds 5] [--runs 3]

All take the same rows of a data set that ``bert-data build`` has written, shuffled, and give padded batches
of tensors. They take turns, so that a busy machine hurts all; a run counts from its first batch on, so
that nobody's start-up is in it, and covers several epochs of ours. ``datasets`` with our own collator
is there for information.

``DataCollatorForLanguageModeling`` masks the rows it gets. Ours have masks already (or are masked as they
are loaded, where the data set has none), and the other's come on top; what they say does not matter here.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import torch
from tokenizers import Tokenizer
from torch.utils.data import DataLoader
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from schemas.manifest import Manifest, open_shards
from train.collator import DataCollatorForPretraining
from train.data import PretrainingDataset

Batches = Iterator[dict[str, torch.Tensor]]


class Speed(NamedTuple):
    """Of one run: batches a second, and the share of padding in ``input_ids``."""

    rate: float
    padding: float


def _measure(batches: Batches, *, seconds: float) -> Speed:
    next(batches)
    there = total = count = 0
    start = time.perf_counter()
    for batch in batches:
        count += 1
        if count % 10 == 0:  # looking at a batch takes time too
            there += int(batch["attention_mask"].sum())
            total += batch["attention_mask"].numel()
        if count >= 10 and time.perf_counter() - start >= seconds:
            break
    return Speed(count / (time.perf_counter() - start), 1 - there / total)


def _endless(epoch: Callable[[], Any]) -> Batches:
    while True:
        yield from epoch()


def _tokenizer(manifest: Manifest, directory: str) -> PreTrainedTokenizerFast:
    about = manifest.tokenizer
    tokenizer = Tokenizer.from_file(str(Path(directory) / about.file))
    names = ("pad", "unk", "cls", "sep", "mask")
    special = {f"{n}_token": tokenizer.id_to_token(getattr(about, f"{n}_id")) for n in names}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def _contenders(
    given: argparse.Namespace, workers: int, *, cache: str
) -> dict[str, Callable[[], Batches]]:
    """By name, what makes an endless iterator of batches."""
    ours = PretrainingDataset(
        given.directory, batch_size=given.batch_size, num_workers=workers, bucket=True
    )
    plain = PretrainingDataset(
        given.directory, batch_size=given.batch_size, num_workers=workers, bucket=False
    )
    manifest, data_set = ours.manifest, ours.data_set
    shards = open_shards(manifest, given.directory, name=data_set.name, split=data_set.split)
    rows = datasets.load_dataset("parquet", data_files=shards, split="train", cache_dir=cache)
    wanted = ("input_ids", "token_type_ids", "next_sentence_label")
    bare = rows.select_columns([name for name in wanted if name in rows.column_names])
    masks = DataCollatorForLanguageModeling(
        _tokenizer(manifest, given.directory), pad_to_multiple_of=8
    )
    collator = DataCollatorForPretraining(given.directory, max_seq_length=data_set.max_seq_length)

    def load(source: Any, collate: Any) -> Callable[[], Batches]:
        loader = DataLoader(
            source,
            batch_size=given.batch_size,
            shuffle=True,
            collate_fn=collate,
            num_workers=workers,
        )
        return lambda: _endless(loader.__iter__)

    return {
        "datasets + DataCollatorForLanguageModeling": load(bare, masks),
        "datasets + our collator": load(rows, collator),
        "PretrainingDataset": lambda: _endless(ours.__iter__),
        "PretrainingDataset, bucket=False": lambda: _endless(plain.__iter__),
    }


def main() -> None:
    """Prints a row for each, with its ratio to ``datasets`` and the collator of ``transformers``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--num_workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    datasets.disable_progress_bars()
    torch.set_num_threads(1)
    print(f"batches of {given.batch_size} rows; median of {given.runs} runs\n")
    print("| | workers | batches/s (all runs) | ratio | padding |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cache:
        for workers in given.num_workers:
            contenders = _contenders(given, workers, cache=cache)
            speeds: dict[str, list[Speed]] = {name: [] for name in contenders}
            for _, (name, make) in itertools.product(range(given.runs), contenders.items()):
                speeds[name].append(_measure(make(), seconds=given.seconds))
            _print(speeds, workers)


def _print(speeds: dict[str, list[Speed]], workers: int) -> None:
    base = next(iter(speeds.values()))
    for name, runs in speeds.items():
        ratio = statistics.median(a.rate / b.rate for a, b in zip(runs, base, strict=True))
        rates = ", ".join(f"{run.rate:,.0f}" for run in runs)
        median = statistics.median(run.rate for run in runs)
        padding = statistics.mean(run.padding for run in runs)
        print(f"| {name} | {workers} | {median:,.0f} ({rates}) | {ratio:.1f} | {padding:.1%} |")


if __name__ == "__main__":
    main()
