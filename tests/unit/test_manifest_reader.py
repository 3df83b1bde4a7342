"""Reading a manifest: what comes back, what is refused and how, the JSON schema, no Beam."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pipeline.config import BuildConfig
from schemas import SCHEMA_VERSION
from schemas.errors import ConfigError, RejectReason
from schemas.manifest import (
    HISTOGRAM_BINS,
    MANIFEST_FILE,
    Counts,
    CreatedBy,
    DataSet,
    Manifest,
    ManifestError,
    Rates,
    Shard,
    TokenizerInfo,
    load_manifest,
    open_shards,
    parse_manifest,
    verify_tokenizer,
)

ROOT = Path(__file__).resolve().parents[2]
COUNTED_LATER = (
    "skipped_documents",
    "documents_with_control_characters",
    "documents_with_replacement_characters",
)
TOOLS_LATER = ("word_segmenter", "sentence_splitter", "language_detector", "text_readers")
ADDED_LATER = (
    *("objective", "masking", "layout", "split_segment", "long_sentences"),
    *TOOLS_LATER,
    *COUNTED_LATER,
)
SCHEMA = json.loads((ROOT / "schemas" / "manifest.schema.json").read_text())
NO_RATES = Rates(**dict.fromkeys(f.name for f in dataclasses.fields(Rates)))


def make_data_set(
    shards: tuple[Shard, ...], *, max_seq_length: int = 128, split: str = "train"
) -> DataSet:
    rows = sum(shard.rows for shard in shards)
    rates = dict.fromkeys((f.name for f in dataclasses.fields(Rates)), 0.125)
    return DataSet(
        name=f"seq{max_seq_length}",
        max_seq_length=max_seq_length,
        max_predictions_per_seq=20,
        split=split,
        examples=rows,
        chunks_without_partner=0,
        rates=Rates(**(rates | {"mean_num_tokens": 101.5})) if rows else NO_RATES,
        num_tokens_histogram=(0,) * (HISTOGRAM_BINS - 1) + (rows,),
        shards=shards,
    )


def make_manifest(
    data_sets: tuple[DataSet, ...], *, tokenizer: dict[str, Any] | None = None
) -> Manifest:
    config = BuildConfig(input=("a.txt",), vocab_file="vocab.txt", output="out", num_shards=2)
    about: dict[str, Any] = {
        "file": "tokenizer.json",
        "digest": "abc",
        "vocab_size": 3637,
        "do_lower_case": True,
        "pad_id": 0,
        "unk_id": 1,
        "cls_id": 2,
        "sep_id": 3,
        "mask_id": 4,
    }
    return Manifest(
        created_by=CreatedBy(
            name="bert-data",
            version="0.1.0",
            pyarrow="21.0.0",
            sentencex="1.0.32",
            tokenizers="0.23.3",
        ),
        configuration=json.loads(config.to_json()),
        fingerprint=config.fingerprint(tokenizer_digest="abc", num_shards=2),
        random_seed=config.random_seed,
        tokenizer=TokenizerInfo(**(about | (tokenizer or {}))),
        counts=Counts(
            documents=10,
            duplicate_documents=1,
            documents_without_tokens=0,
            one_sentence_documents=2,
            sentences=100,
            tokens=2000,
            unknown_tokens=3,
            examples=sum(d.examples for d in data_sets),
            rejects=3,
            rejects_by_reason={RejectReason.BROKEN_JSON: 1, RejectReason.TOO_LONG: 2},
        ),
        data_sets=data_sets,
    )


def make_shard(i: int, rows: int = 5, *, folder: str = "seq128/train") -> Shard:
    return Shard(path=f"{folder}-{i:05d}-of-00002.parquet", rows=rows, bytes=3, sha256="0" * 64)


@pytest.fixture
def example() -> Manifest:
    train = make_data_set((make_shard(0), make_shard(1, 6)))
    empty = make_data_set((), split="validation")
    return make_manifest((train, empty))


def write(directory: Path, data: Any) -> Path:
    text = data if isinstance(data, str) else json.dumps(data)
    (directory / MANIFEST_FILE).write_text(text)
    return directory


def test_what_is_written_is_read_back(example, tmp_path):
    write(tmp_path, example.to_json())
    assert load_manifest(tmp_path) == example
    assert load_manifest(str(tmp_path)) == example
    again = load_manifest(tmp_path)
    assert again.to_json() == example.to_json()
    assert again.data_sets[1].rates == NO_RATES
    assert BuildConfig.from_json(json.dumps(dict(again.configuration))).num_shards == 2


def test_the_text_is_stable(example):
    text = example.to_json()
    assert text.endswith("}\n")
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    rates = dataclasses.replace(example.data_sets[0].rates, padding=math.nan)
    data_set = dataclasses.replace(example.data_sets[0], rates=rates)
    with pytest.raises(ValueError, match="JSON compliant"):
        dataclasses.replace(example, data_sets=(data_set,)).to_json()


def test_the_label_convention_is_that_of_the_columns(example):
    assert json.loads(example.to_json())["label_convention"] == {"0": "IsNext", "1": "NotNext"}


def test_the_json_schema_fits_what_is_written(example):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(example.to_json()))


def schemas_in(schema: Any) -> list[dict[str, Any]]:
    children = schema.values() if isinstance(schema, dict) else schema
    found = [schema] if isinstance(schema, dict) and "properties" in schema else []
    for child in children if isinstance(schema, dict | list) else ():
        if isinstance(child, dict | list):
            found += schemas_in(child)
    return found


def test_the_json_schema_has_the_fields_of_the_dataclasses():
    classes = (Manifest, CreatedBy, TokenizerInfo, Counts, Rates, DataSet, Shard)
    ours = {frozenset(f.name for f in dataclasses.fields(c)) for c in classes}
    theirs = {frozenset(s["required"]) for s in schemas_in(SCHEMA)}
    assert theirs == ours
    for schema in schemas_in(SCHEMA):
        assert set(schema["properties"]) == set(schema["required"])
        assert schema["additionalProperties"] is False
    assert SCHEMA["properties"]["schema_version"] == {"const": SCHEMA_VERSION}
    reasons = SCHEMA["properties"]["counts"]["properties"]["rejects_by_reason"]
    assert set(reasons["propertyNames"]["enum"]) == set(RejectReason)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("data_sets", 0, "rates", "masked"), 1.5),
        (("data_sets", 0, "split"), "test"),
        (("data_sets", 0, "shards", 0, "path"), "/absolute.parquet"),
        (("data_sets", 0, "shards", 0, "path"), "a/../../b.parquet"),
        (("data_sets", 0, "shards", 0, "sha256"), "0"),
        (("counts", "rejects_by_reason", "because"), 1),
        (("label_convention", "0"), "NotNext"),
        (("host",), "machine"),
    ],
)
def test_the_json_schema_refuses(example, path, value):
    data = json.loads(example.to_json())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(data)


def test_a_directory_without_a_manifest_is_incomplete(tmp_path):
    (tmp_path / "seq128").mkdir()
    (tmp_path / "seq128" / "train-00000-of-00001.parquet").write_bytes(b"PAR1")
    for directory in (tmp_path, tmp_path / "nowhere", tmp_path / "seq128" / "a" / "b"):
        with pytest.raises(ManifestError) as caught:
            load_manifest(directory)
        assert isinstance(caught.value, ConfigError)
        text = str(caught.value)
        assert text.startswith(f"{directory}: incomplete or not a data set: it has no manifest.js")
        assert "\n" not in text
        assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_a_file_in_place_of_the_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ManifestError, match="incomplete or not a data set"):
        load_manifest(tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "damaged, it is not JSON"),
        ("{", "damaged, it is not JSON"),
        ("[]", "it has no schema_version"),
        ("{}", "it has no schema_version"),
        ('{"schema_version": "1"}', "it has no schema_version"),
        ('{"schema_version": true}', "it has no schema_version"),
        ('{"schema_version": 0}', "it has no schema_version"),
        ('{"schema_version": 1}', "created_by is missing"),
        (json.dumps({"schema_version": SCHEMA_VERSION + 1}), "install the version that wrote it"),
    ],
)
def test_damaged_and_newer_manifests_are_refused(tmp_path, text, reason):
    write(tmp_path, text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / MANIFEST_FILE}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / MANIFEST_FILE).write_bytes(b"\x1f\x8b\xff\xfe\x80")
    with pytest.raises(ManifestError, match="not JSON"):
        load_manifest(tmp_path)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every key, except inside the free-form parts."""
    if path and path[-1] in ("configuration", "rejects_by_reason", "label_convention"):
        return []
    found: list[tuple[Any, ...]] = []
    for key, child in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(data, dict):
            found.append((*path, key))
        if isinstance(child, dict | list):
            found += places(child, (*path, key))
    return found


