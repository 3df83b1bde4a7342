"""Every kind of data set through a whole build: each setting has its effect, and `show` shows it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from schemas.arrow import example_schema
from schemas.manifest import LABEL_CONVENTIONS, load_manifest
from tests.builds import DATA, VOCAB, build_here, digests
from transforms.vocabulary import load_tokenizer

CORPUS = DATA / "sentences.txt"
TOKENS = load_tokenizer(str(VOCAB), do_lower_case=None)


def table_of(output):
    manifest = load_manifest(output)
    return pa.concat_tables(
        [pq.read_table(output / shard.path) for d in manifest.data_sets for shard in d.shards]
    )


def rates_of(output):
    return load_manifest(output).data_sets[0].rates


def mean(output):
    return rates_of(output).mean_num_tokens


def masked_words(output):
    """Lengths of the runs of neighbouring predictions, on average."""
    runs = [
        len(list(run))
        for positions in table_of(output).column("masked_lm_positions").to_pylist()
        for _, run in itertools.groupby(enumerate(positions), lambda pair: pair[1] - pair[0])
    ]
    return np.mean(runs)


def kept_alike(output):
    """Of the words of several pieces with a prediction, the share with one fate."""
    alike = total = 0
    for row in table_of(output).select(["input_ids", "masked_lm_positions"]).to_pylist():
        where = set(row["masked_lm_positions"])
        masked = {k for k in where if row["input_ids"][k] == TOKENS.mask_id}
        for k in where:
            if k + 1 in where:
                total += 1
                alike += (k in masked) == (k + 1 in masked)
    return alike / total


def separators(output):
    ids = table_of(output).column("input_ids").to_pylist()
    return np.mean([row.count(TOKENS.sep_id) for row in ids])


#: For each setting: what it goes with, what is changed, a figure of the data set, and whether the
#: figure has to be larger or smaller then.
EFFECTS: dict[str, tuple[dict[str, Any], dict[str, Any], Any, str]] = {
    "objective": ({}, {"objective": "sop"}, lambda o: rates_of(o).split_segment or 0, "larger"),
    "not_next_share": ({}, {"not_next_share": 0.8}, lambda o: rates_of(o).not_next, "larger"),
    "single_segment": (
        {"objective": "sop"},
        {"single_segment": "drop"},
        lambda o: load_manifest(o).data_sets[0].chunks_without_partner,
        "larger",
    ),
    "mlm_packing": ({"objective": "mlm"}, {"mlm_packing": "document"}, mean, "smaller"),
    "sep_between_documents": (
        {"objective": "mlm"},
        {"sep_between_documents": True},
        separators,
        "larger",
    ),
    "drop_last": ({"objective": "mlm"}, {"drop_last": True}, mean, "larger"),
    "short_seq_prob": ({"objective": "mlm"}, {"short_seq_prob": 0.5}, mean, "smaller"),
    "max_ngram_size": ({"do_whole_word_mask": True}, {"max_ngram_size": 4}, masked_words, "larger"),
    "mask_per": ({"do_whole_word_mask": True}, {"mask_per": "word"}, kept_alike, "larger"),
    "mask_per_ngram": (
        {"do_whole_word_mask": True, "max_ngram_size": 3, "mask_per": "word"},
        {"mask_per": "ngram"},
        kept_alike,
        "larger",
    ),
    "mask_token_share": (
        {},
        {"mask_token_share": 0.9, "kept_token_share": 0.0},
        lambda o: rates_of(o).mask_token,
        "larger",
    ),
    "random_token_share": (
        {},
        {"random_token_share": 0.4, "mask_token_share": 0.5},
        lambda o: rates_of(o).random_token,
        "larger",
    ),
    "kept_token_share": (
        {},
        {"kept_token_share": 0.4, "mask_token_share": 0.5},
        lambda o: rates_of(o).kept_token,
        "larger",
    ),
    "dupe_mode": ({}, {"dupe_mode": "remask"}, lambda o: rates_of(o).uncovered_tokens, "larger"),
    "layout": (
        {"dupe_mode": "remask"},
        {"layout": "shared"},
        lambda o: table_of(o).num_rows,
        "smaller",
    ),
    "masking": ({}, {"masking": "none"}, lambda o: rates_of(o).masked or 0, "smaller"),
    "random_tokens": (
        {"random_token_share": 1.0, "mask_token_share": 0.0, "kept_token_share": 0.0},
        {"random_tokens": "all"},
        lambda o: sum(row.count(TOKENS.pad_id) for row in table_of(o)["input_ids"].to_pylist()),
        "larger",
    ),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_every_setting_has_its_effect(tmp_path, name):
    beside, changes, figure, direction = EFFECTS[name]
    build_here(CORPUS, output=tmp_path / "usual", **beside)
    build_here(CORPUS, output=tmp_path / "changed", **(beside | changes))
    usual, changed = tmp_path / "usual", tmp_path / "changed"
    assert not set(digests(usual).values()) & set(digests(changed).values())
    figures = [figure(usual), figure(changed)]
    assert figures[0] != figures[1]
    assert (figures[1] > figures[0]) == (direction == "larger"), figures


KINDS = [
    {"objective": "sop"},
    {"objective": "mlm", "sep_between_documents": True},
    {"objective": "mlm", "masking": "none"},
    {"masking": "none", "do_whole_word_mask": True},
    {"dupe_mode": "remask", "layout": "shared"},
    {"objective": "mlm", "dupe_mode": "remask", "layout": "shared"},
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
@pytest.mark.parametrize("provenance", [False, True])
def test_every_kind_is_described_and_shown(tmp_path, capsys, kind, provenance):
    output = tmp_path / "out"
    manifest = build_here(CORPUS, output=output, provenance=provenance, num_shards=2, **kind)
    objective = kind.get("objective", "nsp")
    about = {
        "objective": objective,
        "masking": kind.get("masking", "static"),
        "layout": kind.get("layout", "separate"),
    }
    assert {name: getattr(manifest, name) for name in about} == about
    assert manifest.label_convention == LABEL_CONVENTIONS[objective]
    schema = example_schema(TOKENS.vocab_size, provenance=provenance, **about)
    assert table_of(output).schema.equals(schema)
    card = (output / "README.md").read_text()
    for name in schema.names:
        assert f"| `{name}` |" in card or provenance
    assert main(["show", str(output), "-n", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("[CLS]") == 2
    assert ("[MASK:" in shown) == (about["masking"] == "static")
    assert ("InOrder" in shown or "Swapped" in shown) == (objective == "sop")
    assert ("A: " in shown) == (objective != "mlm")
    assert ("from document" in shown) == provenance


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_a_plan_of_every_kind_says_what_a_build_makes(tmp_path, capsys, kind):
    manifest = build_here(CORPUS, output=tmp_path / "out", **kind)
    flags = [f"--{name}={value}" for name, value in kind.items()]
    assert main(["plan", str(CORPUS), "--vocab_file", str(VOCAB), *flags]) == 0
    assert f"{manifest.counts.examples:,} examples" in capsys.readouterr().out


@pytest.mark.parametrize("objective", ["sop", "mlm"])
def test_one_document_is_enough_without_next_sentence_prediction(tmp_path, objective):
    text = "\n".join(CORPUS.read_text().split("\n\n")[0].split("\n"))
    (tmp_path / "one.txt").write_text(text)
    manifest = build_here(tmp_path / "one.txt", output=tmp_path / "out", objective=objective)
    assert manifest.counts.documents == 1
    assert manifest.counts.examples > 0
    (tmp_path / "empty.txt").write_text("\n \n")
    where = [str(tmp_path / "empty.txt"), "--output", str(tmp_path / "none")]
    assert main(["build", *where, "--vocab_file", str(VOCAB), "--objective", objective]) == 2


def test_the_papers_example_of_a_whole_word_is_masked_whole(tmp_path):
    """ "phil ##am ##mon" (google-research/bert, README, "whole word masking")."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "phil", "##am", "##mon", "the", "man"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    lines = ["the man philammon the man"] * 40
    (tmp_path / "text.txt").write_text("\n".join([*lines, "", *lines[1:]]) + "\n")
    seen: dict[bool, set[int]] = {False: set(), True: set()}
    for whole in seen:
        output = tmp_path / str(whole)
        build_here(
            tmp_path / "text.txt",
            output=output,
            vocab_file=str(tmp_path / "vocab.txt"),
            do_whole_word_mask=whole,
        )
        for row in table_of(output).to_pylist():
            where, ids = set(row["masked_lm_positions"]), list(row["input_ids"])
            for position, token in zip(
                row["masked_lm_positions"], row["masked_lm_ids"], strict=True
            ):
                ids[position] = token
            for k in range(len(ids) - 2):
                if ids[k : k + 3] == [5, 6, 7]:
                    seen[whole].add(len(where & {k, k + 1, k + 2}))
    assert seen[True] == {0, 3}
    assert seen[False] >= {0, 1, 2}
