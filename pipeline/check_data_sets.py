"""What the data sets and shards of a manifest are held to before a row is looked at."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator

from pipeline.config import BuildConfig
from schemas.manifest import Manifest
from transforms.audit_reports import ShardTask
from transforms.audit_rules import Violation

__all__ = [
    "MANIFEST",
    "alike_by_right",
    "check_data_sets",
    "check_folder",
    "differs",
    "list_shards",
    "why_not_read",
]

#: Where violations are that are about the manifest as such.
MANIFEST = "manifest.json"

_SPLITS = ("train", "validation")

#: Tables of the audit have an entry for each token.
_LARGEST_VOCABULARY = 1 << 26


def differs(name: str, here: object, there: object) -> Violation:
    """Something that the configuration says as well, and otherwise."""
    words = f"{name} is {here!r}, and {there!r} in the configuration"
    return Violation("configuration", words, MANIFEST)


def why_not_read(manifest: Manifest, config: BuildConfig) -> str | None:
    """Why the rows cannot be held to anything; None if they can.

    Numbers of data sets that are not those of a valid configuration may be anything, and so large that
    there is no memory for what is made by them.
    """
    vocab_size = manifest.tokenizer.vocab_size
    if not 1 <= vocab_size <= _LARGEST_VOCABULARY:
        return f"a vocabulary has no {vocab_size:,} tokens"
    caps = dict(zip(config.max_seq_length, config.max_predictions_per_seq, strict=True))
    names = Counter((d.name, d.split) for d in manifest.data_sets)
    for d in manifest.data_sets:
        numbers = caps.get(d.max_seq_length) == d.max_predictions_per_seq
        if not numbers or d.split not in _SPLITS or names[d.name, d.split] > 1:
            return f"{d.name}/{d.split} is not a data set of this configuration"
    if not any(d.shards for d in manifest.data_sets):
        return "there are no shards"
    return None


def check_data_sets(manifest: Manifest, config: BuildConfig) -> Iterator[Violation]:
    """As many data sets as there are lengths and splits, with their shards numbered through."""
    caps = dict(zip(config.max_seq_length, config.max_predictions_per_seq, strict=True))
    share, train = config.validation_fraction, config.num_shards
    validation = max(1, round((train or 0) * share)) if share else 0
    shards = {"train": train, "validation": validation}
    splits = ["train", *(["validation"] if config.validation_fraction else [])]
    found = Counter((d.max_seq_length, d.split) for d in manifest.data_sets)
    for wanted in ((length, split) for length in caps for split in splits):
        if found.pop(wanted, 0) != 1:
            yield Violation("data_sets", f"there is not one seq{wanted[0]}/{wanted[1]}", MANIFEST)
    for length, split in found:
        yield Violation("data_sets", f"no seq{length}/{split} was asked for", MANIFEST)
    for d in manifest.data_sets:
        where = f"{d.name}/{d.split}"
        cap = caps.get(d.max_seq_length, d.max_predictions_per_seq)
        if cap != d.max_predictions_per_seq:
            yield differs(f"max_predictions_per_seq of {where}", d.max_predictions_per_seq, cap)
        if d.name != f"seq{d.max_seq_length}":
            yield Violation("data_sets", f"{where} should be seq{d.max_seq_length}", MANIFEST)
        if train is not None and shards.get(d.split) != len(d.shards):
            wanted_shards = shards.get(d.split)
            yield differs(f"the number of shards of {where}", len(d.shards), wanted_shards)
        for i, shard in enumerate(d.shards):
            name = f"seq{d.max_seq_length}/{d.split}-{i:05d}-of-{len(d.shards):05d}.parquet"
            if shard.path != name:
                yield Violation("shard_name", f"shard {i} of {where} should be {name}", shard.path)
    yield from _check_twice(manifest)


def _check_twice(manifest: Manifest) -> Iterator[Violation]:
    """No file twice, neither by name nor by content."""
    names: set[str] = set()
    contents: dict[str, str] = {}
    for shard in (shard for d in manifest.data_sets for shard in d.shards):
        if shard.path in names:
            yield Violation("listed_twice", "the manifest lists it twice", shard.path)
        elif shard.rows and shard.sha256 in contents and not alike_by_right(manifest):
            words = f"has the same sha256 as {contents[shard.sha256]}"
            yield Violation("same_shard", words, shard.path)
        names.add(shard.path)
        contents.setdefault(shard.sha256, shard.path)


def alike_by_right(manifest: Manifest) -> bool:
    """Whether equal shards are as they should be: a script that is run on each file, with one seed,
    makes the same of the same.
    """
    config = manifest.configuration
    return bool(config.get("exact_reference")) and config.get("reference_groups") == "file"


def check_folder(root: str, manifest: Manifest) -> Iterator[Violation]:
    """Nothing lies among the shards that the manifest does not name. A local folder only."""
    if "://" in root:
        return
    known = {shard.path for d in manifest.data_sets for shard in d.shards}
    for folder, _, files in os.walk(root):
        inside = os.path.relpath(folder, root)
        for name in sorted(files):
            path = name if inside == "." else f"{inside.replace(os.sep, '/')}/{name}"
            among = re.fullmatch(r"seq\d+/.*", path) or name.endswith(".parquet")
            if among and path not in known:
                yield Violation("unknown_file", "is not in the manifest", path)


def list_shards(manifest: Manifest) -> tuple[ShardTask, ...]:
    """Every shard of the manifest, once, with the block that its name says."""
    trains = {d.max_seq_length: len(d.shards) for d in manifest.data_sets if d.split == "train"}
    tasks: dict[str, ShardTask] = {}
    for d in manifest.data_sets:
        for i, shard in enumerate(d.shards):
            block = i if d.split == "train" else trains.get(d.max_seq_length, 0) + i
            tasks.setdefault(
                shard.path,
                ShardTask(
                    number=len(tasks),
                    data_set=f"{d.name}/{d.split}",
                    block=block,
                    path=shard.path,
                    rows=shard.rows,
                    bytes=shard.bytes,
                    sha256=shard.sha256,
                ),
            )
    return tuple(tasks.values())
