"""Data sets of the ``datasets`` library: what was saved is read, and what cannot be is one line."""

from __future__ import annotations

import builtins
import json

import datasets
import huggingface_hub
import pytest

from schemas.errors import ConfigError
from tests.unit.remote import MemoryFileSystem
from tests.unit.tables import read, texts

datasets.disable_progress_bars()

TEXTS = [f"Document {i}. It is short." for i in range(2500)]


def data_set(texts):
    return datasets.Dataset.from_dict({"text": texts, "n": list(range(len(texts)))})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A Dataset in three files."""
    path = tmp_path_factory.mktemp("saved") / "one"
    data_set(TEXTS).save_to_disk(path, num_shards=3)
    return path


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    """A DatasetDict."""
    path = tmp_path_factory.mktemp("saved") / "dict"
    parts = {"train": data_set(TEXTS[:2000]), "test": data_set(TEXTS[2000:])}
    datasets.DatasetDict(parts).save_to_disk(path)
    return path


@pytest.mark.parametrize("range_bytes", [None, 5000])
def test_every_row_once(saved, range_bytes):
    documents, rejects = read(saved, range_bytes=range_bytes)
    assert texts(documents) == TEXTS
    assert rejects == []


def test_a_split_is_chosen_and_otherwise_they_are_listed(saved, splits, tmp_path):
    assert texts(read(splits, split="train")[0]) == TEXTS[:2000]
    assert texts(read(splits, split="test")[0]) == TEXTS[2000:]
    assert texts(read(splits / "test")[0]) == TEXTS[2000:]
    with pytest.raises(ConfigError, match="has the splits train, test; choose one with --split"):
        read(splits)
    with pytest.raises(ConfigError, match=r"is no split of .*; there is train, test"):
        read(splits, split="validation")
    only = tmp_path / "only"
    datasets.DatasetDict({"train": data_set(TEXTS[:5])}).save_to_disk(only)
    assert texts(read(only)[0]) == TEXTS[:5]
    text = tmp_path / "a.txt"
    text.write_text("One.\n")
    with pytest.raises(ConfigError, match=r"--split='train': is for saved datasets"):
        read(text, split="train")


def test_rows_that_were_chosen_before_saving(tmp_path):
    chosen = data_set(TEXTS[:100]).shuffle(seed=1).select(range(10, 30))
    chosen.save_to_disk(tmp_path / "a")
    assert texts(read(tmp_path / "a")[0]) == chosen["text"][:]


@pytest.mark.parametrize("key", ["_indices_data_files", "_indices_files"])
def test_indices_beside_the_rows_are_refused(saved, tmp_path, key):
    folder = tmp_path / "a"
    data_set(TEXTS[:5]).save_to_disk(folder)
    state = json.loads((folder / "state.json").read_text())
    state[key] = [{"filename": "indices.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))
    with pytest.raises(ConfigError, match="choice and order of its rows beside them") as caught:
        read(folder)
    assert "\n" not in str(caught.value)


def test_only_the_files_that_belong_to_it_and_all_of_them(tmp_path):
    folder = tmp_path / "a"
    data_set(TEXTS[:10]).save_to_disk(folder, num_shards=2)
    (folder / "cache-0123.arrow").write_bytes(b"another's")
    (folder / "notes.txt").write_text("no document")
    assert texts(read(folder)[0]) == TEXTS[:10]
    assert texts(read(tmp_path)[0]) == TEXTS[:10]  # found on the way down as well
    (folder / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(ConfigError, match=r"not complete: data-00001-of-00002\.arrow is missing"):
        read(folder)


def test_names_that_lead_out_of_the_folder_are_not_followed(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "a"
    data_set(TEXTS[:10]).save_to_disk(outside)
    datasets.DatasetDict({"train": data_set(TEXTS[:5])}).save_to_disk(folder)
    inside = folder / "train" / "state.json"
    state = json.loads(inside.read_text())
    secret = str(outside / "data-00000-of-00001.arrow")
    for name in (secret, "../../outside/data-00000-of-00001.arrow"):
        inside.write_text(json.dumps(state | {"_data_files": [{"filename": name}]}))
        with pytest.raises(ConfigError, match=r"not complete: train/.+\.arrow is missing"):
            read(folder)
    for name in (str(outside), "../outside"):
        (folder / "dataset_dict.json").write_text(json.dumps({"splits": [name]}))
        with pytest.raises(ConfigError, match=r"not complete: .*outside/state\.json is missing"):
            read(folder)


def test_on_another_file_system(splits, monkeypatch):
    files = {
        f"memory://b/{path.relative_to(splits)}": path.read_bytes()
        for path in splits.rglob("*")
        if path.is_file()
    }
    monkeypatch.setattr(MemoryFileSystem, "files", files)
    assert texts(read("memory://b/", split="test")[0]) == TEXTS[2000:]
    with pytest.raises(ConfigError, match="has the splits train, test"):
        read("memory://b", split=None)


# By name


def test_a_name_is_resolved_to_the_files_in_the_cache(tmp_path, monkeypatch):
    """A local folder has a name too, and needs no network."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    source = tmp_path / "source"
    source.mkdir()
    for name, part in (("train", TEXTS[:30]), ("test", TEXTS[30:40])):
        lines = [json.dumps({"text": text}) for text in part]
        (source / f"{name}.jsonl").write_text("\n".join(lines))
    assert texts(read(f"hf:{source}", split="train")[0]) == TEXTS[:30]
    assert texts(read(f"hf:{source}::test")[0]) == TEXTS[30:40]
    assert texts(read(f"hf:{source}:default:test", split="test")[0]) == TEXTS[30:40]
    for name, split, words in (
        (f"hf:{source}", None, "has the splits train, test; choose one with --split"),
        (f"hf:{source}::dev", None, "is no split of"),
        (f"hf:{source}::test", "train", "names another one"),
        (f"hf:{source}:other", "train", "cannot be loaded: "),
        (f"hf:{source}:a:b:c", None, "must be hf:NAME"),
        ("hf:", None, "must be hf:NAME"),
    ):
        with pytest.raises(ConfigError, match=words) as caught:
            read(name, split=split)
        assert "\n" not in str(caught.value)


def test_without_network_it_is_one_line(monkeypatch):
    for config in (datasets.config, huggingface_hub.constants):
        monkeypatch.setattr(config, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=r"'hf:nobody/has-this': cannot be loaded: .+") as caught:
        read("hf:nobody/has-this")
    assert "\n" not in str(caught.value)


def test_without_the_package_it_is_one_line(monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **keywords):
        if name == "datasets":
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r'pip install "bert-data\[hub\]"'):
        read("hf:squad")
