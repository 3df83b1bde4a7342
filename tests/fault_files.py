"""Faults of files and manifests; see ``tests.faults``."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults import Planter


def swap_names(planter: Planter) -> None:
    a, b, other = planter.path(0), planter.path(1), planter.directory / "other"
    a.rename(other)
    b.rename(a)
    other.rename(b)


def truncate(planter: Planter) -> None:
    content = planter.path().read_bytes()
    planter.path().write_bytes(content[: len(content) * 2 // 3])


def change_byte(planter: Planter) -> None:
    content = bytearray(planter.path().read_bytes())
    content[len(content) // 3] ^= 0x10
    planter.path().write_bytes(content)


def change_byte_and_mend(planter: Planter) -> None:
    change_byte(planter)
    planter.mend()


def copy_shard(planter: Planter) -> None:
    planter.write(planter.rows(0), 1)  # not the same bytes
    planter.write(planter.rows(0), 0)


def copy_shard_otherwise(planter: Planter) -> None:
    shutil.copy(planter.path(0), planter.path(1))
    entry = planter.manifest["data_sets"][0]
    entry["shards"][1] |= {k: entry["shards"][0][k] for k in ("rows", "bytes", "sha256")}
    planter.write(planter.rows(0), 0)
    planter.mend(1)


def edit(*path: str | int, value: object = None) -> Callable[[Planter], None]:
    """Edits the manifest: what is found at ``path`` becomes ``value`` or, if that is None, a bit more."""

    def plant(planter: Planter) -> None:
        inner = planter.manifest
        for key in path[:-1]:
            inner = inner[key]
        old = inner[path[-1]]
        inner[path[-1]] = value if value is not None else old + (1 if type(old) is int else 1e-6)
        planter.save()

    return plant


def edit_histogram(planter: Planter) -> None:
    bins = planter.manifest["data_sets"][0]["num_tokens_histogram"]
    bins[-1] -= 1
    bins[0] += 1
    planter.save()


def exchange_tokenizer(planter: Planter) -> None:
    path = planter.directory / "tokenizer.json"
    path.write_text(path.read_text().replace('"lowercase":true', '"lowercase":false'))


def exchange_vocabulary(planter: Planter) -> None:
    path = planter.directory / "vocab.txt"
    path.write_text(path.read_text().replace("\nthe\n", "\nteh\n"))


def unknown_file(planter: Planter) -> None:
    shutil.copy(planter.path(), planter.path().with_name("train-00002-of-00003.parquet"))


def renumber(planter: Planter) -> None:
    path = planter.path(1)
    path.rename(path.with_name("train-00001-of-00003.parquet"))
    planter.shard(1)["path"] = "seq128/train-00001-of-00003.parquet"
    planter.save()


def list_twice(planter: Planter) -> None:
    entry = planter.manifest["data_sets"][0]
    entry["shards"][1] = dict(entry["shards"][0])
    entry["examples"] = planter.manifest["counts"]["examples"] = 2 * entry["shards"][0]["rows"]
    entry["num_tokens_histogram"] = [entry["examples"]] + 15 * [0]
    planter.save()


def add_column(planter: Planter) -> None:
    table = pq.read_table(planter.path())
    table = table.append_column("more", pa.array([0] * table.num_rows))
    pq.write_table(table, planter.path())
    planter.mend()


def other_metadata(planter: Planter) -> None:
    table = pq.read_table(planter.path())
    metadata = table.schema.metadata | {b"bert_data.random_seed": b"1"}
    pq.write_table(table.replace_schema_metadata(metadata), planter.path())
    planter.mend()
