"""Rows of every objective, masking and layout reach the trainer whole, with masks that are right."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")


from schemas.errors import ConfigError
from schemas.manifest import LABEL_CONVENTIONS, MANIFEST_FILE
from tests.builds import ROOT
from tests.unit.small_data_sets import KINDS, PASSES, ROWS, masked, write_data_set
from train.config import TrainConfig
from train.data import PretrainingDataset
from train.manifest import regular_ids
from train.train import train
from transforms.vocabulary import load_tokenizer


def rows_of(batches) -> list[dict[str, Any]]:
    """The rows without padding; ``ids`` as the model sees them, ``original`` as the text has them."""
    found = []
    for batch in batches:
        for i, mask in enumerate(batch["attention_mask"].bool()):
            weights = batch["masked_lm_weights"][i].bool()
            ids = batch["input_ids"][i][mask].tolist()
            positions = batch["masked_lm_positions"][i][weights].tolist()
            labels = batch["masked_lm_ids"][i][weights].tolist()
            original = dict(enumerate(ids)) | dict(zip(positions, labels, strict=True))
            row = {
                "ids": ids,
                "original": [original[k] for k in range(len(ids))],
                "token_type_ids": batch["token_type_ids"][i][mask].tolist(),
                "positions": positions,
            }
            if "next_sentence_label" in batch:
                row["next_sentence_label"] = int(batch["next_sentence_label"][i])
            found.append(row)
    return found


def by_number(data_set, *, epoch: int = 0, **settings) -> list[dict[str, Any]]:
    """The rows of an epoch in the order of the file; each is there once, or this fails."""
    settings = {"batch_size": 16, "window_rows": 20} | settings
    found = rows_of(PretrainingDataset(data_set.directory, **settings).batches(epoch=epoch))
    numbers = {tuple(row["input_ids"]): n for n, row in enumerate(data_set.rows)}
    order = [numbers[tuple(row["original"])] for row in found]
    assert sorted(order) == list(range(sum(ROWS)))
    assert order != sorted(order)
    return [row for _, row in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_comes_once_an_epoch_as_it_was_written(small, kind):
    data_set = small(*kind)
    for epoch in (0, 1):
        for n, row in enumerate(by_number(data_set, epoch=epoch)):
            written = data_set.rows[n]
            if kind[0] == "mlm":
                assert "next_sentence_label" not in row
                assert set(row["token_type_ids"]) == {0}
            else:
                assert row["next_sentence_label"] == written["next_sentence_label"]
                assert row["token_type_ids"] == written["token_type_ids"]
            if kind[1] == "static":
                mask = data_set.masks[n][epoch if kind[2] == "shared" else 0]
                assert row["ids"] == masked(written, mask)
                assert row["positions"] == list(mask)


def test_a_cycle_of_epochs_gives_every_pass_once(small):
    data_set = small("nsp", "static", "shared")
    epochs = [by_number(data_set, epoch=epoch) for epoch in range(2 * PASSES)]
    for n, masks in enumerate(data_set.masks):
        seen = [epoch[n]["ids"] for epoch in epochs]
        assert seen[:PASSES] == [masked(data_set.rows[n], mask) for mask in masks]
        assert seen[PASSES:] == seen[:PASSES]


SETTINGS = [
    {},
    {"do_whole_word_mask": True},
    {"do_whole_word_mask": True, "mask_per": "word"},
    {"do_whole_word_mask": True, "max_ngram_size": 3, "mask_per": "ngram"},
    {"mask_token_share": 0.0, "random_token_share": 1.0, "kept_token_share": 0.0},
    {"mask_token_share": 0.0, "random_token_share": 1.0, "random_tokens": "all"},
    {"masked_lm_prob": 0.4},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("objective", ["nsp", "mlm"])
def test_masks_drawn_at_loading_keep_every_rule(small, objective, settings):
    data_set = small(objective, "none", **settings)
    configuration, vocabulary = data_set.manifest.configuration, data_set.vocabulary
    one_by_one = not configuration["do_whole_word_mask"] and configuration["max_ngram_size"] == 1
    fates = []
    for epoch in (0, 1):
        for n, row in enumerate(by_number(data_set, epoch=epoch)):
            written, positions = data_set.rows[n], row["positions"]
            length = written["num_tokens"]
            wanted = min(9, max(1, int(np.rint(length * configuration["masked_lm_prob"]))))
            assert len(positions) == wanted if one_by_one else len(positions) <= wanted
            assert positions == sorted(set(positions))
            special = {vocabulary.cls_id, vocabulary.sep_id}
            assert not special & {written["input_ids"][k] for k in positions}
            words = np.cumsum(~np.array(written["continues_word"]))
            chosen = np.isin(np.arange(length), positions)
            assert set(words[chosen]).isdisjoint(words[~chosen])
            units = np.arange(length) if configuration["mask_per"] == "piece" else words
            fates += fates_of(row, units, vocabulary, configuration["random_tokens"])
    for fate in ("mask", "random"):
        share = configuration[f"{fate}_token_share"]
        # Words of an n-gram are no draws of their own. A random draw may be the token itself, rarely.
        independent = len(fates) / configuration["max_ngram_size"]
        slack = 4 * (share * (1 - share) / independent) ** 0.5 + 0.005
        assert abs(fates.count(fate) / len(fates) - share) < slack


def fates_of(row, units, vocabulary, random_tokens) -> list[str]:
    """What became of each unit that was chosen, which is one thing for all of its pieces."""
    allowed = np.arange(vocabulary.vocab_size)
    if random_tokens == "regular":
        allowed = vocabulary.regular_ids
    fate_of: dict[int, set[str]] = {}
    for k in row["positions"]:
        now, before = row["ids"][k], row["original"][k]
        fate = "mask" if now == vocabulary.mask_id else "kept" if now == before else "random"
        assert fate != "random" or now in allowed
        fate_of.setdefault(units[k], set()).add(fate)
    for unit in fate_of.values():
        if unit == {"random", "kept"}:  # one of its draws was the token itself
            unit.remove("kept")
        assert len(unit) == 1
    return [fate for unit in fate_of.values() for fate in unit]


def test_masks_are_a_function_of_seed_epoch_and_row(small):
    data_set = small("sop", "none")

    def masks(**settings):
        return [(row["ids"], row["positions"]) for row in by_number(data_set, **settings)]

    expected = masks(epoch=2)
    for batch_size in (1, 7, 200):
        for window_rows in (1, 10_000):
            assert masks(epoch=2, batch_size=batch_size, window_rows=window_rows) == expected
    for other in (masks(epoch=3), masks(epoch=2, seed=1)):
        same = sum(a == b for a, b in zip(expected, other, strict=True))
        assert same < 0.1 * len(expected)
    positions = {(len(ids), *where) for ids, where in expected}
    assert len(positions) > 0.9 * len(expected)  # another stream for every row


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_in_the_middle_of_an_epoch(small, kind):
    dataset = PretrainingDataset(small(*kind).directory, batch_size=10, window_rows=20)
    whole = rows_of(dataset.batches(epoch=4))
    for start in (0, 1, 5, 11):
        assert rows_of(dataset.batches(epoch=4, start=start)) == whole[10 * start :]


@pytest.mark.parametrize("objective", ["nsp", "sop", "mlm"])
def test_labels_must_mean_what_the_objective_says(small, tmp_path, objective):
    data_set = small(objective)

    def write(**fields):
        for path in data_set.directory.glob("*.json"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
        manifest = dataclasses.replace(data_set.manifest, **fields)
        (tmp_path / MANIFEST_FILE).write_text(manifest.to_json())

    other = {"nsp": "sop", "sop": "nsp", "mlm": "nsp"}[objective]
    write(label_convention=LABEL_CONVENTIONS[other])
    with pytest.raises(ConfigError, match="labels mean"):
        PretrainingDataset(tmp_path, batch_size=1)
    for field in ("objective", "masking", "layout"):
        write(**{field: "rtd"})
        with pytest.raises(ConfigError, match=f"its {field} is 'rtd', this program reads"):
            PretrainingDataset(tmp_path, batch_size=1)


@given(
    st.lists(st.from_regex(r"(##)?[a-z]{1,3}|\[unused\d\]|\[X\]", fullmatch=True), max_size=30),
    st.randoms(),
)
def test_random_ids_are_those_of_the_build(tmp_path_factory, tokens, random):
    tokens = [*tokens, "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "word", "word", "##s"]
    random.shuffle(tokens)
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(tokens) + "\n")
    vocabulary = load_tokenizer(str(path), do_lower_case=None)
    manifest = dataclasses.make_dataclass("M", ["tokenizer"])(vocabulary)
    found = regular_ids(vocabulary.tokenizer_json.encode(), manifest)
    assert found.tolist() == vocabulary.regular_ids.tolist()


def test_special_tokens_of_its_own_are_no_random_ids(small):
    data_set = small()
    tokenizer = data_set.vocabulary.tokenizer()
    before = len(data_set.vocabulary.regular_ids)
    tokenizer.add_special_tokens(["[URL]"])
    tokenizer.add_tokens(["zzplain"])
    found = regular_ids(tokenizer.to_str().encode(), data_set.manifest)
    assert len(found) == before + 1
    assert found[-1] == tokenizer.token_to_id("zzplain")


@pytest.mark.parametrize("kind", KINDS)
def test_the_trainer_takes_every_kind(small, tmp_path, capsys, kind):
    data_set = small(*kind)
    directory = tmp_path / "data"
    validated = write_data_set(
        directory,
        split="validation",
        **dict(zip(("objective", "masking", "layout"), kind, strict=True)),
    )
    for shard in data_set.manifest.data_sets[0].shards:
        (directory / shard.path).write_bytes((data_set.directory / shard.path).read_bytes())
    manifest = dataclasses.replace(
        data_set.manifest,
        data_sets=(*data_set.manifest.data_sets, *validated.manifest.data_sets),
        counts=dataclasses.replace(data_set.manifest.counts, examples=2 * sum(ROWS)),
    )
    (directory / MANIFEST_FILE).write_text(manifest.to_json())
    config = TrainConfig(
        data=str(directory),
        output=str(tmp_path / "out"),
        model="1,64",
        steps=8,
        batch_size=16,
        log_every=1,
    )
    report = train(config)
    assert len(report.losses) == 8
    printed = capsys.readouterr().out
    assert ("next sentence" in printed) == (kind[0] == "nsp")
    assert ("sentence order" in printed) == (kind[0] == "sop")
    guess = np.log(manifest.tokenizer.vocab_size) + (0 if kind[0] == "mlm" else np.log(2))
    assert f"A blind guess has loss {guess:.4f}" in printed
    assert report.losses[0] == pytest.approx(guess, abs=0.3)
    assert report.evaluation is not None
    assert (report.evaluation.next_sentence_loss is None) == (kind[0] == "mlm")
    assert (report.evaluation.next_sentence_accuracy is None) == (kind[0] == "mlm")


def test_masks_come_without_beam_and_reading_without_the_steps():
    code = (
        "import sys; import transforms.masking\n"
        "assert not {'apache_beam', 'torch'} & set(sys.modules)\n"
        "import train.collator\n"
        "used = {n for n in sys.modules if n.split('.')[0] in ('transforms', 'pipeline', 'runners')}\n"
        "assert 'apache_beam' not in sys.modules\n"
        "print(*sorted(used))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {"transforms", "transforms.masking", "transforms.randomness"}
