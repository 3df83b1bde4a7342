"""Where a run starts from, and how it fails: one line that says what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import BertForMaskedLM, BertForPreTraining, BertModel

from schemas.errors import ConfigError
from schemas.manifest import load_manifest
from tests.end_to_end.train_runs import configure
from train.cli import main
from train.start import start_model
from train.step import Stepper
from train.train import train


def test_init_starts_from_the_weights(train_data, trained_model, tmp_path, monkeypatch):
    started = []
    update = Stepper.update

    def watched(self, batch, *, step):
        if not step:
            model = self._losses.model
            started.append({name: p.detach().clone() for name, p in model.named_parameters()})
            assert not self.optimizer.state
        return update(self, batch, step=step)

    monkeypatch.setattr(Stepper, "update", watched)
    for model in (None, "1,64"):
        config = configure(
            train_data, tmp_path / str(model), model=model, init=str(trained_model), dropout=0.3
        )
        report = train(config)
        assert report.first_step == 0
        theirs = BertForPreTraining.from_pretrained(trained_model)
        for name, parameter in theirs.named_parameters():
            assert torch.equal(parameter, started[-1][name])
        written = BertForPreTraining.from_pretrained(tmp_path / str(model)).config
        assert written.hidden_dropout_prob == 0.3


def test_init_from_a_model_without_the_second_head(train_data, trained_model, tmp_path, capsys):
    BertForMaskedLM.from_pretrained(trained_model).save_pretrained(tmp_path / "masked")
    report = train(configure(train_data, tmp_path / "out", init=str(tmp_path / "masked"), steps=1))
    assert report.losses[0] < 8.5
    said = [line for line in capsys.readouterr().out.splitlines() if "masked has no" in line]
    assert len(said) == 1
    assert said[0].endswith("has no bert.pooler, cls.seq_relationship: new ones are drawn")


def start(train_data, **settings):
    manifest = load_manifest(train_data)
    tokenizer = Tokenizer.from_file(str(train_data / "tokenizer.json"))
    config = configure(train_data, Path("out"), model=None, **settings)
    return start_model(config, about=manifest.tokenizer, tokenizer=tokenizer, max_seq_length=32)


def test_new_heads_are_drawn_from_the_seed_as_new_models_are(train_data, trained_model, tmp_path):
    BertModel.from_pretrained(trained_model).save_pretrained(tmp_path / "encoder")
    drawn: list[torch.Tensor] = []
    for seed in (7, 7, 8):
        torch.rand(len(drawn) + 1)  # whatever was drawn before
        model = start(train_data, init=str(tmp_path / "encoder"), seed=seed)
        weights = model.state_dict()
        drawn.append(weights["cls.predictions.transform.dense.weight"])
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert 0.03 < drawn[0].abs().max() <= 0.04
    name = "bert.encoder.layer.0.output.dense.weight"
    assert torch.equal(
        weights[name], BertForPreTraining.from_pretrained(trained_model).state_dict()[name]
    )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("type", "config.json is of a model of type roberta; it must be bert"),
        ("config", "config.json cannot be read: "),
        ("names", "its weights have no bert.embeddings.LayerNorm.bias, nor "),
        ("weights", "model.safetensors in it cannot be read: "),
        ("tokenizer", "tokenizer.json cannot be read: "),
    ],
)
def test_init_that_would_load_nothing_is_refused(train_data, trained_model, tmp_path, how, message):
    here = tmp_path / "init"
    shutil.copytree(trained_model, here)
    weights, text = here / "model.safetensors", json.loads((here / "config.json").read_text())
    if how == "type":
        (here / "config.json").write_text(json.dumps(text | {"model_type": "roberta"}))
    elif how == "names":
        save_file({f"other.{k}": v for k, v in load_file(weights).items()}, weights)
    elif how == "weights":
        weights.write_bytes(weights.read_bytes()[:5000])
    else:
        (here / f"{how}.json").write_text("{")
    with pytest.raises(ConfigError, match=r"--init=.*init") as refused:
        start(train_data, init=str(here))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"init": "{tmp}/none"}, "no model is there; name a directory with config.json"),
        ({"init": "{other}"}, "its vocabulary (99 entries) is not that of the data set (3,637)"),
        ({"init": "{renamed}"}, "is not that of the data set"),
        ({"init": "{trained}", "model": "2,128"}, "has the shape 1,64; leave it out"),
        ({"device": "cuda"}, "torch finds no GPU here; give --device cpu"),
        (
            {"phases": "seq32:0.5,seq99:0.5"},
            "--phases='seq32:0.5,seq99:0.5': seq99: no such examples; there are 32 train, 32 "
            "validation, 64 train, 64 validation; give --max_seq_length or --phases of what there is, or "
            "build the data with --max_seq_length 32,99",
        ),
        (
            {"config": "bert-base"},
            "seq128: no such examples; there are 32 train, 32 validation, 64 train, 64 validation; "
            "give --max_seq_length or --phases of what there is, or build the data with "
            "--max_seq_length 128,512",
        ),
        (
            {"max_seq_length": "99"},
            "--max_seq_length=99: no such examples; there are 32 train, 32 validation, 64 train, 64 "
            "validation; give --max_seq_length or --phases of what there is, or build the data with "
            "--max_seq_length 99",
        ),
        ({"output": "/proc/self/fdinfo"}, "--output='/proc/self/fdinfo': cannot be written: "),
    ],
)
def test_what_cannot_be_is_one_line(train_data, trained_model, tmp_path, capsys, change, message):
    if "device" in change and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    if not Path(change.get("output", "/")).exists():
        pytest.skip("there is no directory that nobody can write to")
    other, renamed = tmp_path / "other", tmp_path / "renamed"
    shutil.copytree(trained_model, renamed)
    tokenizer = json.loads((renamed / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, second = [token for token in vocabulary if token.isalpha() and len(token) > 3][:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (renamed / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = BertForPreTraining.from_pretrained(trained_model).config
    config.vocab_size = 99
    BertForPreTraining(config).save_pretrained(other)
    places = {"tmp": tmp_path, "other": other, "trained": trained_model, "renamed": renamed}
    flags = [text for name, v in change.items() for text in (f"--{name}", v.format(**places))]
    output, steps = tmp_path / "out", [] if "config" in change else ["--steps", "2"]
    assert main([str(train_data), "--output", str(output), *steps, *flags]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(output.glob("*"))


def broken(train_data, here, how) -> None:
    """A copy of the data set with something wrong with it."""
    shutil.copytree(train_data, here)
    shard = next((here / "seq32").glob("train-00001-*"))
    manifest = here / "manifest.json"
    if how == "missing":
        shard.unlink()
    elif how == "changed":
        content = bytearray(shard.read_bytes())
        content[len(content) // 3] ^= 1
        shard.write_bytes(content)
    elif how == "tokenizer":
        (here / "tokenizer.json").write_text("{}")
    else:
        text = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(text | {"schema_version": 99}))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", "it is missing; build or copy again"),
        ("changed", "build or copy again"),
        ("tokenizer", "another tokenizer than the one that made this data set"),
        ("newer", "has schema_version 99, this program reads up to"),
    ],
)
def test_a_train_data_that_cannot_be_used_is_one_line(train_data, tmp_path, capsys, how, message):
    broken(train_data, tmp_path / "data", how)
    output = tmp_path / "out"
    arguments = [str(tmp_path / "data"), "--output", str(output), "--steps", "2", "--verify"]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(output.glob("*"))


def test_more_processes_than_rows(train_data, tmp_path, monkeypatch):
    """Found before the processes look for each other."""
    monkeypatch.setattr("train.distributed.dist.init_process_group", lambda *a, **k: None)
    monkeypatch.setenv("WORLD_SIZE", "100000")
    with pytest.raises(ConfigError, match=r"start at most [\d,]+, the rows that there are"):
        train(configure(train_data, tmp_path / "out", batch_size=100_000))
    with pytest.raises(ConfigError, match="must be a multiple of 100000: 100000 processes"):
        train(configure(train_data, tmp_path / "out", batch_size=8))
