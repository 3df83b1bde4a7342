"""The configuration: what is refused and how, JSON, the fingerprint, warnings."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from pipeline.combinations import default_predictions
from pipeline.config import BuildConfig
from pipeline.settings import Setting
from schemas.errors import ConfigError

NEEDED: dict[str, Any] = {"input": ("a.txt",), "vocab_file": "vocab.txt", "output": "out"}
FIELDS = {field.name: field for field in dataclasses.fields(BuildConfig)}

NOT_WHOLE = [True, 1.0, "1", None, math.nan, (1,), -1]
NOT_A_NUMBER = [True, "0.1", None, math.nan, math.inf, -0.1, (0.1,)]
NOT_TEXT = ["", 1, True, ("a",)]
NOT_A_SWITCH = [1, 0, "true", "", ()]

#: Every bad value of every field; the refused part where it is not the whole.
BAD: dict[str, list[Any]] = {
    "input": [(), "a.txt", None, 3],
    "vocab_file": [*NOT_TEXT, None],
    "output": [*NOT_TEXT, None],
    "format": [*NOT_TEXT, None, "csv", "text ", "TEXT"],
    "text_field": [*NOT_TEXT, None],
    "id_field": [*NOT_TEXT, None],
    "language_field": [*NOT_TEXT, None],
    "split": NOT_TEXT,
    "document_separator": [*NOT_TEXT, " ", "--- ", "a\nb", "\n\n"],
    "max_document_bytes": [*NOT_WHOLE, 0, 2**31],
    "min_document_chars": [*NOT_WHOLE, 2**31],
    "encoding": [*NOT_TEXT, None],
    "deduplicate": [*NOT_A_SWITCH, None],
    "strict": [*NOT_A_SWITCH, None],
    "shuffle": [*NOT_TEXT, None, "disk"],
    "shared_files": [*NOT_A_SWITCH, None],
    "wait": [*NOT_A_SWITCH, None],
    "language": [*NOT_TEXT, None, "english", "e", "en ", "en-", "12"],
    "sentence_splitter": [*NOT_TEXT, None, "punkt"],
    "do_lower_case": NOT_A_SWITCH,
    "max_seq_length": [(), 128, "128", None, (128, 128)],
    "short_seq_prob": [*[bad for bad in NOT_A_NUMBER if bad is not None], 1.1, 2],
    "dupe_factor": [*NOT_WHOLE, 0],
    "random_seed": [*NOT_WHOLE, 2**63],
    "exact_reference": [*NOT_A_SWITCH, None],
    "reference_groups": [*NOT_TEXT, None, "both"],
    "dupe_mode": [*NOT_TEXT, None, "both"],
    "objective": [*NOT_TEXT, None, "electra"],
    "not_next_share": [*NOT_A_NUMBER, 1.1],
    "single_segment": [*NOT_TEXT, None, "random"],
    "split_long_sentences": NOT_A_SWITCH,
    "mlm_packing": [*NOT_TEXT, None, "half"],
    "sep_between_documents": [*NOT_A_SWITCH, None],
    "drop_last": [*NOT_A_SWITCH, None],
    "max_ngram_size": [*NOT_WHOLE, 0, 17],
    "mask_per": [*NOT_TEXT, None, "row"],
    "mask_token_share": [*NOT_A_NUMBER, 1.1],
    "random_token_share": [*NOT_A_NUMBER, 1.1],
    "kept_token_share": [*NOT_A_NUMBER, 1.1],
    "layout": [*NOT_TEXT, None, "both"],
    "validation_fraction": [*NOT_A_NUMBER, 1.0, 1],
    "provenance": [*NOT_A_SWITCH, None],
    "masking": [*NOT_TEXT, None, "dynamic"],
    "masked_lm_prob": [*NOT_A_NUMBER, 0, 0.0, 1, 1.0, 10**400],
    "max_predictions_per_seq": [20, "20", None],
    "do_whole_word_mask": [*NOT_A_SWITCH, None],
    "random_tokens": [*NOT_TEXT, None, "none"],
    "word_segmenter": [*NOT_TEXT, None, "pkuseg"],
    "num_shards": [True, 1.0, "1", math.nan, -1, 0, 100_000],
    "overwrite": [*NOT_A_SWITCH, None],
    "resume": [*NOT_A_SWITCH, None],
    "num_workers": [True, 1.0, "1", math.nan, -1, 0],
    "max_reject_fraction": [*NOT_A_NUMBER, 1.1],
    "temp_dir": NOT_TEXT,
    "runner": [*NOT_TEXT, None, "my runner"],
}

#: Bad items of the fields that are lists.
BAD_ITEMS: dict[str, list[Any]] = {
    "input": ["", 1, None],
    "max_seq_length": [7, 32769, True, "128", 128.0, math.nan],
    "max_predictions_per_seq": [0, -1, True, "20", 20.0, 129, 32769],
}

#: Two good values of every field, neither the default where there is one.
GOOD: dict[str, tuple[Any, Any]] = {
    "input": (("b.txt",), ("b.txt", "c*.txt")),
    "vocab_file": ("other.txt", "tokenizer.json"),
    "output": ("elsewhere", "gs://bucket/out"),
    "format": ("prose", "jsonl"),
    "text_field": ("body", "content"),
    "id_field": ("key", "url"),
    "language_field": ("language", "l"),
    "split": ("train", "test"),
    "document_separator": ("---", "* * *"),
    "max_document_bytes": (1, 1 << 20),
    "min_document_chars": (1, 100),
    "encoding": ("latin-1", "auto"),
    "deduplicate": (True, True),
    "strict": (True, True),
    "shuffle": ("files", "runner"),
    "shared_files": (True, True),
    "wait": (False, False),
    "language": ("auto", "pt-BR"),
    "sentence_splitter": ("best", "none"),
    "do_lower_case": (True, False),
    "max_seq_length": ((512,), (64,)),
    "short_seq_prob": (0.0, 1.0),
    "dupe_factor": (1, 10),
    "random_seed": (0, 2**63 - 1),
    "validation_fraction": (0.01, 0.5),
    "masked_lm_prob": (0.2, 1e-6),
    "max_predictions_per_seq": ((19,), (1,)),
    "random_tokens": ("all", "all"),
    "exact_reference": (True, True),
    "reference_groups": ("file", "file"),
    "word_segmenter": ("jieba", "jieba"),
    "dupe_mode": ("remask", "remask"),
    "objective": ("sop", "mlm"),
    "masking": ("none", "none"),
    "not_next_share": (0.25, 0.0),
    "single_segment": ("drop", "drop"),
    "split_long_sentences": (False, False),
    "mlm_packing": ("document", "document"),
    "sep_between_documents": (True, True),
    "drop_last": (True, True),
    "max_ngram_size": (3, 16),
    "mask_per": ("word", "ngram"),
    "layout": ("shared", "shared"),
    "mask_token_share": (0.6, 0.5),
    "random_token_share": (0.3, 0.2),
    "kept_token_share": (0.3, 0.2),
    "num_shards": (1, 99_999),
    "num_workers": (1, 64),
    "max_reject_fraction": (0.0, 1.0),
    "temp_dir": ("t", "u"),
    "runner": ("FlinkRunner", "DirectRunner"),
    "provenance": (True, True),
    "do_whole_word_mask": (True, True),
    "overwrite": (True, True),
    "resume": (True, True),
}
#: Fields that need others to go with them.
TOGETHER: dict[str, dict[str, Any]] = {
    "document_separator": {"format": "prose"},
    "layout": {"dupe_mode": "remask"},
    "reference_groups": {"exact_reference": True},
}
_SHARES = ("mask_token_share", "random_token_share", "kept_token_share")


def make(**changes: Any) -> BuildConfig:
    for name in set(changes) & set(TOGETHER):
        changes = TOGETHER[name] | changes
    if len(given := [n for n in _SHARES if n in changes]) == 1 and _is_share(changes[given[0]]):
        others = [n for n in _SHARES if n not in given]
        changes |= dict.fromkeys(others, (1 - changes[given[0]]) / 2)
    return BuildConfig(**(NEEDED | changes))


def _is_share(value: Any) -> bool:
    return type(value) is float and 0 <= value <= 1


def fingerprint(config: BuildConfig) -> str:
    return config.fingerprint(tokenizer_digest="d", num_shards=config.num_shards or 7)


def test_the_tables_of_this_test_are_complete():
    assert set(BAD) == set(FIELDS)
    assert set(GOOD) == set(FIELDS)


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in BAD.items() for v in vs])
def test_a_bad_value_is_refused_in_one_line(name, value):
    with pytest.raises(ConfigError) as caught:
        make(**{name: value})
    assert caught.value.field == name
    assert caught.value.value is value or caught.value.value == value or value != value
    text = str(caught.value)
    assert text.startswith(f"--{name}={value!r}: ")
    assert "\n" not in text
    assert FIELDS[name].metadata["setting"].kind.allowed in text


@pytest.mark.parametrize(("name", "item"), [(n, v) for n, vs in BAD_ITEMS.items() for v in vs])
def test_a_bad_item_is_named(name, item):
    with pytest.raises(ConfigError) as caught:
        make(**{name: (item,)})
    assert caught.value.field == name
    assert str(caught.value).startswith(f"--{name}={item!r}: must be ")


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in GOOD.items() for v in vs])
def test_good_values_are_kept_and_go_through_json(name, value):
    config = make(**{name: value})
    assert getattr(config, name) == value
    again = BuildConfig.from_json(config.to_json())
    assert again == config
    assert again.to_json() == config.to_json()
    assert again.fingerprint(tokenizer_digest="d", num_shards=1) == config.fingerprint(
        tokenizer_digest="d", num_shards=1
    )


@pytest.mark.parametrize("name", GOOD)
def test_the_fingerprint_changes_if_and_only_if_the_rows_do(name):
    before = make(format="prose") if name == "document_separator" else make()
    for value in GOOD[name]:
        changed = fingerprint(make(**{name: value})) != fingerprint(before)
        assert changed == (FIELDS[name].metadata["setting"].affects == "rows"), value


def test_what_affects_the_rows():
    rows = {n for n, f in FIELDS.items() if f.metadata["setting"].affects == "rows"}
    assert rows == set(make().row_settings()) | {"num_shards"}
    assert {"random_seed", "dupe_factor", "sentence_splitter", "language", "provenance"} <= rows
    assert not rows & {"input", "output", "vocab_file", "format", "num_workers", "runner", "resume"}


def test_the_fingerprint_covers_tokenizer_and_shards():
    config = make()
    prints = {
        config.fingerprint(tokenizer_digest=d, num_shards=n) for d in ("x", "y") for n in (1, 2)
    }
    assert len(prints) == 4
    assert all(len(p) == 64 and set(p) <= set("0123456789abcdef") for p in prints)


def test_the_fingerprint_is_the_same_in_every_release():
    """It is in manifests: whoever changes it on purpose changes it here."""
    assert make().fingerprint(tokenizer_digest="d", num_shards=7) == EXPECTED_FINGERPRINT
    before = make(split_long_sentences=False)  # as all were before there was a choice
    assert before.fingerprint(tokenizer_digest="d", num_shards=7) == FIRST_FINGERPRINT


EXPECTED_FINGERPRINT = "6fdc00596fd050e06aa3bb7364fa31b8ff2ec6ecd2089767689d49c72b2ddbb7"
FIRST_FINGERPRINT = "e5ab63781bdd6848be9d17524b44be29162112e9c73df7c2d9a963440e9a1fc8"


def test_equal_numbers_have_equal_fingerprints():
    assert make(short_seq_prob=0) == make(short_seq_prob=0.0) == make(short_seq_prob=-0.0)
    prints = {fingerprint(make(short_seq_prob=value)) for value in (0, 0.0, -0.0)}
    assert len(prints) == 1


def test_the_order_of_the_lengths_is_no_other_data_set():
    one = make(max_seq_length=(128, 512), max_predictions_per_seq=(20, 76))
    other = make(max_seq_length=(512, 128), max_predictions_per_seq=(76, 20))
    crossed = make(max_seq_length=(128, 512), max_predictions_per_seq=(76, 20))
    assert fingerprint(one) == fingerprint(other) != fingerprint(crossed)


@pytest.mark.parametrize(
    ("lengths", "prob", "predictions"),
    [
        ((128,), 0.15, (20,)),
        ((512,), 0.15, (76,)),
        ((128, 512), 0.15, (20, 76)),
        ((256,), 0.15, (38,)),
        ((8,), 0.01, (1,)),
        ((128,), 0.4, (51,)),
    ],
)
def test_predictions_are_worked_out(lengths, prob, predictions):
    config = make(max_seq_length=lengths, masked_lm_prob=prob)
    assert config.max_predictions_per_seq == predictions
    assert config.warnings() == ()


@pytest.mark.parametrize("length", [8, 13, 64, 127, 128, 129, 512, 4096, 32768])
@pytest.mark.parametrize("prob", [1e-9, 0.1, 0.15, 0.5, 0.999])
def test_the_usual_number_of_predictions_never_warns(length, prob):
    usual = default_predictions(length, masked_lm_prob=prob)
    assert 1 <= usual <= length
    config = make(max_seq_length=(length,), masked_lm_prob=prob, max_predictions_per_seq=(usual,))
    assert config.warnings() == ()


def test_one_number_for_two_lengths_says_what_to_write():
    with pytest.raises(ConfigError, match="write --max_predictions_per_seq 20,76 or leave it out"):
        make(max_seq_length=(128, 512), max_predictions_per_seq=(20,))
    with pytest.raises(ConfigError, match="write --max_predictions_per_seq 20 "):
        make(max_predictions_per_seq=(20, 76))


@pytest.mark.parametrize(("cap", "warns"), [(12, 1), (13, 0), (20, 0), (28, 0), (29, 1), (76, 1)])
def test_unusual_numbers_of_predictions_warn_with_the_numbers(cap, warns):
    config = make(max_predictions_per_seq=(cap,))
    assert len(config.warnings()) == warns
    for text in config.warnings():
        assert f"--max_predictions_per_seq={cap}" in text
        assert "19.2 tokens" in text
        assert "the usual number is 20" in text
        assert "\n" not in text


def test_settings_that_exclude_each_other():
    with pytest.raises(ConfigError, match=r"--resume=True.*--overwrite"):
        make(resume=True, overwrite=True)
    for format in ("auto", "text", "jsonl"):
        with pytest.raises(ConfigError, match=r"--document_separator='x'.*--format prose"):
            make(document_separator="x", format=format)


def test_json_with_an_unknown_or_missing_setting_is_refused():
    with pytest.raises(ConfigError, match=r"--dupe_facter=3: no such setting; .* dupe_factor"):
        BuildConfig.from_json(json.dumps(NEEDED | {"dupe_facter": 3}))
    with pytest.raises(ConfigError, match="--vocab_file=None: must be given"):
        BuildConfig.from_json('{"input": ["a"], "output": "o"}')
    for text in ("", "[]", "{", "NaN"):
        with pytest.raises(ConfigError, match="--config="):
            BuildConfig.from_json(text)
    with pytest.raises(ConfigError, match="--masked_lm_prob=nan"):
        BuildConfig.from_json(json.dumps(NEEDED | {"masked_lm_prob": math.nan}))


def test_json_is_stable_and_complete():
    text = make().to_json()
    assert text.endswith("}\n")
    assert set(json.loads(text)) == set(FIELDS)
    assert list(json.loads(text)) == sorted(FIELDS)


def test_it_is_frozen_and_hashable():
    config = make(input=["a.txt"])
    assert config == make()
    assert hash(config) == hash(make())
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.dupe_factor = 3  # type: ignore[misc]


def test_every_field_says_what_it_is_for():
    for field in FIELDS.values():
        setting: Setting = field.metadata["setting"]
        assert setting.help
        assert setting.kind.allowed
        # None and () mean something that only words can say.
        assert setting.default or field.default not in (None, ())


def test_shares_have_to_add_up():
    make(mask_token_share=0.5, random_token_share=0.3, kept_token_share=0.2)
    with pytest.raises(ConfigError, match=r"--mask_token_share=0\.5: .* the sum is 0\.7"):
        BuildConfig(**NEEDED, mask_token_share=0.5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layout": "shared"}, "--layout='shared': .*give --dupe_mode remask"),
        (
            {"layout": "shared", "dupe_mode": "remask", "masking": "none"},
            "--layout='shared': stores masks",
        ),
        ({"masking": "none", "dupe_mode": "remask"}, "--dupe_mode='remask': .*--dupe_factor 1"),
        (
            {"layout": "shared", "dupe_mode": "remask", "dupe_factor": 101},
            "--dupe_factor=101: .*100 passes",
        ),
    ],
)
def test_settings_that_contradict_each_other(changes, words):
    with pytest.raises(ConfigError, match=words):
        BuildConfig(**(NEEDED | changes))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"single_segment": "drop"}, "single_segment"),
        ({"mlm_packing": "document", "objective": "sop"}, "mlm_packing"),
        ({"drop_last": True}, "drop_last"),
        ({"sep_between_documents": True}, "sep_between_documents"),
        (
            {"sep_between_documents": True, "objective": "mlm", "mlm_packing": "document"},
            "sep_between_documents",
        ),
        ({"not_next_share": 0.3, "objective": "mlm"}, "not_next_share"),
        ({"mask_per": "word"}, "mask_per"),
        ({"mask_per": "ngram", "do_whole_word_mask": True}, "mask_per"),
        ({"dupe_mode": "remask", "dupe_factor": 1}, "dupe_mode"),
    ],
)
def test_a_setting_without_effect_is_said_to_have_none(changes, name):
    (warning,) = make(**changes).warnings()
    assert warning.startswith(f"--{name}={changes[name]} has no effect: ")


def test_short_rows_are_for_pairs_unless_asked_for():
    assert make().short_seq_prob == make(objective="sop").short_seq_prob == 0.1
    assert make(objective="mlm").short_seq_prob == 0.0
    assert make(objective="mlm", short_seq_prob=0.2).short_seq_prob == 0.2