def test_a_manifest_from_before_there_were_objectives_is_read(example):
    data = json.loads(example.to_json())
    for name in ("objective", "masking", "layout"):
        del data[name]
    for name in TOOLS_LATER:
        del data["created_by"][name]
    for name in COUNTED_LATER:
        del data["counts"][name]
    for data_set in data["data_sets"]:
        del data_set["rates"]["split_segment"]
        del data_set["long_sentences"]
    read = parse_manifest(json.dumps(data))
    assert (read.objective, read.masking, read.layout) == ("nsp", "static", "separate")
    assert [d.rates.split_segment for d in read.data_sets] == [None, None]
    assert [d.long_sentences for d in read.data_sets] == [None, None]
    assert read.counts == example.counts


def test_every_missing_key_and_every_wrong_type_is_found(example):
    whole = json.loads(example.to_json())
    assert len(places(whole)) > 60
    for path in places(whole):
        wrongs: tuple[Any, ...] = ("nothing", {"a": 1}, [{}])
        for wrong in wrongs:
            data = json.loads(example.to_json())
            place = data
            for key in path[:-1]:
                place = place[key]
            if wrong == "nothing" and path[-1] in ADDED_LATER:
                continue  # it has a default; see the test above
            if wrong == "nothing":
                del place[path[-1]]
            elif isinstance(wrong, type(place[path[-1]])):
                continue  # an empty configuration is one
            else:
                place[path[-1]] = wrong
            with pytest.raises(ManifestError) as caught:
                parse_manifest(json.dumps(data))
            assert str(path[-1]) in str(caught.value), (path, wrong)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("counts", "examples"), 12, "counts.examples"),
        (("counts", "rejects"), 4, "counts.rejects"),
        (("data_sets", 0, "examples"), 12, "rows of the shards of seq128/train"),
        (("data_sets", 0, "shards", 0, "rows"), 4, "rows of the shards of seq128/train"),
        (("data_sets", 0, "num_tokens_histogram", 0), 1, "num_tokens_histogram of seq128/train"),
        (("data_sets", 0, "num_tokens_histogram"), [11], "num_tokens_histogram of seq128/train"),
        (("data_sets", 0, "shards", 0, "path"), "/etc/passwd", "outside the data set"),
        (("data_sets", 0, "shards", 0, "path"), "../x.parquet", "outside the data set"),
        (("data_sets", 0, "shards", 0, "rows"), True, "data_sets[0].shards[0].rows is true, not"),
    ],
)
def test_parts_that_do_not_add_up_are_refused(example, path, value, reason):
    data = json.loads(example.to_json())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ManifestError) as caught:
        parse_manifest(json.dumps(data))
    assert reason in str(caught.value)


