"""The collator makes of a row what the trainer makes of it, and ``transformers.Trainer`` takes that."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")
pytest.importorskip("datasets", reason="needs datasets: pip install bert-data[test]")

import datasets
import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, Trainer, TrainingArguments

from schemas.errors import ConfigError
from tests.unit.small_data_sets import KINDS, PASSES
from train.collator import IGNORED, DataCollatorForPretraining
from train.data import PretrainingDataset


@pytest.fixture(scope="module")
def small(small):
    """Rows in whose masks words are whole."""
    return functools.partial(small, do_whole_word_mask=True)


def load(data_set) -> datasets.Dataset:
    """Its rows as ``datasets`` has them, which reads the shards in order."""
    shards = data_set.manifest.data_sets[0].shards
    rows = [
        row
        for shard in shards
        for row in pq.read_table(data_set.directory / shard.path).to_pylist()
    ]
    return datasets.Dataset.from_list(rows)


def with_numbers(rows: datasets.Dataset) -> datasets.Dataset:
    return rows.add_column("row", range(len(rows)))


def as_labels(batch) -> dict[str, torch.Tensor]:
    """A batch of ``PretrainingDataset`` as the collator would have it."""
    labels = torch.full_like(batch["input_ids"], IGNORED)
    rows, columns = torch.nonzero(batch["masked_lm_weights"], as_tuple=True)
    labels[rows, batch["masked_lm_positions"][rows, columns]] = batch["masked_lm_ids"][
        rows, columns
    ]
    kept = {name: x for name, x in batch.items() if not name.startswith("masked_lm")}
    return kept | {"labels": labels}


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tensors_are_those_of_the_data_set(small, kind):
    data_set = small(*kind)
    rows = with_numbers(load(data_set))
    original = {tuple(row["input_ids"]): n for n, row in enumerate(data_set.rows)}
    collator = DataCollatorForPretraining(data_set.directory, seed=7)
    dataset = PretrainingDataset(data_set.directory, batch_size=16, seed=7)
    for epoch in (0, 1, PASSES + 1):
        collator.set_epoch(epoch)
        for batch in dataset.batches(epoch=epoch):
            expected = as_labels(batch)
            ids = torch.where(expected["labels"] < 0, expected["input_ids"], expected["labels"])
            lengths = expected["attention_mask"].sum(1).tolist()
            numbers = [original[tuple(x[:n].tolist())] for x, n in zip(ids, lengths, strict=True)]
            assert same(collator([rows[n] for n in numbers]), expected)
    assert ("next_sentence_label" in expected) == (kind[0] != "mlm")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["numpy", "torch"])
def test_any_format_of_the_rows_will_do(small, kind, form):
    rows = with_numbers(load(small(*kind)))
    plain = DataCollatorForPretraining(small(*kind).directory)([rows[n] for n in range(5)])
    rows = rows.with_format(form)
    assert same(
        DataCollatorForPretraining(small(*kind).directory)([rows[n] for n in range(5)]), plain
    )


def test_shapes_and_types_are_those_of_the_docstring(small):
    collator = DataCollatorForPretraining(small().directory)
    rows = load(small())
    batch = collator([rows[n] for n in range(9)])
    longest = max(rows[n]["num_tokens"] for n in range(9))
    shape = (9, -(-longest // 8) * 8)
    names = ("input_ids", "token_type_ids", "attention_mask", "labels")
    assert {name: tuple(x.shape) for name, x in batch.items()} == {
        **dict.fromkeys(names, shape),
        "next_sentence_label": (9,),
    }
    assert {x.dtype for x in batch.values()} == {torch.int64}


def test_rows_without_numbers_are_counted_in_every_epoch(small):
    data_set = small("nsp", "none")
    rows = load(data_set)
    numbered = with_numbers(rows)
    collator = DataCollatorForPretraining(data_set.directory)
    other = DataCollatorForPretraining(data_set.directory)
    for epoch in (0, 1):
        collator.set_epoch(epoch)
        other.set_epoch(epoch)
        for first in (0, 10, 20):
            batch = range(first, first + 10)
            expected = other([numbered[n] for n in batch])
            assert same(collator([rows[n] for n in batch]), expected)


@pytest.mark.parametrize("persistent", [False, True])
def test_worker_processes_hear_of_the_epoch(small, persistent):
    data_set = small("mlm", "none")
    rows = with_numbers(load(data_set))
    collator = DataCollatorForPretraining(data_set.directory)
    here = DataCollatorForPretraining(data_set.directory)
    loader = DataLoader(
        rows, batch_size=40, collate_fn=collator, num_workers=2, persistent_workers=persistent
    )
    for epoch in (0, 1, 2):
        collator.set_epoch(epoch)
        here.set_epoch(epoch)
        firsts = range(0, len(rows), 40)
        for first, batch in zip(firsts, loader, strict=True):
            numbers = range(first, min(first + 40, len(rows)))
            assert same(batch, here([rows[n] for n in numbers]))


def test_workers_count_without_saying_a_number_twice(small):
    data_set = small("nsp", "none")
    row = load(data_set).select([3] * 64)
    collator = DataCollatorForPretraining(data_set.directory)
    loader = DataLoader(row, batch_size=8, collate_fn=collator, num_workers=2)
    drawn = {tuple(ids.tolist()) for batch in loader for ids in batch["input_ids"]}
    assert len(drawn) > 50  # a stream for each of 64, of which a few may agree


def test_it_can_be_pickled(small):
    data_set = small("sop", "none")
    collator = DataCollatorForPretraining(data_set.directory)
    collator.set_epoch(3)
    features = [load(data_set)[0]]
    assert same(pickle.loads(pickle.dumps(collator))(features), collator(features))


def test_a_manifest_does_where_the_rows_have_masks(small):
    data_set = small("nsp", "static", "shared")
    rows = [load(data_set)[n] for n in range(3)]
    of_directory = DataCollatorForPretraining(data_set.directory)(rows)
    assert same(DataCollatorForPretraining(data_set.manifest)(rows), of_directory)
    with pytest.raises(ConfigError, match="takes the tokenizer: give the directory"):
        DataCollatorForPretraining(small("nsp", "none").manifest)


def test_what_is_wrong_is_said(small, tmp_path):
    data_set = small("nsp", "none")
    with pytest.raises(ConfigError, match="--max_seq_length=128: must be one of 64"):
        DataCollatorForPretraining(data_set.directory, max_seq_length=128)
    with pytest.raises(ConfigError, match="not a data set"):
        DataCollatorForPretraining(tmp_path)
    collator = DataCollatorForPretraining(data_set.directory)
    with pytest.raises(ValueError, match=r"no continues_word, .* remove_unused_columns=False"):
        collator([{name: x for name, x in load(data_set)[0].items() if name != "continues_word"}])


@pytest.mark.parametrize("kind", [("nsp", "static", "separate"), ("sop", "none", "separate")])
def test_the_trainer_of_transformers_takes_it(small, tmp_path, kind):
    """Two epochs of pairs; the epochs are heard of, and the loss is one of both heads."""
    data_set = small(*kind)
    rows = with_numbers(load(data_set).select(range(32)))
    epochs, losses = [], []

    class Watched(DataCollatorForPretraining):
        def __call__(self, features):
            epochs.append(int(self._epoch))
            return super().__call__(features)

    collator = Watched(data_set.directory)
    trainer = Trainer(
        model=BertForPreTraining(tiny(data_set)),
        args=arguments(tmp_path, num_train_epochs=2),
        train_dataset=rows,
        data_collator=collator,
        callbacks=[collator.callback()],
    )
    assert trainer.train().global_step == 4
    losses = [x["loss"] for x in trainer.state.log_history if "loss" in x]
    assert losses[0] == pytest.approx(np.log(data_set.vocabulary.vocab_size) + np.log(2), abs=0.3)
    assert {0, 1} <= set(epochs)
    assert epochs == sorted(epochs)


def test_without_pairs_it_is_a_masked_language_model(small, tmp_path):
    data_set = small("mlm", "static", "shared")
    collator = DataCollatorForPretraining(data_set.directory)
    trainer = Trainer(
        model=BertForMaskedLM(tiny(data_set)),
        args=arguments(tmp_path, max_steps=1),
        train_dataset=load(data_set),
        eval_dataset=load(data_set).select(range(16)),
        data_collator=collator,
    )
    assert trainer.train().training_loss == pytest.approx(
        np.log(data_set.vocabulary.vocab_size), abs=0.3
    )
    assert trainer.evaluate()["eval_loss"] > 1


def tiny(data_set) -> BertConfig:
    return BertConfig(
        vocab_size=data_set.vocabulary.vocab_size,
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=64,
    )


def arguments(folder, **values) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=16,
        remove_unused_columns=False,
        report_to=[],
        use_cpu=True,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        **values,
    )
