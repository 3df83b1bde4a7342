"""What ``bert-data check`` prints: rates with their intervals, and violations with the rows as text."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tokenizers import Tokenizer

from pipeline.check_data_sets import alike_by_right
from pipeline.check_rows import read_row
from pipeline.check_shares import Share
from pipeline.check_totals import Totals
from pipeline.row_text import as_static, pieces_of, provenance_lines, segment_lines
from pipeline.wording import plural
from schemas.manifest import DataSet, Manifest
from transforms.audit_counts import Counted
from transforms.audit_repeats import Repeats
from transforms.audit_rules import Violation

__all__ = ["choose", "describe_data_set", "describe_violations"]

#: Longest row that is shown whole.
_MAX_CHARACTERS = 1500

#: A share of the predictions asked for, below which it is said that there are few.
_FEW = 0.3


def describe_data_set(
    manifest: Manifest,
    d: DataSet,
    totals: Totals,
    shares: Iterable[Share],
    repeats: Repeats,
    *,
    corpus: bool,
) -> Iterator[str]:
    """Lines for a data set whose rows have been read."""
    rows, tokens = totals[Counted.ROWS], totals[Counted.TOKENS]
    mean = tokens / rows if rows else 0.0
    yield (
        f"{d.name}/{d.split}: {rows:,} rows in {plural(len(d.shards), 'shard')}, {tokens:,} tokens, "
        f"{mean:.1f} of {d.max_seq_length} in a row"
    )
    for share in shares:
        words = "" if share.inside else ", outside of it"
        if share.name == "masked":
            words = f", at most {d.max_predictions_per_seq} in a row"
        yield (
            f"  {share.name:8} {share.value:8.3%}  95%: {share.low:.3%} to {share.high:.3%}  "
            f"asked for: {share.asked:.3%}{words}"
        )
    if repeats.equal:
        equal = plural(repeats.equal, "row")
        yield f"  {equal} ({repeats.equal / rows:.4%}) equal to an earlier one{_why(manifest)}"
    wanted, masked = totals[Counted.WANTED], totals[Counted.PREDICTIONS]
    if masked < _FEW * wanted:
        yield (
            f"  {masked:,} of the {wanted:,} tokens are masked that were asked for: the others are in "
            "words, or runs of words, that are too long"
        )
    if corpus and totals.tokens:
        least, most = (1 - covered / totals.tokens for covered in reversed(totals.covered))
        about = f"{least:.4%}" if least == most else f"{least:.4%} to {most:.4%}"
        yield f"  {about} of the corpus' {totals.tokens:,} tokens are in no row"


def _why(manifest: Manifest) -> str:
    """Why rows may be equal."""
    if alike_by_right(manifest):
        return ": equal files make equal rows here"
    if manifest.configuration.get("provenance"):
        return ", but of other sentences or by chance"
    if manifest.masking == "static":
        return ", of few tokens or by chance"
    return ": without masks and provenance it is not known whether they were written twice"


def choose(violations: Sequence[Violation], *, limit: int) -> list[Violation]:
    """So many of them: one of each rule first, then others in order."""
    seen: Counter[str] = Counter()
    ranked = []
    for place, violation in enumerate(violations):
        ranked.append((seen[violation.rule], place, violation))
        seen[violation.rule] += 1
    chosen = sorted(ranked[:], key=lambda each: each[:2])[:limit]
    return [violation for _, _, violation in sorted(chosen, key=lambda each: each[1])]


def describe_violations(
    root: str,
    manifest: Manifest,
    violations: Sequence[Violation],
    broken: Counter[str],
    *,
    limit: int,
    tokenizer: Tokenizer | None,
) -> Iterator[str]:
    """The first violations with their rows, and how many there are of each rule."""
    for violation in choose(violations, limit=limit):
        row = "" if violation.row is None else f" row {violation.row}"
        yield f"{violation.where}{row}: {violation.rule}: {violation.words}"
        if violation.row is not None:
            columns = read_row(posixpath.join(root, violation.where), violation.row)
            for line in _describe_row(columns, manifest, tokenizer):
                yield f"    {line}"
    yield "Violations: " + ", ".join(f"{n:,} {rule}" for rule, n in sorted(broken.items()))


def _describe_row(
    columns: dict[str, Any] | None, manifest: Manifest, tokenizer: Tokenizer | None
) -> Iterator[str]:
    """A row as ``bert-data show`` has it, as far as there is sense in it; else its numbers."""
    if columns is None or tokenizer is None:
        return
    pieces = pieces_of(as_static(columns), tokenizer=tokenizer, about=manifest.tokenizer)
    yield from map(_shorten, segment_lines(pieces))
    label = columns.get("next_sentence_label")
    if label is not None:
        meaning = manifest.label_convention.get(str(label), "no such label")
        yield f"label {label} ({meaning}), num_tokens {columns['num_tokens']}"
    if "masked_lm_positions" in columns:
        yield _shorten(f"positions {columns['masked_lm_positions']}")
    yield from provenance_lines(columns)


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 4] + " ..."
