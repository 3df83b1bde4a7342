"""Whole builds, proved row by row against the corpus as the library alone tokenizes it."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.manifest import load_manifest
from tests.builds import DATA, VOCAB, build_here
from tests.library_proof import prove


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_whole_word_mask": True, "max_seq_length": (128, 512), "dupe_factor": 3},
        {"max_seq_length": (16,), "masked_lm_prob": 0.4, "short_seq_prob": 1.0},
        {"do_whole_word_mask": True, "random_tokens": "all", "validation_fraction": 0.3},
        {"max_seq_length": (8,), "dupe_factor": 1, "num_shards": 5},
    ],
    ids=["defaults", "whole-words-two-lengths", "short", "validation", "tiny"],
)
def test_every_row_keeps_every_promise(tmp_path, settings):
    path = DATA / "sentences.txt"
    # The proof finds sentences by their numbers; of those in parts tests/end_to_end/test_long_sentences.py.
    whole = {"split_long_sentences": False, **settings}
    manifest = build_here(path, output=tmp_path / "out", provenance=True, **whole)
    seen = prove(tmp_path / "out", [str(path)])
    assert seen["rows"] > 300
    assert seen["documents"] == 66
    for data_set in manifest.data_sets:
        # Half, or what chunks of one sentence force, which can only be NotNext.
        rates = data_set.rates
        assert rates.not_next is not None
        assert rates.single_segment_not_next is not None
        half = max(0.5, rates.single_segment_not_next)
        if data_set.examples > 200:
            assert abs(rates.not_next - half) < 0.02


def test_provenance_adds_columns_and_changes_no_row(tmp_path):
    import pyarrow.parquet as pq

    path = DATA / "sentences.txt"
    tables = []
    for provenance in (False, True):
        output = tmp_path / str(provenance)
        manifest = build_here(path, output=output, provenance=provenance)
        tables.append(pq.read_table(output / manifest.data_sets[0].shards[0].path))
    assert tables[1].select(tables[0].column_names).equals(tables[0])
    assert {"a_document", "b_first_sentence", "dupe_pass"} <= set(tables[1].column_names)


def test_splits_share_no_document(tmp_path):
    import pyarrow.parquet as pq

    output = tmp_path / "out"
    build_here(
        DATA / "sentences.txt",
        output=output,
        provenance=True,
        validation_fraction=0.3,
        num_shards=4,
    )
    documents = {}
    for data_set in load_manifest(output).data_sets:
        found = set()
        for shard in data_set.shards:
            table = pq.read_table(output / shard.path)
            found |= set(table.column("a_document").to_pylist())
            found |= set(table.column("b_document").to_pylist())
        documents[data_set.split] = found
    assert not documents["train"] & documents["validation"]
    assert len(documents["train"] | documents["validation"]) == 66
    assert 8 <= len(documents["validation"]) <= 32


def test_shards_hold_no_row_twice_and_are_shuffled(tmp_path):
    import pyarrow.parquet as pq

    output = tmp_path / "out"
    manifest = build_here(DATA / "sentences.txt", output=output, provenance=True, num_shards=3)
    assert len({shard.sha256 for shard in manifest.data_sets[0].shards}) == 3
    for shard in manifest.data_sets[0].shards:
        table = pq.read_table(output / shard.path)
        passes = np.asarray(table.column("dupe_pass"))
        # Neighbours in a shuffled shard are of the same pass one time in five.
        assert abs((passes[1:] == passes[:-1]).mean() - 0.2) < 0.08
        documents = table.column("a_document").to_pylist()
        runs = sum(a == b for a, b in zip(documents[1:], documents[:-1], strict=True))
        assert runs < 0.25 * len(documents)


def test_datasets_loads_it_offline(tmp_path):
    import datasets

    output = tmp_path / "out"
    manifest = build_here(
        DATA / "sentences.txt", output=output, max_seq_length=(64, 128), validation_fraction=0.2
    )
    for data_set in manifest.data_sets:
        rows = datasets.load_dataset(
            str(output), data_set.name, split=data_set.split, cache_dir=str(tmp_path / "cache")
        )
        assert len(rows) == data_set.examples
        assert rows.column_names[:2] == ["input_ids", "token_type_ids"]
        assert len(rows[0]["input_ids"]) == rows[0]["num_tokens"] <= data_set.max_seq_length


def test_wide_ids(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    tokens = VOCAB.read_text().split("\n")[:-1]
    vocab = tmp_path / "vocab.txt"
    fillers = [f"[unused{i}]" for i in range(70_000)]
    vocab.write_text("\n".join([*tokens[:5], *fillers, *tokens[5:]]) + "\n")
    output = tmp_path / "out"
    path = DATA / "sentences.txt"
    manifest = build_here(
        path, output=output, vocab_file=str(vocab), provenance=True, do_whole_word_mask=True
    )
    prove(output, [str(path)])
    table = pq.read_table(output / manifest.data_sets[0].shards[0].path)
    assert table.schema.field("input_ids").type.value_type == pa.uint32()
    assert max(max(row) for row in table.column("input_ids").to_pylist()) > 70_000