def test_keys_that_are_not_known_are_left_out(example):
    data = json.loads(example.to_json())
    data["note"] = "of a later writer of the same version"
    assert parse_manifest(json.dumps(data)) == example


def test_another_tokenizer_is_refused(example):
    verify_tokenizer(example, "abc")
    with pytest.raises(ConfigError, match=r"--vocab_file='xyz': .*\(abc\).*tokenizer\.json"):
        verify_tokenizer(example, "xyz")


def test_shards_come_from_the_manifest_and_are_checked(example, tmp_path):
    with pytest.raises(ManifestError, match=r"train-00000-of-00002.parquet: .*it is missing"):
        open_shards(example, tmp_path, name="seq128", split="train")
    (tmp_path / "seq128").mkdir()
    for shard in example.data_sets[0].shards:
        (tmp_path / shard.path).write_bytes(b"abc")
    (tmp_path / "seq128" / "train-00009-of-00002.parquet").write_bytes(b"stray")
    paths = open_shards(example, tmp_path, name="seq128", split="train")
    assert paths == [str(tmp_path / shard.path) for shard in example.data_sets[0].shards]
    assert open_shards(example, tmp_path, name="seq128", split="validation") == []
    Path(paths[1]).write_bytes(b"ab")
    with pytest.raises(ManifestError, match=r"train-00001.*says 3 bytes, it has 2 bytes"):
        open_shards(example, tmp_path, name="seq128", split="train")


def test_a_data_set_that_is_not_there_is_named_with_those_that_are(example):
    for name, split in (("seq512", "train"), ("seq128", "test")):
        with pytest.raises(ConfigError, match="it has seq128/train, seq128/validation") as caught:
            open_shards(example, "gs://bucket/x", name=name, split=split)
        assert f"{name}/{split}" in str(caught.value)


def test_remote_paths_are_joined_and_not_looked_at(example):
    assert open_shards(example, "gs://bucket/x", name="seq128", split="train")[0] == (
        "gs://bucket/x/seq128/train-00000-of-00002.parquet"
    )


def test_other_file_systems_go_through_beam(example, tmp_path):
    local = pytest.importorskip("apache_beam.io.localfilesystem").LocalFileSystem

    class OnDisk(local):  # type: ignore[misc, valid-type]
        """A scheme of its own on the local disk; Beam finds it as a subclass."""

        @classmethod
        def scheme(cls):
            return "on-disk"

        def open(self, path, *args, **keywords):
            return super().open(path.removeprefix("on-disk:/"), *args, **keywords)

        def exists(self, path):
            return super().exists(path.removeprefix("on-disk:/"))

    directory = f"on-disk:/{tmp_path}"
    assert directory.startswith("on-disk://")
    with pytest.raises(ManifestError, match="incomplete or not a data set"):
        load_manifest(directory)
    write(tmp_path, example.to_json())
    assert load_manifest(directory) == example


def test_reading_local_data_needs_nothing_but_the_standard_library(example, tmp_path):
    write(tmp_path, example.to_json())
    code = (
        "import sys; from schemas.manifest import load_manifest; "
        f"load_manifest({str(tmp_path)!r}); "
        "print([m for m in ('apache_beam', 'pyarrow', 'numpy', 'jsonschema') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"
