"""Counts and rates of a data set, worked out again from its rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

from pipeline.check_totals import FAR, Totals
from schemas.manifest import DataSet, Manifest
from transforms.audit_counts import Counted
from transforms.audit_rules import Violation
from transforms.reader import READ_COUNTS

__all__ = ["check_corpus_counts", "check_rates"]


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _near(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def check_rates(
    manifest: Manifest, d: DataSet, totals: Totals, *, corpus: bool
) -> Iterator[Violation]:
    """Everything that the manifest says of a data set and that its rows say as well."""
    where, rates = f"{d.name}/{d.split}", d.rates
    rows, tokens, masked = (
        totals[name] for name in (Counted.ROWS, Counted.TOKENS, Counted.PREDICTIONS)
    )
    shared = int(manifest.configuration["dupe_factor"]) if manifest.layout == "shared" else 1
    static, pairs = manifest.masking == "static", manifest.objective != "mlm"
    filled = _ratio(tokens, rows * d.max_seq_length)
    if rows != d.examples:
        yield Violation("examples", f"there are {rows:,} rows, not {d.examples:,}", where)
    if totals.histogram.tolist() != list(d.num_tokens_histogram):
        yield Violation("histogram", "num_tokens_histogram is not that of the rows", where)
    worked_out = {
        "mean_num_tokens": _ratio(tokens, rows),
        "padding": None if filled is None else 1 - filled,
        "masked": _ratio(masked, tokens * shared) if static else None,
        "not_next": _ratio(totals[Counted.LABEL_1], rows) if pairs else None,
        "unknown": _ratio(totals[Counted.UNKNOWN], tokens),
    }
    if manifest.objective == "sop" and manifest.configuration.get("provenance"):
        worked_out["split_segment"] = _ratio(totals[Counted.SPLIT], rows)
    for name, value in worked_out.items():
        if not _near(getattr(rates, name), value):
            yield _wrong_rate(name, getattr(rates, name), value, where)
    every_id = manifest.configuration.get("random_tokens") == "all"
    yield from _check_fates(d, totals, where, every_id=every_id)
    yield from _check_bounds(manifest, d, totals, where)
    said, alone = d.chunks_without_partner, totals.without_partner if pairs else 0
    if said < 0 or (alone is not None and said != alone):
        words = f"chunks_without_partner is {said:,}, by the rows it is {alone or 0:,}"
        yield Violation("counts", words, where)
    if corpus:
        yield from _check_uncovered(rates.uncovered_tokens, totals, where)
    if d.long_sentences is None:  # it was not counted yet
        return
    if d.long_sentences < 0 or (corpus and d.long_sentences != totals.long_sentences):
        words = f"long_sentences is {d.long_sentences:,}, the corpus has {totals.long_sentences:,}"
        yield Violation("counts", words, where)


def _wrong_rate(name: str, said: float | None, value: float | None, where: str) -> Violation:
    return Violation("rate", f"rates.{name} is {said}, the rows say {value}", where)


def _check_fates(d: DataSet, totals: Totals, where: str, *, every_id: bool) -> Iterator[Violation]:
    """[MASK], random and kept. A random draw may be the token itself or, of ``every_id``, [MASK]."""
    rates, masked = d.rates, totals[Counted.PREDICTIONS]
    said = (rates.mask_token, rates.random_token, rates.kept_token)
    if not masked or None in said:
        if said != (None, None, None) or masked:
            yield Violation("rate", "rates of masks without masks, or none of what there is", where)
        return
    seen = [totals[name] / masked for name in (Counted.MASK, Counted.RANDOM, Counted.KEPT)]
    mask, random, kept = (float(value or 0) for value in said)
    hits = max(0.0, random * masked / totals.random_ids)
    slack = (hits + FAR * math.sqrt(hits) + FAR) / masked
    wrong = [
        not -1e-9 <= seen[0] - mask <= 1e-9 + (slack if every_id else 0),
        not -1e-9 <= random - seen[1] <= 1e-9 + 2 * slack,
        not -1e-9 <= seen[2] - kept <= 1e-9 + slack,
        not math.isclose(mask + random + kept, 1, abs_tol=1e-9),
    ]
    for name, bad, value in zip(
        ("mask_token", "random_token", "kept_token"), wrong, seen, strict=False
    ):
        if bad:
            yield _wrong_rate(name, getattr(rates, name), value, where)
    if wrong[3]:
        yield Violation("rate", "mask_token, random_token and kept_token do not add up to 1", where)
    mixed = totals[Counted.MIXED]
    if mixed > hits + FAR * math.sqrt(hits) + FAR:
        words = f"{mixed:,} units of one fate are partly kept and partly replaced"
        yield Violation("unit_fate", words, where)


def _check_bounds(
    manifest: Manifest, d: DataSet, totals: Totals, where: str
) -> Iterator[Violation]:
    """Rates that the rows only limit, and what the configuration forbids."""
    config, rates, rows = manifest.configuration, d.rates, totals[Counted.ROWS]
    for field in dataclasses.fields(rates):
        value = getattr(rates, field.name)
        if value is not None and not (0 <= value <= 1 or field.name == "mean_num_tokens"):
            yield Violation("rate", f"rates.{field.name} is {value}", where)
    for name in ("short", "uncovered_tokens"):
        if rows and getattr(rates, name) is None:
            yield Violation("rate", f"rates.{name} is null, and there are rows", where)
    if rates.short and not config["short_seq_prob"]:
        yield Violation("rate", f"rates.short is {rates.short}, and no row was to be short", where)
    single = rates.single_segment_not_next
    if (single is not None) != (manifest.objective == "nsp" and rows > 0):
        yield Violation("rate", f"rates.single_segment_not_next is {single}", where)
    elif single is not None and single > (rates.not_next or 0) + 1e-12:
        yield Violation("rate", "single_segment_not_next is more than not_next", where)
    elif (
        single and config.get("provenance") and single * rows > totals[Counted.ONE_SENTENCE_1] + 0.5
    ):
        words = "single_segment_not_next is more than the NotNext rows with one sentence in A"
        yield Violation("rate", words, where)
    short = (rates.short or 0) * rows
    # Where [SEP] may take the last place, a row one token short is full as well.
    exact = manifest.objective == "mlm" and not config.get("sep_between_documents")
    if exact and short > totals[Counted.SHORT] + 0.5:
        words = f"rates.short is {rates.short}, but {totals[Counted.SHORT]:,} rows are not full"
        yield Violation("rate", words, where)
    packed = manifest.objective == "mlm" and config.get("mlm_packing", "full") == "full"
    if packed and not config["short_seq_prob"]:
        passes, again = int(config["dupe_factor"]), config.get("dupe_mode") == "remask"
        most = (1 if manifest.layout == "shared" else passes) if again else 2 * passes - 1
        most *= 0 if config.get("drop_last") else len(d.shards)
        if totals[Counted.SHORT] > most:
            words = f"{totals[Counted.SHORT]:,} rows are not full, at most {most:,} can be so"
            yield Violation("packing", words, where)


def _check_uncovered(said: float | None, totals: Totals, where: str) -> Iterator[Violation]:
    if not totals.tokens:
        return
    least, most = (1 - covered / totals.tokens for covered in reversed(totals.covered))
    if said is None or not least - 1e-9 <= said <= most + 1e-9:
        words = f"rates.uncovered_tokens is {said}, the rows leave out {least} to {most}"
        yield Violation("rate", words, where)


def check_corpus_counts(
    manifest: Manifest,
    counted: Mapping[str, int],
    rejects: Mapping[str, int],
    read: Mapping[str, int],
) -> Iterator[Violation]:
    """The manifest's counts of the corpus are what was counted now.

    Args:
      manifest: of the data set.
      counted: of the documents of all blocks.
      rejects: records that were refused, by reason.
      read: what reading counts; not held against a manifest that does not have it.
    """
    later = {name: read.get(name, 0) for name in READ_COUNTS}
    known = {name: n for name, n in later.items() if getattr(manifest.counts, name) is not None}
    for name, value in {**counted, **known}.items():
        said = getattr(manifest.counts, name)
        if said != value:
            words = f"counts.{name} is {said:,}, the corpus has {value:,}"
            yield Violation("counts", words, "manifest.json")
    said = dict(manifest.counts.rejects_by_reason)
    if said != dict(rejects):
        words = f"rejects_by_reason is {said}, of the corpus {dict(rejects)} were refused now"
        yield Violation("counts", words, "manifest.json")
