"""Validation by hand: losses, accuracies by fate, what frequencies alone allow, and the text shown."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch
from tokenizers import Tokenizer

from schemas.errors import BuildError
from tests.unit.small_data_sets import write_data_set
from train.baseline import frequency_baseline
from train.config import TrainConfig
from train.data import PretrainingDataset
from train.distributed import Ranks
from train.evaluation import evaluate, write_predictions
from train.metrics import WRITTEN, Metrics
from train.model import Predictions, make_model
from train.progress import Progress
from train.step import Update


@pytest.fixture(scope="module", params=["nsp", "mlm"])
def data_set(request, tmp_path_factory):
    return write_data_set(tmp_path_factory.mktemp("eval") / "data", objective=request.param)


@pytest.fixture(scope="module")
def model(data_set):
    return make_model("1,64", vocab_size=data_set.vocabulary.vocab_size, pad_id=0, seed=1)


def fates(data_set) -> Counter:
    """How many masked tokens have each, from the rows as they were made."""
    found: Counter = Counter()
    for row, masks in zip(data_set.rows, data_set.masks, strict=True):
        for position, stands in masks[0].items():
            right = row["input_ids"][position]
            mask = data_set.vocabulary.mask_id
            found["mask" if stands == mask else "kept" if stands == right else "random"] += 1
    return found


def test_accuracies_by_fate_are_those_of_a_model_that_copies(data_set, model, monkeypatch):
    """It says what stands there: right where a token was kept, wrong everywhere else."""

    def copy(model, batch):
        stands = batch["input_ids"].flatten()[batch["masked_at"]]
        logits = 20.0 * torch.nn.functional.one_hot(stands, model.config.vocab_size)
        labels = batch.get("next_sentence_label")
        pairs = None
        if labels is not None:
            pairs = torch.stack([torch.ones(len(labels)), torch.zeros(len(labels))], 1)
        return Predictions(logits, batch["masked_ids"], pairs)

    monkeypatch.setattr("train.evaluation.predict", copy)
    found = evaluate(model, PretrainingDataset(data_set.directory, batch_size=10))
    counts = fates(data_set)
    assert counts["mask"]
    assert counts["random"]
    total = sum(counts.values())
    kept = counts["kept"] / total
    assert found.masked_lm_accuracy == pytest.approx(kept)
    assert (found.mask_token_accuracy, found.random_token_accuracy) == (0.0, 0.0)
    assert found.kept_token_accuracy == (1.0 if kept else None)
    at_right, at_wrong = (math.log(math.exp(20) + 3636) - x for x in (20, 0))
    loss = kept * at_right + (1 - kept) * at_wrong
    assert found.masked_lm_loss == pytest.approx(loss, rel=1e-4)
    assert found.perplexity == pytest.approx(math.exp(loss), rel=1e-2)
    if data_set.manifest.objective == "mlm":
        assert found.next_sentence_accuracy is None
    else:
        labels = [row["next_sentence_label"] for row in data_set.rows]
        assert found.next_sentence_accuracy == pytest.approx(labels.count(0) / len(labels))


def test_processes_take_their_shares(data_set, model, monkeypatch):
    dataset = PretrainingDataset(data_set.directory, batch_size=10)
    whole = evaluate(model, dataset)
    shares = []
    monkeypatch.setattr(Ranks, "sum", lambda self, values: shares.append(values.clone()))
    for rank in range(3):
        evaluate(model, dataset, ranks=Ranks(rank, 3, torch.device("cpu")))
    total = sum(shares)
    assert (total[0, 0] / total[0, 2]).item() == pytest.approx(whole.masked_lm_loss)
    assert total[0, 2] == sum(fates(data_set).values())


def test_frequencies_alone(data_set):
    found = frequency_baseline(
        str(data_set.directory), max_seq_length=None, seed=1, validation=False
    )
    counts = Counter(
        row["input_ids"][position]
        for row, masks in zip(data_set.rows, data_set.masks, strict=True)
        for position in masks[0]
    )
    total = sum(counts.values())
    entropy = -sum(n / total * math.log(n / total) for n in counts.values())
    assert found.entropy == pytest.approx(entropy)
    assert found.validation is None


def test_frequencies_on_held_out_rows(tmp_path):
    """Of the same rows, with one added to every count."""
    data_set = write_data_set(tmp_path / "data")
    found = frequency_baseline(
        str(data_set.directory), max_seq_length=None, seed=1, validation=False
    )
    path = data_set.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    other = dict(manifest["data_sets"][0], split="validation")
    manifest["data_sets"].append(other)
    manifest["counts"]["examples"] *= 2
    path.write_text(json.dumps(manifest))
    both = frequency_baseline(str(data_set.directory), max_seq_length=None, seed=1, validation=True)
    assert both.entropy == found.entropy
    assert both.validation is not None
    assert found.entropy < both.validation < math.log(3637)


def test_predictions_as_text(data_set, model):
    dataset = PretrainingDataset(data_set.directory, batch_size=10)
    tokenizer = Tokenizer.from_file(str(data_set.directory / "tokenizer.json"))
    batch = next(dataset.batches())
    lines = write_predictions(model, dataset, tokenizer, rows=2)
    assert len(lines) == 2
    for i, line in enumerate(lines):
        count = int(batch["masked_lm_weights"][i].sum())
        assert line.startswith("[CLS]")
        assert line.count("{") == line.count("}") == count
        for k in range(count):
            original = tokenizer.id_to_token(int(batch["masked_lm_ids"][i, k]))
            assert f"/{original}}}" in line or f"{{{original}}}" in line


def test_pieces_are_joined_to_the_words_that_they_belong_to(data_set, model, monkeypatch):
    """Not to special tokens, nor to what was predicted, in which their place would be lost."""
    tokenizer = Tokenizer.from_file(str(data_set.directory / "tokenizer.json"))
    text = "[CLS] ##s river ##s ##s [MASK] ##s the ##s [SEP] ##s a [UNK] ##s [SEP]"
    tokens = text.split()
    ids = torch.tensor([[tokenizer.token_to_id(token) for token in tokens]])
    masked = [tokens.index("[MASK]"), tokens.index("the")]  # the latter is kept
    river = tokenizer.token_to_id("river")
    batch = {
        "input_ids": ids,
        "token_type_ids": torch.zeros_like(ids),
        "attention_mask": torch.ones_like(ids),
        "masked_lm_positions": torch.tensor([masked]),
        "masked_lm_ids": torch.tensor([[river, river]]),
        "masked_lm_weights": torch.ones(1, 2),
    }
    logits = torch.nn.functional.one_hot(torch.tensor([river, river]), model.config.vocab_size)
    found = Predictions(logits, torch.tensor([river, river]), None)
    monkeypatch.setattr("train.evaluation.predict", lambda model, batch: found)
    dataset = PretrainingDataset(data_set.directory, batch_size=1)
    monkeypatch.setattr(dataset, "batches", lambda epoch: iter([batch]))
    (line,) = write_predictions(model, dataset, tokenizer)
    assert line == "[CLS] ##s riverss {river} ##s {river} ##s [SEP] ##s a [UNK] ##s [SEP]"


def test_metrics_of_steps_that_are_done_again_are_taken_back(tmp_path):
    metrics = Metrics(tmp_path, first=0)
    metrics.write("run", 1, baseline_loss=6.0)
    for step in (2, 4, 6):
        metrics.write("train", step, masked_lm_loss=8.0 - step, next_sentence_loss=None)
    metrics.write("validation", 4, masked_lm_loss=float("nan"))
    metrics.draw()
    metrics.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "tra')  # killed
    again = Metrics(tmp_path, first=4)
    again.write("train", 5, masked_lm_loss=1.0)
    again.draw()
    again.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("run", 1),
        ("train", 2),
        ("train", 4),
        ("validation", 4),
        ("train", 5),
    ]
    assert lines[1] == {"kind": "train", "step": 2, "masked_lm_loss": 6.0}
    assert lines[3]["masked_lm_loss"] == "nan"
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in tmp_path.iterdir()} <= WRITTEN
    assert any((tmp_path / "tensorboard").iterdir())


def test_a_damaged_log_is_no_reason_not_to_go_on(tmp_path):
    metrics = Metrics(tmp_path, first=0)
    for step in (1, 2):
        metrics.write("train", step, masked_lm_loss=8.0 - step)
    metrics.close()
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'\0\0\0\nmine\n[]\nnull\n\xff\n{"step": 1}\n{"kind": "train", "step": "2"}\n\n')
    again = Metrics(tmp_path, first=2)
    again.draw()
    again.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["step"]) for line in lines] == [("train", 1), ("train", 2)]


@pytest.mark.parametrize(
    ("losses", "norm", "precision", "fails"),
    [
        ((1.0, 0.7), 1.0, "float32", False),
        ((float("nan"), 0.7), 1.0, "float32", True),
        ((1.0, 0.7), float("inf"), "float32", True),
        ((1.0, 0.7), float("inf"), "float16", False),
    ],
)
def test_what_is_no_number_ends_the_run(losses, norm, precision, fails):
    config = TrainConfig(data="d", output="o", log_every=1, precision=precision)
    progress = Progress(config, first=0, pairs="next sentence", metrics=None)
    update = Update(torch.tensor(losses), torch.tensor(norm), 1e-3, 100)
    if not fails:
        progress.add(0, update)
        assert progress.losses == [pytest.approx(1.7)]
        return
    with pytest.raises(BuildError, match="at step 1: give a smaller --learning_rate"):
        progress.add(0, update)


def test_a_line_has_the_means_since_the_line_before(tmp_path):
    config = TrainConfig(data="d", output="o", log_every=4, save_checkpoints_steps=1000)
    metrics = Metrics(tmp_path, first=0)
    progress = Progress(config, first=0, pairs="next sentence", metrics=metrics)
    for step in range(7):
        losses = torch.tensor([float(step), 0.5])
        progress.add(step, Update(losses, torch.tensor(step + 1.0), step / 100, 10))
    for _ in range(2):  # the second time there is nothing to be said
        progress.show(7)
    metrics.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    names = ("step", "masked_lm_loss", "next_sentence_loss", "gradient_norm", "learning_rate")
    assert [tuple(line[name] for name in names) for line in lines] == [
        (1, 0.0, 0.5, 1.0, 0.0),
        (4, 2.0, 0.5, 4.0, 0.03),
        (7, 5.0, 0.5, 7.0, 0.06),
    ]
    assert progress.losses == [0.5, 2.5, 5.5]
