"""What the trainer reads: every row once, as it was written, in an order that is always the same."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch

from schemas.arrow import example_schema
from schemas.errors import ConfigError
from schemas.manifest import MANIFEST_FILE, Shard, load_manifest
from tests.unit.test_manifest_reader import make_data_set, make_manifest
from train.data import PretrainingDataset

ROWS = (70, 0, 33)
PAD = 7


def make_row(number: int) -> dict:
    """A row that can be told from all others, of a length of its own."""
    length = 10 + number % 53
    predictions = 1 + number % 20
    return {
        "input_ids": [2, *((number * 31 + i) % 3000 + 10 for i in range(length - 1))],
        "token_type_ids": [int(i > length // 2) for i in range(length)],
        "masked_lm_positions": list(range(1, 1 + min(predictions, length - 2))),
        "masked_lm_ids": [number + 100 + i for i in range(min(predictions, length - 2))],
        "next_sentence_label": number % 2,
        "num_tokens": length,
    }


EXPECTED = [make_row(n) for n in range(sum(ROWS))]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    here = tmp_path_factory.mktemp("rows")
    (here / "seq128").mkdir()
    (here / "tokenizer.json").write_text("{}")
    numbers, shards = iter(EXPECTED), []
    for i, rows in enumerate(ROWS):
        path = f"seq128/train-{i:05d}-of-00003.parquet"
        table = pa.Table.from_pylist(
            [next(numbers) for _ in range(rows)], schema=example_schema(3637, provenance=False)
        )
        pq.write_table(table, here / path, row_group_size=8)
        content = (here / path).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        shards.append(Shard(path=path, rows=rows, bytes=len(content), sha256=digest))
    about = {"digest": hashlib.sha256(b"{}").hexdigest(), "pad_id": PAD}
    manifest = make_manifest((make_data_set(tuple(shards)),), tokenizer=about)
    (here / MANIFEST_FILE).write_text(manifest.to_json())
    return here


@pytest.fixture
def copy(directory, tmp_path):
    """A copy of the data set with a function that writes its manifest anew."""
    for path in directory.rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(directory)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())

    def change(**fields):
        manifest = dataclasses.replace(load_manifest(tmp_path), **fields)
        (tmp_path / MANIFEST_FILE).write_text(manifest.to_json())

    return tmp_path, change


def rows_of(batch) -> list[dict]:
    """The rows of a batch without padding, as they are in the file; padding is checked."""
    rows = []
    for i in range(len(batch["next_sentence_label"])):
        length = int(batch["attention_mask"][i].sum())
        predictions = int(batch["masked_lm_weights"][i].sum())
        assert batch["attention_mask"][i].tolist() == [
            int(j < length) for j in range(batch["input_ids"].shape[1])
        ]
        assert set(batch["input_ids"][i, length:].tolist()) <= {PAD}
        assert set(batch["token_type_ids"][i, length:].tolist()) <= {0}
        assert batch["masked_lm_weights"][i].tolist() == [float(j < predictions) for j in range(20)]
        rows.append(
            {
                "input_ids": batch["input_ids"][i, :length].tolist(),
                "token_type_ids": batch["token_type_ids"][i, :length].tolist(),
                "masked_lm_positions": batch["masked_lm_positions"][i, :predictions].tolist(),
                "masked_lm_ids": batch["masked_lm_ids"][i, :predictions].tolist(),
                "next_sentence_label": int(batch["next_sentence_label"][i]),
                "num_tokens": length,
            }
        )
    return rows


def numbers_of(batches) -> list[int]:
    """Which rows of EXPECTED, in the order in which they come."""
    return [EXPECTED.index(row) for batch in batches for row in rows_of(batch)]


#: Windows of several sizes without buckets, and one with them.
WINDOWS = [
    *({"window_rows": rows, "bucket": False} for rows in (1, 20, 10_000)),
    {"window_rows": 1, "bucket": True},
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("batch_size", [1, 7, 32, 200])
def test_every_row_comes_once_as_it_was_written(directory, batch_size, window):
    dataset = PretrainingDataset(directory, batch_size=batch_size, **window)
    batches = list(dataset.batches(epoch=3))
    assert sorted(numbers_of(batches)) == list(range(sum(ROWS)))
    assert len(batches) == len(dataset) == math.ceil(sum(ROWS) / batch_size)
    assert {len(b["next_sentence_label"]) for b in batches[:-1]} <= {batch_size}


def test_shapes_and_types_are_those_of_the_docstring(directory):
    for batch in PretrainingDataset(directory, batch_size=16).batches():
        longest = max(row["num_tokens"] for row in rows_of(batch))
        B, T = len(batch["next_sentence_label"]), -(-longest // 8) * 8
        shapes = {name: tuple(tensor.shape) for name, tensor in batch.items()}
        assert shapes == {
            "input_ids": (B, T),
            "token_type_ids": (B, T),
            "attention_mask": (B, T),
            "masked_lm_positions": (B, 20),
            "masked_lm_ids": (B, 20),
            "masked_lm_weights": (B, 20),
            "next_sentence_label": (B,),
        }
        kinds = Counter(str(tensor.dtype) for tensor in batch.values())
        assert kinds == {"torch.int64": 6, "torch.float32": 1}
        assert batch["masked_lm_weights"].dtype == torch.float32


@pytest.mark.parametrize("window", WINDOWS)
def test_the_order_is_a_function_of_seed_and_epoch(directory, window):
    def order(seed: int, epoch: int, batch_size: int = 8) -> list[int]:
        dataset = PretrainingDataset(directory, batch_size=batch_size, seed=seed, **window)
        return numbers_of(dataset.batches(epoch=epoch))

    orders = [order(seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert orders[0] == order(0, 0, batch_size=13)
    assert orders[3] == order(1, 1)
    assert len({tuple(o) for o in orders}) == 4
    assert all(o != sorted(o) for o in orders)


@pytest.mark.parametrize("window", WINDOWS)
def test_it_goes_on_in_the_middle_of_an_epoch(directory, window):
    dataset = PretrainingDataset(directory, batch_size=7, **window)
    whole = [numbers_of([batch]) for batch in dataset.batches(epoch=2)]
    for start in range(len(whole) + 1):
        assert [numbers_of([b]) for b in dataset.batches(epoch=2, start=start)] == whole[start:]


def test_a_window_holds_back_what_it_must(directory):
    """With the smallest window, rows of a row group stay together; its neighbours do not."""
    dataset = PretrainingDataset(directory, batch_size=1, window_rows=1, bucket=False)
    runs = []
    for epoch in (0, 1):
        order = numbers_of(dataset.batches(epoch=epoch))
        groups = [number // 8 if number < 70 else 9 + (number - 70) // 8 for number in order]
        runs.append([group for group, _ in itertools.groupby(groups)])
    assert [sorted(run) for run in runs] == [list(range(9 + 5))] * 2
    assert runs[0] != sorted(runs[0])
    assert runs[0] != runs[1]


def test_another_tokenizer_is_refused(copy):
    directory, _ = copy
    (directory / "tokenizer.json").write_text("{ }")
    with pytest.raises(ConfigError, match=r"tokenizer\.json: another tokenizer"):
        PretrainingDataset(directory, batch_size=1)
    (directory / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"tokenizer\.json: it is missing"):
        PretrainingDataset(directory, batch_size=1)


def test_labels_that_mean_something_else_are_refused(copy):
    directory, change = copy
    change(label_convention={"0": "NotNext", "1": "IsNext"})
    with pytest.raises(ConfigError, match="labels mean"):
        PretrainingDataset(directory, batch_size=1)


def test_a_shard_that_is_damaged_or_missing_is_refused(copy):
    directory, _ = copy
    shard = directory / "seq128" / "train-00002-of-00003.parquet"
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + b"x")
    with pytest.raises(ConfigError, match=r"train-00002-of-00003\.parquet: cannot be read"):
        PretrainingDataset(directory, batch_size=1)
    shard.write_bytes(content[:-1])
    with pytest.raises(ConfigError, match=r"train-00002-of-00003\.parquet: the manifest says"):
        PretrainingDataset(directory, batch_size=1)
    shard.unlink()
    with pytest.raises(ConfigError, match="it is missing"):
        PretrainingDataset(directory, batch_size=1)


def test_sums_are_checked_if_asked_for(copy):
    directory, _ = copy
    PretrainingDataset(directory, batch_size=1, verify=True)
    shard = directory / "seq128" / "train-00000-of-00003.parquet"
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(bytes(content))
    PretrainingDataset(directory, batch_size=1)
    with pytest.raises(ConfigError, match=r"train-00000-of-00003\.parquet: its contents are not"):
        PretrainingDataset(directory, batch_size=1, verify=True)


def test_ranks_check_the_sums_of_their_shares(copy):
    """Together of all shards; none waits for another to have read everything."""
    directory, _ = copy
    for rank in range(4):  # the last one has none
        PretrainingDataset(directory, batch_size=1, rank=rank, world_size=4, verify=True)
    for shard in (directory / "seq128").iterdir():
        content = bytearray(shard.read_bytes())
        content[-9] ^= 1  # of the name of what wrote it, which nothing else looks at
        shard.write_bytes(bytes(content))
    named: list[str] = []
    for rank in range(3):
        with pytest.raises(ConfigError, match="its contents are not what") as caught:
            PretrainingDataset(directory, batch_size=1, rank=rank, world_size=3, verify=True)
        named += re.findall(r"train-0000\d", str(caught.value))
    assert sorted(named) == ["train-00000", "train-00001", "train-00002"]


def test_another_shard_of_the_same_size_is_refused(copy):
    directory, change = copy
    manifest = load_manifest(directory)
    (data_set,) = manifest.data_sets
    first, *others = data_set.shards
    fewer = dataclasses.replace(first, rows=first.rows - 1)
    more = dataclasses.replace(others[0], rows=others[0].rows + 1)
    change(data_sets=(dataclasses.replace(data_set, shards=(fewer, more, *others[1:])),))
    with pytest.raises(ConfigError, match="the manifest says 69 rows, it has 70; build again"):
        PretrainingDataset(directory, batch_size=1)


def test_a_newer_schema_is_refused(copy):
    directory, change = copy
    change(schema_version=99)
    with pytest.raises(ConfigError, match="schema_version 99, this program reads up to"):
        PretrainingDataset(directory, batch_size=1)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("change", ["gone", "damaged", "shorter"])
def test_a_shard_that_changes_while_it_is_read_ends_the_epoch(copy, num_workers, change):
    directory, _ = copy
    dataset = PretrainingDataset(
        directory, batch_size=1, window_rows=8, bucket=False, num_workers=num_workers
    )
    batches = dataset.batches()
    next(batches)
    for shard in (directory / "seq128").iterdir():
        if change == "gone":
            shard.unlink()
        elif change == "damaged":
            shard.write_bytes(bytes(len(shard.read_bytes())))
        else:
            table = pq.read_table(shard)
            pq.write_table(table.slice(0, len(table) // 2), shard, row_group_size=4)
    with pytest.raises(ConfigError, match=r"parquet: (cannot be read|it changed)") as caught:
        list(batches)
    assert "\n" not in str(caught.value)


def test_what_is_not_there_is_named(directory):
    with pytest.raises(ConfigError, match=r"--max_seq_length=512: .* there are 128 train"):
        PretrainingDataset(directory, batch_size=1, max_seq_length=512)
    with pytest.raises(ConfigError, match=r"--split='validation': .* there are 128 train"):
        PretrainingDataset(directory, batch_size=1, split="validation")
