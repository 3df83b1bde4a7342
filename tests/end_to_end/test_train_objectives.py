"""What the builder writes, of every kind, is what the trainer and other trainers are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")
pytest.importorskip("datasets", reason="needs datasets: pip install bert-data[test]")

import datasets
import torch

from schemas.manifest import load_manifest, open_shards
from tests.builds import DATA, build_here
from tests.end_to_end.train_runs import check_goes_on, configure, train_until
from train.collator import IGNORED, DataCollatorForPretraining
from train.data import PretrainingDataset
from train.train import train

KINDS: list[dict[str, Any]] = [
    {"objective": objective, **how}
    for objective in ("nsp", "sop", "mlm")
    for how in (
        {"masking": "static", "do_whole_word_mask": True},
        {"masking": "none", "do_whole_word_mask": True, "max_ngram_size": 2, "mask_per": "word"},
        {"masking": "static", "dupe_mode": "remask", "layout": "shared"},
    )
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: " ".join(map(str, kind.values())))
def data_set(request, tmp_path_factory):
    output = tmp_path_factory.mktemp("kinds") / "data"
    settings = {"max_seq_length": (32,), "validation_fraction": 0.1, "dupe_factor": 2}
    build_here(DATA / "documents.jsonl", output=output, num_shards=2, **settings, **request.param)
    return output


def stored_rows(directory) -> pa.Table:
    """All rows, in the order of the shards."""
    manifest = load_manifest(directory)
    paths = open_shards(manifest, directory, name="seq32", split="train")
    return pa.concat_tables([pq.read_table(path) for path in paths])


def collated(directory, *, epoch: int) -> dict[str, torch.Tensor]:
    """All rows by the way of ``datasets`` and the collator, in the order of the shards."""
    cache = str(directory.parent / "cache")
    rows = datasets.load_dataset(str(directory), "seq32", split="train", cache_dir=cache)
    rows = rows.add_column("row", range(len(rows)))
    collator = DataCollatorForPretraining(directory)
    collator.set_epoch(epoch)
    return collator([rows[i] for i in range(len(rows))])


def of_trainer(directory, *, epoch: int) -> list[tuple[Any, ...]]:
    """Ids, labels, types and label of the rows by the way of the trainer, sorted."""
    found = []
    for batch in PretrainingDataset(directory, batch_size=32, window_rows=500).batches(epoch=epoch):
        labels = torch.full_like(batch["input_ids"], IGNORED)
        rows, columns = torch.nonzero(batch["masked_lm_weights"], as_tuple=True)
        where = batch["masked_lm_positions"][rows, columns]
        labels[rows, where] = batch["masked_lm_ids"][rows, columns]
        found += as_rows({**batch, "labels": labels})
    return sorted(found)


def as_rows(batch) -> list[tuple[Any, ...]]:
    lengths = batch["attention_mask"].sum(1).tolist()
    names = ("input_ids", "labels", "token_type_ids")
    pairs = batch.get("next_sentence_label", torch.zeros(len(lengths)))
    return [
        (*(tuple(batch[name][i, :n].tolist()) for name in names), int(pairs[i]))
        for i, n in enumerate(lengths)
    ]


def test_both_ways_lead_to_the_same_rows(data_set):
    epochs = [sorted(as_rows(collated(data_set, epoch=epoch))) for epoch in (0, 1, 2)]
    for epoch, rows in enumerate(epochs):
        assert of_trainer(data_set, epoch=epoch) == rows
    manifest = load_manifest(data_set)
    assert (epochs[0] == epochs[1]) == (
        (manifest.masking, manifest.layout) == ("static", "separate")
    )
    assert (epochs[0] == epochs[2]) == (manifest.masking == "static")  # two passes


def test_masks_are_over_the_stored_rows_and_keep_the_rules(data_set):
    manifest, table = load_manifest(data_set), stored_rows(data_set)
    about = manifest.data_set(name="seq32", split="train")
    batch = collated(data_set, epoch=1)
    assert len(batch["labels"]) == about.examples == table.num_rows
    chosen = batch["labels"] != IGNORED
    predictions, lengths = chosen.sum(1).numpy(), batch["attention_mask"].sum(1).numpy()
    assert lengths.tolist() == table["num_tokens"].to_pylist()
    wanted = np.maximum(1, np.rint(lengths * manifest.configuration["masked_lm_prob"]))
    wanted = np.minimum(wanted, about.max_predictions_per_seq)
    assert (predictions <= wanted).all()
    if not manifest.configuration["do_whole_word_mask"]:
        assert (predictions == wanted).all()
    special = torch.tensor([manifest.tokenizer.cls_id, manifest.tokenizer.sep_id])
    assert not torch.isin(batch["labels"], special).any()
    original = torch.where(chosen, batch["labels"], batch["input_ids"])
    if (manifest.masking, manifest.layout) != ("static", "separate"):
        ids = table["input_ids"].to_pylist()
        assert [row[:n].tolist() for row, n in zip(original, lengths, strict=True)] == ids
    if manifest.masking == "none":
        now, labels = batch["input_ids"][chosen], batch["labels"][chosen]
        assert (now == manifest.tokenizer.mask_id).float().mean() == pytest.approx(0.8, abs=0.03)
        assert (now == labels).float().mean() == pytest.approx(0.1, abs=0.03)
        for row, n, joins in zip(chosen, lengths, table["continues_word"].to_pylist(), strict=True):
            joins = np.array(joins)
            assert (row[:n].numpy()[1:] == row[:n].numpy()[:-1])[joins[1:]].all()


def test_the_trainer_runs_and_goes_on_where_it_stopped(data_set, tmp_path):
    def configured(output, **settings):
        settings |= {"steps": 6, "batch_size": 300, "save_checkpoints_steps": 2}  # short epochs
        return configure(data_set, tmp_path / output, **settings)

    whole = train(configured("whole"))
    mlm = load_manifest(data_set).objective == "mlm"
    guess = np.log(3637) + (0 if mlm else np.log(2))
    assert whole.losses[0] == pytest.approx(guess, abs=0.2)
    assert whole.evaluation is not None
    assert (whole.evaluation.next_sentence_loss is None) == mlm
    train_until(configured("parts"), stop=5)
    resumed = train(configured("parts", resume=True))
    check_goes_on(whole, resumed, tmp_path / "whole", tmp_path / "parts", first=4)
