"""``bert-data check`` of rates and repeated rows: unusual settings are no faults, and faults are found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.check import audit
from schemas.manifest import load_manifest
from tests.builds import DATA, build_here
from tests.faults import Planter

CORPUS = DATA / "documents.jsonl"


def look(directory, *, corpus=None):
    inputs = [str(corpus)] if corpus else []
    return audit(str(directory), load_manifest(directory), corpus=inputs, num_workers=1)


def test_words_that_are_too_long_are_not_masked(tmp_path):
    """Three words of some twenty pieces a document: only what a cut leaves of one fits into a row."""
    path = tmp_path / "long.jsonl"
    words = ["zqxjkvbwzqxjkvbwzqxj", "qzxkjvwbqzxkjvwbqzxk", "xjqzkvbwxjqzkvbwxjqz"]
    records = [{"text": f"{words[i % 3]}{'x' * (i % 7)} {words[1]} {words[2]}"} for i in range(90)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    build_here(
        path,
        output=tmp_path / "out",
        objective="mlm",
        mlm_packing="document",
        do_whole_word_mask=True,
        max_predictions_per_seq=(5,),
        provenance=True,
    )
    assert (load_manifest(tmp_path / "out").data_sets[0].rates.masked or 0) < 0.02
    for corpus in (None, path):
        found = look(tmp_path / "out", corpus=corpus)
        assert not found.broken
        assert any("tokens are masked that were asked for" in line for line in found.lines)


@pytest.mark.parametrize("exact", [False, True])
def test_only_random_tokens_of_the_whole_vocabulary_may_hit_the_mask(tmp_path, exact):
    """A random draw of all ids is [MASK] now and then, though no [MASK] was asked for."""
    shares = {"mask_token_share": 0.0, "random_token_share": 1.0, "kept_token_share": 0.0}
    random_tokens = "regular" if exact else "all"
    build_here(CORPUS, output=tmp_path / "out", random_tokens=random_tokens, **shares)
    planter = Planter(tmp_path / "out")
    if exact or not masks_in(planter):
        rows = planter.rows()
        row = next(row for row in rows if row["masked_lm_positions"])
        row["input_ids"][row["masked_lm_positions"][0]] = planter.mask
        planter.write(rows)
    assert masks_in(planter)
    found = set(look(tmp_path / "out").broken)
    assert found == ({"rate"} if exact else set())


def masks_in(planter: Planter) -> int:
    return sum(row["input_ids"].count(planter.mask) for row in planter.rows())


KINDS: dict[str, dict[str, Any]] = {
    "nsp": {"masking": "none"},
    "sop": {"masking": "none", "objective": "sop"},
    "mlm": {"masking": "none", "objective": "mlm"},
    "shared": {
        "layout": "shared",
        "dupe_mode": "remask",
        "dupe_factor": 1,
        "max_seq_length": (16,),
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_the_same_sentences_and_pass_is_there_once(tmp_path, kind):
    output = tmp_path / "out"
    build_here(CORPUS, output=output, provenance=True, **KINDS[kind])
    assert not look(output).broken
    planter = Planter(output)
    rows = planter.rows()
    fitting = [i for i, row in enumerate(rows) if len(row.get("documents", "ab")) > 1]
    rows[fitting[3]] = rows[fitting[7]]
    planter.write(rows)
    found = look(output)
    assert found.broken["row_twice"] == 1
    (violation,) = (v for v in found.violations if v.rule == "row_twice")
    assert {violation.row, int(violation.words.split(" row ")[-1].split()[0])} == {
        fitting[3],
        fitting[7],
    }


def test_rows_that_are_equal_are_counted_where_nothing_tells_why(tmp_path):
    output = tmp_path / "out"
    build_here(CORPUS, output=output, masking="none")
    planter = Planter(output)
    rows = planter.rows()
    rows[3] = rows[7]
    planter.write(rows)
    found = look(output)
    assert "row_twice" not in found.broken
    assert any("equal to an earlier one: without masks and prov" in line for line in found.lines)


def test_a_sentence_of_one_word_without_end_makes_equal_rows(tmp_path):
    """Cut in many rows, its rows are equal with the same provenance: no fault."""
    path = tmp_path / "same.jsonl"
    path.write_text(json.dumps({"text": "the " * 2000}) + "\n" + '{"text": "A fox. It left."}\n')
    build_here(path, output=tmp_path / "out", objective="mlm", masking="none", provenance=True)
    found = look(tmp_path / "out", corpus=path)
    assert not found.broken
    assert any("equal to an earlier one" in line for line in found.lines)


def test_copies_of_a_document_may_make_equal_rows(tmp_path):
    path = tmp_path / "copies.jsonl"
    lines = CORPUS.read_text().splitlines()
    path.write_text("\n".join([*lines, *lines[:9], *lines[:9]]))
    build_here(path, output=tmp_path / "out", masking="none", provenance=True, dupe_factor=1)
    assert not look(tmp_path / "out", corpus=path).broken
