"""What a build says before and after: a few lines for the eye, made from the manifest."""

from __future__ import annotations

from pathlib import PurePosixPath

from pipeline.prepare import Prepared
from schemas.manifest import DataSet, Manifest

__all__ = ["introduction", "summary", "warnings_after"]

#: A corpus with more one-sentence documents than this can hardly give IsNext pairs.
_ONE_SENTENCE_SHARE = 0.5
_UNKNOWN_SHARE = 0.02
_SENTENCES = {"none": "one a line", "sentencex": "found by sentencex"}
_NOT_NEXT_TOLERANCE = 0.02


def introduction(prepared: Prepared) -> str:
    """What will be read and written."""
    files, config = prepared.files, prepared.job.config
    entries = prepared.job.vocabulary.vocab_size
    kinds: dict[str, int] = {}
    for file in files:
        kind = file.format if file.compression == "none" else f"{file.format}.{file.compression}"
        kinds[kind] = kinds.get(kind, 0) + 1
    what = ", ".join(f"{n:,} {kind}" for kind, n in sorted(kinds.items()))
    layout = prepared.job.layout
    shards = _plural(layout.num_shards, "train shard")
    if layout.num_validation_shards:
        shards += f" and {_plural(layout.num_validation_shards, 'validation shard')}"
    return (
        f"Reading {what} ({sum(f.size for f in files) / 1e6:,.1f} MB on disk), "
        f"sentences: {_SENTENCES[config.sentence_splitter]}, tokenizer: {entries:,} entries,"
        f" do_lower_case={config.do_lower_case}\n"
        f"Writing {shards} for each length to {config.output} (--num_shards={config.num_shards})"
    )


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _describe(d: DataSet) -> str:
    r = d.rates
    size = sum(shard.bytes for shard in d.shards)
    mean = 0.0 if r.mean_num_tokens is None else r.mean_num_tokens
    shards = _plural(len(d.shards), "shard")
    return (
        f"  {PurePosixPath(d.name) / d.split}: {_plural(d.examples, 'example')} in {shards}, "
        f"{size / 1e6:,.1f} MB ({size / max(1, d.examples):.0f} bytes each)\n"
        f"    mean length {mean:.1f} of {d.max_seq_length} (padding {_share(r.padding)}), "
        f"short {_share(r.short)}, NotNext {_share(r.not_next)}, masked {_share(r.masked)} "
        f"([MASK] {_share(r.mask_token)}, random {_share(r.random_token)}, kept {_share(r.kept_token)}), "
        f"[UNK] {_share(r.unknown)}, in no example {_share(r.uncovered_tokens)}"
    )


def warnings_after(manifest: Manifest) -> list[str]:
    """What the finished data set gives reason to look at, one line each."""
    counts, found = manifest.counts, []
    filled = counts.documents - counts.documents_without_tokens
    if filled and counts.one_sentence_documents > _ONE_SENTENCE_SHARE * filled:
        found.append(
            f"{counts.one_sentence_documents:,} of {filled:,} documents have one sentence, and give no "
            "IsNext pair; is there a blank line between all sentences?"
        )
    if counts.tokens and counts.unknown_tokens > _UNKNOWN_SHARE * counts.tokens:
        found.append(
            f"{counts.unknown_tokens / counts.tokens:.1%} of the tokens are [UNK]; is it the "
            "vocabulary of this language, and do_lower_case as it needs?"
        )
    for d in manifest.data_sets:
        empty = sum(not shard.rows for shard in d.shards)
        if empty:
            found.append(
                f"{empty:,} of the {len(d.shards):,} shards of {d.name}/{d.split} have no example; "
                "give fewer --num_shards, or more documents to that split"
            )
        if d.examples > 1000 and abs((d.rates.not_next or 0) - 0.5) > _NOT_NEXT_TOLERANCE:
            found.append(
                f"{d.name}/{d.split} has {_share(d.rates.not_next)} NotNext instead of half: "
                f"{_share(d.rates.single_segment_not_next)} are so because their chunk had one sentence"
            )
    return found


def summary(manifest: Manifest, prepared: Prepared, *, seconds: float) -> str:
    """What was made, at which realised rates, and how fast."""
    counts = manifest.counts
    rejects = ", ".join(f"{n:,} {reason}" for reason, n in counts.rejects_by_reason.items())
    lines = [
        f"Read {counts.documents:,} documents ({counts.duplicate_documents:,} duplicates, "
        f"{counts.documents_without_tokens:,} without tokens), {counts.sentences:,} sentences, "
        f"{counts.tokens:,} tokens; refused {_plural(counts.rejects, 'record')}"
        + (f" ({rejects}): see rejects/" if counts.rejects else ""),
        *(_describe(d) for d in manifest.data_sets),
        *(f"bert-data: warning: {text}" for text in warnings_after(manifest)),
        f"Done in {seconds:.1f} s, {prepared.text_bytes / 1e6 / seconds:.1f} MB of text a second.",
    ]
    return "\n".join(lines)
