"""``bert-data plan``: says what a build would read, make and need, without writing anything.

Where the numbers come from is in ``pipeline.estimate``; here they are put into words.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from pipeline.config import BuildConfig
from pipeline.estimate import Estimate, estimate
from pipeline.prepare import Prepared, prepare
from pipeline.sampling import SAMPLE_BYTES, draw_sample
from pipeline.summary import warnings_after
from runners.workers import can_fork
from schemas.arrow import id_type
from schemas.manifest import Manifest

__all__ = ["describe", "plan"]

_BATCH_SIZES = (32, 256)


def plan(
    config: BuildConfig, *, beam_args: Sequence[str] = (), max_sample: int = SAMPLE_BYTES
) -> int:
    """Prints the plan of a build.

    Args:
      config: the configuration; its ``output`` is not looked at.
      beam_args: Beam's own flags.
      max_sample: bytes of text to look at; input that has no more is read whole, and the plan exact.

    Returns:
      The exit code: 3 when all was read and a build would refuse too many records, else 0.

    Raises:
      ConfigError: as a build would, of the vocabulary or the input.
      SingleDocumentError: all was read, and no pairs can be made of it.
      OSError: a file cannot be read.
    """
    prepared = prepare(config)
    for warning in prepared.warnings:
        print(f"bert-data: warning: {warning}", file=sys.stderr)
    found = estimate(prepared, draw_sample(prepared, max_bytes=max_sample))
    print("\n".join(describe(prepared, found, beam_args=beam_args)), flush=True)
    if not found.exact:
        return 0
    if _too_many_rejects(prepared, found):
        return 3
    if found.failure:
        raise found.failure
    return 0


def describe(prepared: Prepared, found: Estimate, *, beam_args: Sequence[str]) -> list[str]:
    """The plan, a line each."""
    lines = [*_input(prepared, found), *_decided(prepared)]
    if found.totals["tokens"]:
        lines += _text(found)
    if found.manifest:
        lines += _output(prepared, found, found.manifest)
    return [
        *lines,
        *_running(prepared, found, beam_args),
        *_rejected(found),
        *_warned(prepared, found),
    ]


def _plural(noun: str, number: float) -> str:
    return noun if number == 1 else f"{noun}{'e' * noun.endswith('s')}s"


def _number(value: float, *, exact: bool) -> str:
    """Whole, or three digits of it."""
    if exact or value < 1:
        return f"{round(value):,}"
    digits = 2 - math.floor(math.log10(value))
    return f"~{round(round(value, digits)):,}"


def _megabytes(value: float, *, exact: bool = True) -> str:
    return f"{'' if exact else '~'}{value / 1e6:,.{1 if value < 1e9 else 0}f} MB"


def _input(prepared: Prepared, found: Estimate) -> Iterator[str]:
    kinds = Counter((file.format, file.compression, file.decided_by) for file in prepared.files)
    size = sum(file.size for file in prepared.files)
    count = len(prepared.files)
    yield f"Input: {count:,} {_plural('file', count)}, {_megabytes(size)} on disk"
    for (form, compression, why), n in sorted(kinds.items()):
        packed = "" if compression == "none" else f", {compression}"
        yield f"  {n:,} {form}{packed}: {why}"
    if found.exact:
        yield "All of it was read: the numbers are exact."
        return
    text, seen = found.totals["text_bytes"], found.seen["documents"]
    yield (
        f"Read {seen:,} {_plural('document', seen)}, {_megabytes(found.seen['text_bytes'])} of text"
        + (f", of some {_megabytes(text)} ({found.seen['text_bytes'] / text:.1%})" if text else "")
        + ": ~ marks an estimate."
    )


def _decided(prepared: Prepared) -> Iterator[str]:
    config, vocabulary = prepared.job.config, prepared.job.vocabulary
    yield (
        f"Decided: sentences {config.sentence_splitter}, language {config.language}, tokenizer of "
        f"{vocabulary.vocab_size:,} entries, do_lower_case={config.do_lower_case}, "
        f"num_shards={config.num_shards}"
    )


def _text(found: Estimate) -> Iterator[str]:
    exact, totals, seen = found.exact, found.totals, found.seen
    documents, filled = (
        totals["documents"],
        totals["documents"] - totals["documents_without_tokens"],
    )
    copies = f" ({round(totals['duplicate_documents']):,} duplicates)" if exact else ""
    yield (
        f"Text: {_number(documents, exact=exact)} {_plural('document', round(documents))}{copies}, "
        f"{_number(totals['sentences'], exact=exact)} sentences, "
        f"{_number(totals['tokens'], exact=exact)} tokens"
    )
    yield (
        f"  {totals['sentences'] / filled:.1f} sentences a document, "
        f"{totals['tokens'] / totals['sentences']:.1f} tokens a sentence, "
        f"{seen['tokens'] / max(1, seen['words']):.2f} tokens a word; "
        f"{totals['one_sentence_documents'] / filled:.1%} of the documents have one sentence; "
        f"{totals['unknown_tokens'] / totals['tokens']:.2%} of the tokens are [UNK]"
    )


def _output(prepared: Prepared, found: Estimate, manifest: Manifest) -> Iterator[str]:
    exact = found.exact
    passes = prepared.job.config.dupe_factor
    total = sum(d.bytes for d in found.data_sets)
    yield (
        f"Output: {_megabytes(total, exact=exact)}, {passes} {_plural('pass', passes)} over the text "
        "in an epoch"
    )
    padding = {d.max_seq_length: d.rates.padding or 0.0 for d in manifest.data_sets}
    for d in found.data_sets:
        steps = ", ".join(
            f"{_number(d.examples // size, exact=exact)} of {size}" for size in _BATCH_SIZES
        )
        yield (
            f"  seq{d.max_seq_length}/{d.split}: {_number(d.examples, exact=exact)} examples, "
            f"{d.shards} {_plural('shard', d.shards)}, {_megabytes(d.bytes, exact=exact)}, "
            f"padding {padding[d.max_seq_length]:.1%}, steps an epoch: {steps}"
        )


def _running(prepared: Prepared, found: Estimate, beam_args: Sequence[str]) -> Iterator[str]:
    width = id_type(prepared.job.vocabulary.vocab_size).bit_width // 8
    parts = [f"Running: {_runner(prepared, beam_args)}"]
    if found.manifest:
        parts.append(
            f"{_megabytes(found.block_memory, exact=False)} of memory for a worker's block"
        )
        if prepared.job.config.runner == "local":
            spilled = _megabytes(found.totals["tokens"] * width, exact=False)
            parts.append(f"{spilled} of temporary files")
    yield "; ".join(parts)


def _runner(prepared: Prepared, beam_args: Sequence[str]) -> str:
    config = prepared.job.config
    if config.runner != "local":
        return f"Beam's {config.runner}"
    direct = PipelineOptions(list(beam_args)).view_as(DirectOptions)
    mode, number = direct.direct_running_mode, direct.direct_num_workers
    if mode != "in_memory" or number != 1:
        return f"this machine, Beam's {mode} with {number or 'a core each'} workers"
    workers = prepared.workers
    if workers == 1:
        return "this machine, one process"
    how = "forked" if can_fork() else "started by Beam"
    return f"this machine, {workers} worker processes, {how}"


def _too_many_rejects(prepared: Prepared, found: Estimate) -> bool:
    rejects = sum(found.rejects_by_reason.values())
    limit = prepared.job.config.max_reject_fraction
    return rejects > limit * (found.totals["documents"] + rejects)


def _rejected(found: Estimate) -> Iterator[str]:
    if not found.rejects_by_reason:
        return
    counts = (f"{_number(n, exact=found.exact)} {r}" for r, n in found.rejects_by_reason.items())
    yield f"Refused records: {', '.join(counts)}; the first of each:"
    yield from (f"  {example}" for example in found.reject_examples)


def _warned(prepared: Prepared, found: Estimate) -> Iterator[str]:
    where = "" if found.exact else "in the sample, "
    if _too_many_rejects(prepared, found):
        yield (
            f"warning: {where}more records are refused than --max_reject_fraction="
            f"{prepared.job.config.max_reject_fraction:g} allows; a build would stop"
        )
    if found.manifest:
        yield from (f"warning: {where}{text}" for text in warnings_after(found.manifest))
    elif not found.exact:
        documents = found.seen["documents"]
        yield (
            f"warning: {where}{documents:,} {_plural('document', documents)}: "
            "too few to say more; are there boundaries between documents (a blank line in BERT's "
            "text format, --document_separator in prose)?"
        )
