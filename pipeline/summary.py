"""What a build says before and after: a few lines for the eye, made from the manifest."""

from __future__ import annotations

from pathlib import PurePosixPath

from pipeline.config import BuildConfig
from pipeline.prepare import Prepared
from pipeline.wording import plural
from schemas.manifest import DataSet, Manifest
from transforms import has_kernel
from transforms.formats.encodings import UTF_8

__all__ = ["COMPILING", "introduction", "is_compiled", "summary", "warnings_after"]

#: Said where kernels are not compiled yet: for half a minute nothing else seems to happen.
COMPILING = "Compiling kernels (once for each kind of build, for half a minute or more) ..."
#: One that no other kind of build needs, by its objective, and of the exact reference.
_KERNELS = {
    "nsp": "pairing.plan_pairs",
    "sop": "sentence_order.plan_ordered_pairs",
    "mlm": "packing.pack_rows",
}
_REFERENCE_KERNEL = "reference_rows.lay_out_instances"

#: A corpus with more one-sentence documents than this can hardly give IsNext pairs.
_ONE_SENTENCE_SHARE = 0.5
_UNKNOWN_SHARE = 0.02
#: Sentences of English have some 25.
_TOKENS_A_SENTENCE = 100
#: Documents with U+FFFD: more than this are no accident of single pages.
_REPLACEMENT_SHARE = 0.01
_UNCOVERED_SHARE = 0.02
_NOT_NEXT_TOLERANCE = 0.02


def introduction(prepared: Prepared) -> str:
    """What will be read and written."""
    files, config = prepared.files, prepared.job.config
    entries = prepared.job.vocabulary.vocab_size
    kinds: dict[str, int] = {}
    for file in files:
        kind = file.format if file.compression == "none" else f"{file.format}.{file.compression}"
        if file.encoding != UTF_8:
            kind += f" in {file.encoding} ({file.encoding_by})"
        kinds[kind] = kinds.get(kind, 0) + 1
    what = ", ".join(f"{n:,} {kind}" for kind, n in sorted(kinds.items()))
    layout = prepared.job.layout
    shards = plural(layout.num_shards, "train shard")
    if layout.num_validation_shards:
        shards += f" and {plural(layout.num_validation_shards, 'validation shard')}"
    return (
        f"Reading {what} ({sum(f.size for f in files) / 1e6:,.1f} MB on disk), "
        f"sentences: {_sentences(config)}{_or_their_own(prepared)}, tokenizer: {entries:,} entries,"
        f" do_lower_case={config.do_lower_case}\n"
        f"Writing {shards} for each length to {config.output} (--num_shards={config.num_shards})"
    )


def _sentences(config: BuildConfig) -> str:
    if config.sentence_splitter == "none":
        return "one a line"
    if config.sentence_splitter == "best":
        return "found by the best splitter of each language"
    return f"found by {config.sentence_splitter}"


def _or_their_own(prepared: Prepared) -> str:
    """Records with fields may bring their sentences, which is seen when they are read."""
    fields = {"jsonl", "parquet", "avro", "arrow"} & {file.format for file in prepared.files}
    return " (where documents bring none)" if fields else ""


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _describe(d: DataSet, manifest: Manifest) -> str:
    r = d.rates
    size = sum(shard.bytes for shard in d.shards)
    mean = 0.0 if r.mean_num_tokens is None else r.mean_num_tokens
    shards = plural(len(d.shards), "shard")
    passes = ""
    if manifest.layout == "shared":
        passes = f" with the masks of {manifest.configuration['dupe_factor']} passes each"
    parts = [f"short {_share(r.short)}"]
    if manifest.objective != "mlm":
        parts.append(f"{manifest.label_convention['1']} {_share(r.not_next)}")
    if manifest.masking == "static":
        parts.append(
            f"masked {_share(r.masked)} ([MASK] {_share(r.mask_token)}, "
            f"random {_share(r.random_token)}, kept {_share(r.kept_token)})"
        )
    parts += [f"[UNK] {_share(r.unknown)}", f"in no example {_share(r.uncovered_tokens)}"]
    if d.long_sentences and manifest.objective != "mlm":
        done = "split" if manifest.configuration.get("split_long_sentences") else "cut off"
        parts.append(f"{plural(d.long_sentences, 'sentence')} longer than a row, {done}")
    return (
        f"  {PurePosixPath(d.name) / d.split}: {plural(d.examples, 'example')}{passes} in {shards}, "
        f"{size / 1e6:,.1f} MB ({size / max(1, d.examples):.0f} bytes each)\n"
        f"    mean length {mean:.1f} of {d.max_seq_length} (padding {_share(r.padding)}), "
        f"{', '.join(parts)}"
    )


