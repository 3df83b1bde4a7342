"""``bert-data check`` where chance has little room: what has to agree is no fault, what copies is one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.check import audit
from schemas.manifest import load_manifest
from tests.builds import DATA, build_here
from tests.faults import Planter

CORPUS = DATA / "documents.jsonl"
PROVENANCE = ("documents", "first_sentences", "end_sentences")

SHARED: dict[str, Any] = {
    "objective": "mlm",
    "mlm_packing": "document",
    "dupe_mode": "remask",
    "layout": "shared",
}
ALL_MASKED = {"mask_token_share": 1.0, "random_token_share": 0.0, "kept_token_share": 0.0}


def look(directory, *, corpus=None):
    inputs = [str(corpus)] if corpus else []
    return audit(str(directory), load_manifest(directory), corpus=inputs, num_workers=1)


LONG = "zqxjkvbwzqxjkvbwzqxj qzxkjvwbqzxkjvwbqzxk the xjqzkvbwxjqzkvbwxjqz"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("the the the", {"masked_lm_prob": 0.99, "dupe_factor": 30}),
        (LONG, {"do_whole_word_mask": True, "max_predictions_per_seq": (5,), "dupe_factor": 15}),
        ("He went to the old house. It was late.", {"masked_lm_prob": 0.99, "dupe_factor": 30}),
        (
            "He went to the old house on the hill. It was late.",
            {
                "max_seq_length": (16,),
                "max_ngram_size": 16,
                "masked_lm_prob": 0.9,
                "dupe_factor": 30,
            },
        ),
    ],
    ids=["three words", "long words", "all are masked", "n-grams"],
)
def test_masks_that_have_to_agree_are_no_copies(tmp_path, text, settings):
    path = tmp_path / "same.jsonl"
    path.write_text((json.dumps({"text": text}) + "\n") * 60)
    build_here(path, output=tmp_path / "out", **(SHARED | ALL_MASKED | settings))
    assert not look(tmp_path / "out").broken


def test_the_unknown_token_is_never_drawn(tmp_path):
    """One word and [UNK]: a random draw is [UNK] never, and the word itself always."""
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
    build_here(DATA / "sentences.txt", output=tmp_path / "out", vocab_file=str(vocab))
    found = look(tmp_path / "out")
    assert not found.broken, found.violations


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_whole_word_mask": True},
        {"max_ngram_size": 3, "do_whole_word_mask": True, "mask_per": "ngram"},
        {"objective": "mlm"},
    ],
    ids=["pieces", "words", "n-grams", "mlm"],
)
def test_one_mask_for_all_passes_is_found(tmp_path, settings):
    output = tmp_path / "out"
    build_here(CORPUS, output=output, **({"layout": "shared", "dupe_mode": "remask"} | settings))
    assert not look(output).broken
    planter = Planter(output)
    rows = planter.rows()
    for row in rows:
        for name in ("masked_lm_positions", "replacement_ids"):
            row[name] = [row[name][0]] * len(row[name])
    planter.write(rows)
    assert "same_masks" in look(output).broken


def test_one_mask_copied_in_one_row_is_found(tmp_path):
    output = tmp_path / "out"
    build_here(CORPUS, output=output, layout="shared", dupe_mode="remask")
    planter = Planter(output)
    rows = planter.rows()
    row = max(rows, key=lambda row: row["num_tokens"])
    for name in ("masked_lm_positions", "replacement_ids"):
        row[name][3] = row[name][1]
    planter.write(rows)
    assert "same_masks" in look(output).broken


OTHER_KINDS: dict[str, dict[str, Any]] = {
    "nsp": {},
    "sop": {"objective": "sop"},
    "mlm": {"objective": "mlm"},
    "words": {"do_whole_word_mask": True, "max_seq_length": (32,)},
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
@pytest.mark.parametrize(("mode", "said"), [("remask", "resegment"), ("resegment", "remask")])
def test_the_other_dupe_mode_is_found(tmp_path, kind, mode, said):
    output = tmp_path / "out"
    settings = {"provenance": True, "dupe_mode": mode, "dupe_factor": 3} | OTHER_KINDS[kind]
    build_here(CORPUS, output=output, **settings)
    assert not look(output).broken
    planter = Planter(output)
    planter.manifest["configuration"]["dupe_mode"] = said
    planter.save()
    assert "dupe_mode" in look(output).broken


def test_passes_that_cannot_differ_are_no_fault(tmp_path):
    """Documents of one row each: however often they are packed, a row is the document."""
    build_here(
        DATA / "sentences.txt",
        output=tmp_path / "out",
        provenance=True,
        objective="mlm",
        mlm_packing="document",
        max_seq_length=(512,),
    )
    assert not look(tmp_path / "out").broken


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda row: row.update(documents=[], first_sentences=[], end_sentences=[]), "*"),
        (lambda row: row["end_sentences"].__setitem__(0, 0), "sentence_span"),
        (lambda row: row["first_sentences"].__setitem__(-1, 1), "documents"),
        (lambda row: [row[name].pop() for name in PROVENANCE], "documents"),
        (lambda row: row["end_sentences"].pop(), "sentence_span"),
    ],
    ids=["no documents", "no sentences", "starts late", "one too few", "unlike lists"],
)
def test_the_documents_of_a_packed_row_without_its_corpus(tmp_path, change, rule):
    output = tmp_path / "out"
    build_here(
        CORPUS, output=output, provenance=True, objective="mlm", sep_between_documents=True,
        max_seq_length=(512,), dupe_factor=1,
    )  # fmt: skip
    planter = Planter(output)
    planter.change(change, where=lambda row: len(row["documents"]) > 1)
    found = set(look(output).broken)
    assert {"sentence_span" if rule == "*" else rule} <= found


@pytest.mark.parametrize("objective", ["nsp", "sop", "mlm"])
def test_one_text_in_two_languages_that_split_otherwise(tmp_path, objective):
    """Both records share a key; sentences of the same numbers are not the same text."""
    parts = [
        f"Dr. No came z.B. at {i} a.m. and said e.g. the word ca. {i} times. It was late. " * 3
        for i in range(14)
    ]
    path = tmp_path / "languages.jsonl"
    path.write_text(
        "".join(
            json.dumps({"text": part * 2, "lang": lang}) + "\n"
            for part in parts
            for lang in ("en", "de", "en", "fr")
        )
    )
    output = tmp_path / "out"
    build_here(
        path,
        output=output,
        provenance=True,
        objective=objective,
        max_seq_length=(8, 32),
        num_shards=2,
    )
    found = look(output, corpus=path)
    assert not found.broken, found.violations[:3]
