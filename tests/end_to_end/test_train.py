"""From the sample to a model that ``transformers`` loads, stopped and resumed on the way."""

from __future__ import annotations

import math
import shutil

import pytest

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")

from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertForPreTraining, BertForSequenceClassification, pipeline

from schemas.errors import ConfigError
from tests.builds import DATA, build_here
from tests.end_to_end import train_runs
from train.cli import main
from train.config import TrainConfig
from train.data import PretrainingDataset
from train.evaluation import evaluate
from train.metrics import WRITTEN
from train.train import train


@pytest.fixture(scope="module")
def data_set(tmp_path_factory):
    output = tmp_path_factory.mktemp("train") / "data"
    build_here(
        DATA / "documents.jsonl",
        output=output,
        max_seq_length=(32,),
        validation_fraction=0.1,
        do_lower_case=False,
    )
    return output


def configure(data_set, output, **settings) -> TrainConfig:
    values = {"model": "tiny", "steps": 6, "save_checkpoints_steps": 2}
    return train_runs.configure(data_set, output, **(values | settings))


@pytest.fixture(scope="module")
def trained(data_set, tmp_path_factory):
    """A run of 6 steps without interruption."""
    output = tmp_path_factory.mktemp("trained") / "model"
    return output, train(configure(data_set, output))


def test_the_loss_on_the_sample_comes_down(data_set, tmp_path):
    settings = {"steps": 60, "batch_size": 32, "warmup_steps": 10, "save_checkpoints_steps": 60}
    losses = train(configure(data_set, tmp_path / "a", **settings)).losses
    assert len(losses) == 60
    assert losses[0] == pytest.approx(math.log(3637) + math.log(2), abs=0.2)  # a blind guess
    assert sum(losses[-10:]) / 10 < losses[0] - 1.2


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_a_resumed_run_has_the_same_losses(data_set, trained, tmp_path, monkeypatch, capsys, stop):
    output, whole = trained
    assert whole.first_step == 0
    here = tmp_path / "model"
    flags = "--steps 6 --batch_size 8 --learning_rate 1e-3 --save_checkpoints_steps 2"
    command = [str(data_set), "--output", str(here), *flags.split()]
    with monkeypatch.context() as patch:
        train_runs.stop_at(patch, stop)
        assert main(command) == 130
    assert "--resume goes on" in capsys.readouterr().err
    assert not (here / "config.json").exists()
    resumed = train(configure(data_set, here, resume=True))
    train_runs.check_goes_on(whole, resumed, output, here, first=stop // 2 * 2)


def test_only_whole_checkpoints_count_and_the_last_is_kept(data_set, trained, tmp_path):
    output = tmp_path / "model"
    shutil.copytree(trained[0], output)
    names = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    names |= WRITTEN | {"checkpoint-4", "checkpoint-6"}
    assert {p.name for p in output.iterdir()} == names
    half = output / ".checkpoint-7.tmp"
    half.mkdir()
    (half / "training_state.pt").write_text("half of it")
    again = train(configure(data_set, output, resume=True))
    assert (again.first_step, again.losses) == (6, [])
    assert {p.name for p in output.iterdir()} == names


def test_nothing_is_written_over_and_settings_do_not_change_on_the_way(data_set, trained, tmp_path):
    output, _ = trained
    with pytest.raises(ConfigError, match="already holds something; --resume goes on"):
        train(configure(data_set, output))
    with pytest.raises(ConfigError, match=r"made with learning_rate=0\.001, not 0\.01"):
        train(configure(data_set, output, resume=True, learning_rate=0.01))
    other = tmp_path / "other"
    build_here(DATA / "sentences.txt", output=other, max_seq_length=(32,), do_lower_case=False)
    with pytest.raises(ConfigError, match="made with data="):
        train(configure(other, output, resume=True))
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="already holds something; give an empty"):
        train(configure(data_set, tmp_path, resume=True))
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_the_model_is_loaded_by_transformers(data_set, trained):
    output, _ = trained
    fill = pipeline("fill-mask", str(output))
    found = fill("the bridge over the [MASK] is old .", top_k=3)
    assert len(found) == 3
    assert all("bridge" in answer["sequence"] for answer in found)
    model = BertForSequenceClassification.from_pretrained(output)
    assert model.config.num_hidden_layers == 2
    assert (output / "tokenizer.json").read_bytes() == (data_set / "tokenizer.json").read_bytes()


def test_the_tokenizer_gives_the_ids_of_the_data(data_set, trained):
    """Of a cased tokenizer too, which transformers would lower-case if it was not told."""
    theirs = AutoTokenizer.from_pretrained(trained[0])
    ours = Tokenizer.from_file(str(data_set / "tokenizer.json"))
    pair = ("The river RHINE", "an old bridge")
    encoded = theirs(*pair)
    assert encoded["input_ids"] == ours.encode(*pair).ids
    assert encoded["token_type_ids"] == ours.encode(*pair).type_ids
    assert ours.encode("The").ids != ours.encode("the").ids
    assert (theirs.mask_token, theirs.pad_token, theirs.model_max_length) == (
        "[MASK]",
        "[PAD]",
        512,
    )


def test_evaluation_is_that_of_the_loaded_model_on_held_out_rows(data_set, trained):
    output, report = trained
    dataset = PretrainingDataset(data_set, batch_size=9, split="validation")
    model = BertForPreTraining.from_pretrained(output)
    found = evaluate(model, dataset)
    assert len(dataset) < 100  # all of them, so that the size of a batch makes no difference
    assert found == pytest.approx(report.evaluation, abs=1e-5)
    assert 5 < found.masked_lm_loss < 8.5
    assert 0 <= found.masked_lm_accuracy < 0.3
    assert found.next_sentence_accuracy is not None
    assert 0.3 < found.next_sentence_accuracy < 0.7
    assert found.perplexity == pytest.approx(math.exp(found.masked_lm_loss))


def test_a_loss_that_is_no_number_ends_the_run(data_set, tmp_path, capsys):
    flags = "--steps 50 --batch_size 4 --warmup_steps 0 --learning_rate 1e15 --log_every 1"
    output = tmp_path / "model"
    assert main([str(data_set), "--output", str(output), *flags.split()]) == 1
    assert "give a smaller --learning_rate" in capsys.readouterr().err
    assert not (output / "config.json").exists()


def test_the_command_says_how_far_it_is(data_set, tmp_path, capfd):
    output = tmp_path / "model"
    flags = "--model 1,64 --steps 4 --batch_size 4 --log_every 2"
    assert main([str(data_set), "--output", str(output), *flags.split()]) == 0
    stdout, stderr = capfd.readouterr()
    assert stderr == ""
    lines = stdout.splitlines()
    assert lines[0].startswith("BERT of 1 x 64: ")
    assert "4 steps of 4 rows of seq32/train" in lines[1]
    guess = math.log(3637)
    parts = (
        f"{guess + math.log(2):.4f} (masked tokens {guess:.4f}, next sentence 0.6931); a model of"
    )
    assert lines[2].startswith(f"A blind guess has loss {parts} token frequencies alone has loss ")
    assert [line.partition(":")[0] for line in lines[3:6]] == [
        "step 1 of 4",
        "step 2 of 4",
        "step 4 of 4",
    ]
    assert "tokens/s, 0:00 left" in lines[5]
    assert lines[6].startswith("step 4: validation: masked tokens: loss ")
    assert lines[7].startswith("Predictions on held-out rows")
    assert all("{" in line for line in lines[8:11])
    assert (output / "predictions.txt").read_text().splitlines() == lines[7:11]
    assert (output / "config.json").exists()