def is_compiled(config: BuildConfig) -> bool:
    """Whether the kernel is there that builds of this kind alone need; see ``COMPILING``."""
    return has_kernel(_REFERENCE_KERNEL if config.exact_reference else _KERNELS[config.objective])


def warnings_after(manifest: Manifest) -> list[str]:
    """What the finished data set gives reason to look at, one line each."""
    counts, found = manifest.counts, []
    filled = counts.documents - counts.documents_without_tokens
    nsp = manifest.objective == "nsp"
    one_sentence, of_those = counts.one_sentence_documents, ""
    if manifest.configuration.get("split_long_sentences"):
        # One that is longer than a row becomes several, and does give pairs.
        several = min(d.long_sentences or 0 for d in manifest.data_sets)
        one_sentence -= several
        of_those = " that is no longer than a row" if several else ""
    if nsp and filled and one_sentence > _ONE_SENTENCE_SHARE * filled:
        found.append(
            f"{one_sentence:,} of {filled:,} documents have one sentence{of_those}, and give no "
            "IsNext pair; is there a blank line between all sentences?"
        )
    a_line = manifest.configuration.get("sentence_splitter") == "none"
    if a_line and counts.sentences and counts.tokens > _TOKENS_A_SENTENCE * counts.sentences:
        found.append(
            f"a line was taken for a sentence, and has {counts.tokens / counts.sentences:.0f} tokens on "
            "average; is it running text, which --format prose reads?"
        )
    if counts.tokens and counts.unknown_tokens > _UNKNOWN_SHARE * counts.tokens:
        found.append(
            f"{counts.unknown_tokens / counts.tokens:.1%} of the tokens are [UNK]; is it the "
            "vocabulary of this language, and do_lower_case as it needs?"
        )
    lost = counts.documents_with_replacement_characters or 0
    if lost > _REPLACEMENT_SHARE * counts.documents:
        found.append(
            f"{lost:,} of {counts.documents:,} documents have U+FFFD, which stands where a character "
            "was lost; was the text read in the right encoding (--encoding)?"
        )
    for d in manifest.data_sets:
        empty = sum(not shard.rows for shard in d.shards)
        if empty:
            found.append(
                f"{empty:,} of the {len(d.shards):,} shards of {d.name}/{d.split} have no example; "
                "give fewer --num_shards, or more documents to that split"
            )
        uncovered = d.rates.uncovered_tokens or 0
        cut_off = d.long_sentences and not manifest.configuration.get("split_long_sentences")
        if manifest.objective != "mlm" and cut_off and uncovered > _UNCOVERED_SHARE:
            found.append(
                f"{uncovered:.1%} of the tokens are in no example of {d.name}/{d.split}: "
                f"{plural(d.long_sentences or 0, 'sentence')} longer than a row are cut off; "
                "--split_long_sentences makes several of one"
            )
        wanted = manifest.configuration["not_next_share"]
        off = abs((d.rates.not_next or 0) - wanted)
        if nsp and d.examples > 1000 and off > _NOT_NEXT_TOLERANCE:
            found.append(
                f"{d.name}/{d.split} has {_share(d.rates.not_next)} NotNext instead of {wanted:.0%}: "
                f"{_share(d.rates.single_segment_not_next)} are so because their chunk had one sentence"
            )
    return found


def summary(manifest: Manifest, prepared: Prepared, *, seconds: float) -> str:
    """What was made, at which realised rates, and how fast."""
    counts = manifest.counts
    rejects = ", ".join(f"{n:,} {reason}" for reason, n in counts.rejects_by_reason.items())
    dropped = " left out" if manifest.configuration["deduplicate"] else ""
    lines = [
        f"Read {plural(counts.documents, 'document')} "
        f"({plural(counts.duplicate_documents, 'duplicate')}{dropped}, "
        f"{counts.documents_without_tokens:,} without tokens), "
        f"{plural(counts.sentences, 'sentence')}, {plural(counts.tokens, 'token')}; "
        + (
            f"left out {plural(counts.skipped_documents, 'short one')}; "
            if counts.skipped_documents
            else ""
        )
        + f"refused {plural(counts.rejects, 'record')}"
        + (f" ({rejects}): see rejects/" if counts.rejects else ""),
        *(_describe(d, manifest) for d in manifest.data_sets),
        *(f"bert-data: warning: {text}" for text in warnings_after(manifest)),
        f"Done in {seconds:.1f} s, {prepared.text_bytes / 1e6 / seconds:.1f} MB of text a second.",
    ]
    return "\n".join(lines)
