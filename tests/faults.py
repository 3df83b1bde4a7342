"""Plants faults in finished data sets, for tests of what finds them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from schemas.manifest import HISTOGRAM_BINS

Row = dict[str, Any]


class Planter:
    """A data set to be spoiled: rows as dictionaries, the manifest as JSON."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.manifest = json.loads((directory / "manifest.json").read_text())
        about = self.manifest["tokenizer"]
        self.cls, self.sep, self.mask = (about[f"{n}_id"] for n in ("cls", "sep", "mask"))
        self.vocab = Tokenizer.from_file(str(directory / "tokenizer.json")).get_vocab()
        self.subwords = {i for token, i in self.vocab.items() if token.startswith("##")}

    def save(self) -> None:
        (self.directory / "manifest.json").write_text(json.dumps(self.manifest))

    def drop(self, *path: str) -> None:
        """Takes something out of the manifest."""
        inner = self.manifest
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        self.save()

    def shard(self, number: int = 0, *, data_set: int = 0) -> dict[str, Any]:
        """The manifest's entry."""
        return self.manifest["data_sets"][data_set]["shards"][number]

    def path(self, number: int = 0, *, data_set: int = 0) -> Path:
        return self.directory / self.shard(number, data_set=data_set)["path"]

    def rows(self, number: int = 0, *, data_set: int = 0) -> list[Row]:
        return pq.read_table(self.path(number, data_set=data_set)).to_pylist()

    def write(
        self, rows: list[Row], number: int = 0, *, data_set: int = 0, counts: bool = True
    ) -> None:
        """Replaces a shard; mends bytes and sha256, and with ``counts`` the number of rows."""
        path = self.path(number, data_set=data_set)
        schema = pq.read_schema(path)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        self.mend(number, data_set=data_set)
        if counts:
            entry = self.manifest["data_sets"][data_set]
            self.shard(number, data_set=data_set)["rows"] = len(rows)
            entry["examples"] = sum(shard["rows"] for shard in entry["shards"])
            self.manifest["counts"]["examples"] = sum(
                d["examples"] for d in self.manifest["data_sets"]
            )
            entry["num_tokens_histogram"] = self._histogram(data_set)
        self.save()

    def mend(self, number: int = 0, *, data_set: int = 0) -> None:
        """The manifest says of a shard what its file is."""
        content = self.path(number, data_set=data_set).read_bytes()
        self.shard(number, data_set=data_set).update(
            bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
        )
        self.save()

    def change(
        self,
        change: Callable[[Row], None],
        *,
        where: Callable[[Row], bool] = lambda row: True,
        data_set: int = 0,
    ) -> None:
        """Changes one row in the middle of those that ``where`` takes; the file's checksum is mended."""
        rows = self.rows(data_set=data_set)
        fitting = [row for row in rows if where(row)]
        assert fitting, "no row is like that"
        change(fitting[len(fitting) // 2])
        self.write(rows, data_set=data_set, counts=False)

    def words(self, row: Row) -> list[list[int]]:
        """Positions of each word of a row of masked pairs, with the original ids in place."""
        ids = self.restored(row)
        found: list[list[int]] = []
        for k, token in enumerate(ids):
            if token in (self.cls, self.sep):
                continue
            if token in self.subwords and ids[k - 1] not in (self.cls, self.sep):
                found[-1].append(k)
            else:
                found.append([k])
        return found

    def restored(self, row: Row) -> list[int]:
        """The ids without masks."""
        ids = list(row["input_ids"])
        for position, label in zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True):
            ids[position] = label
        return ids

    def predict(self, row: Row, position: int, token: int) -> None:
        """Adds a prediction: the token there is now ``token``."""
        pairs = list(zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True))
        pairs = sorted([*pairs, (position, row["input_ids"][position])])
        row["masked_lm_positions"], row["masked_lm_ids"] = map(list, zip(*pairs, strict=True))
        row["input_ids"][position] = token

    def forget(self, row: Row, position: int) -> None:
        """Takes a prediction away, and puts the original back."""
        i = row["masked_lm_positions"].index(position)
        row["input_ids"][position] = row["masked_lm_ids"][i]
        del row["masked_lm_positions"][i], row["masked_lm_ids"][i]

    def _histogram(self, data_set: int) -> list[int]:
        longest = self.manifest["data_sets"][data_set]["max_seq_length"]
        bins = [0] * HISTOGRAM_BINS
        for number in range(len(self.manifest["data_sets"][data_set]["shards"])):
            for row in self.rows(number, data_set=data_set):
                bins[(len(row["input_ids"]) - 1) * HISTOGRAM_BINS // longest] += 1
        return bins
