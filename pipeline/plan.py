"""``bert-data plan``: says what a build would read, make and need, without writing anything.

Where the numbers come from is in ``pipeline.estimate``; here they are put into words.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, PortableOptions

from pipeline.config import BuildConfig
from pipeline.estimate import Estimate, estimate
from pipeline.places import Place, find_place
from pipeline.prepare import Prepared, prepare
from pipeline.sampling import SAMPLE_BYTES, draw_sample
from pipeline.summary import COMPILING, is_compiled, warnings_after
from runners.workers import can_fork
from schemas.arrow import id_type
from schemas.errors import ConfigError
from schemas.manifest import Manifest
from schemas.stores import use_store_options
from transforms.formats.encodings import AUTO, UTF_8
from transforms.inputs import InputFile

__all__ = ["describe", "plan"]

_BATCH_SIZES = (32, 256)
_LANGUAGES_SHOWN = 8

#: What brings the documents of a block together.
_BY = {"files": "files", "runner": "the runner"}

#: Where a portable runner's workers are, by ``--environment_type``.
_WORKERS = {
    "LOOPBACK": "workers are threads of the command's process",
    "PROCESS": "workers are processes that it starts",
    "DOCKER": "workers are containers",
    "EXTERNAL": "workers are those of a pool",
}


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
    if config.exact_reference:
        raise ConfigError(
            "exact_reference",
            True,
            "cannot be planned; build it, or plan without the flag for about the same numbers",
        )
    use_store_options(beam_args)
    prepared = prepare(config)
    place = find_place(prepared, beam_args)  # what a build would find missing
    for warning in prepared.warnings:
        print(f"bert-data: warning: {warning}", file=sys.stderr)
    if not is_compiled(prepared.job.config):
        print(COMPILING, file=sys.stderr, flush=True)
    found = estimate(prepared, draw_sample(prepared, max_bytes=max_sample))
    print("\n".join(describe(prepared, found, place, beam_args=beam_args)), flush=True)
    if not found.exact:
        return 0
    if _too_many_rejects(prepared, found):
        return 3
    if found.failure:
        raise found.failure
    return 0


def describe(
    prepared: Prepared, found: Estimate, place: Place | None, *, beam_args: Sequence[str]
) -> list[str]:
    """The plan, a line each; ``place`` is that of ``find_place``."""
    lines = [*_input(prepared, found), *_decided(prepared, found)]
    if found.totals["tokens"]:
        lines += _text(found)
    if found.manifest:
        lines += _output(prepared, found, found.manifest)
    return [
        *lines,
        *_running(prepared, found, place, beam_args),
        *_rejected(found),
        *_warned(prepared, found),
    ]


def _plural(noun: str, number: float) -> str:
    return noun if number == 1 else f"{noun}{'e' * noun.endswith('s')}s"


def _more_documents(prepared: Prepared) -> str:
    """What may make more documents of the input."""
    formats = {file.format for file in prepared.files}
    if formats <= {"html", "gutenberg"}:
        return f"of {' and '.join(sorted(formats))} a file is one document"
    return (
        "are there boundaries between documents (a blank line in BERT's text format, "
        "--document_separator in prose)?"
    )


def _number(value: float, *, exact: bool) -> str:
    """Whole, or three digits of it."""
    if exact or value < 1:
        return f"{round(value):,}"
    digits = 2 - math.floor(math.log10(value))
    return f"~{round(round(value, digits)):,}"


def _megabytes(value: float, *, exact: bool = True) -> str:
    return f"{'' if exact else '~'}{value / 1e6:,.{1 if value < 1e9 else 0}f} MB"


def _input(prepared: Prepared, found: Estimate) -> Iterator[str]:
    kinds = Counter(
        (file.format, file.compression, _encoding(file, prepared.job.config), file.decided_by)
        for file in prepared.files
    )
    size = sum(file.size for file in prepared.files)
    count = len(prepared.files)
    yield f"Input: {count:,} {_plural('file', count)}, {_megabytes(size)} on disk"
    for (form, compression, encoding, why), n in sorted(kinds.items()):
        packed = "" if compression == "none" else f", {compression}"
        yield f"  {n:,} {form}{packed}{encoding}: {why}"
    if found.exact:
        yield "All of it was read: the numbers are exact."
        return
    text, seen = found.totals["text_bytes"], found.seen["documents"]
    yield (
        f"Read {seen:,} {_plural('document', seen)}, {_megabytes(found.seen['text_bytes'])} of text"
        + (f", of some {_megabytes(text)} ({found.seen['text_bytes'] / text:.1%})" if text else "")
        + ": ~ marks an estimate."
    )


def _encoding(file: InputFile, config: BuildConfig) -> str:
    """What to say of a file's encoding: nothing where it is what everyone expects."""
    if file.encoding == UTF_8 and config.encoding != AUTO:
        return ""
    return f", {file.encoding} ({file.encoding_by})"


def _decided(prepared: Prepared, found: Estimate) -> Iterator[str]:
    config, vocabulary = prepared.job.config, prepared.job.vocabulary
    yield (
        f"Decided: sentences {config.sentence_splitter}, language {_language(config, found)}, tokenizer of "
        f"{vocabulary.vocab_size:,} entries, do_lower_case={config.do_lower_case}, "
        f"num_shards={config.num_shards}"
    )


def _language(config: BuildConfig, found: Estimate) -> str:
    """The documents' own, where they name one, before the flag's."""
    own = ", ".join(sorted(found.languages)[:_LANGUAGES_SHOWN])
    own += ", ..." * (len(found.languages) > _LANGUAGES_SHOWN)
    if not own:
        assumed = config.language == BuildConfig.language
        return f"{config.language} (assumed; --language)" if assumed else config.language
    if sum(found.languages.values()) == found.seen["documents"]:
        return f"{own} (the documents' own)"
    return f"{config.language} (of those that name their own: {own})"


def _text(found: Estimate) -> Iterator[str]:
    exact, totals, seen = found.exact, found.totals, found.seen
    documents, filled = (
        totals["documents"],
        totals["documents"] - totals["documents_without_tokens"],
    )
    twice = round(totals["duplicate_documents"])
    copies = f" ({twice:,} {_plural('duplicate', twice)})" if exact else ""
    yield (
        f"Text: {_number(documents, exact=exact)} {_plural('document', round(documents))}{copies}, "
        f"{_number(totals['sentences'], exact=exact)} {_plural('sentence', round(totals['sentences']))}, "
        f"{_number(totals['tokens'], exact=exact)} {_plural('token', round(totals['tokens']))}"
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
            f"{_number(d.examples // size, exact=exact)} of {size} rows" for size in _BATCH_SIZES
        )
        yield (
            f"  seq{d.max_seq_length}/{d.split}: {_number(d.examples, exact=exact)} examples, "
            f"{d.shards} {_plural('shard', d.shards)}, {_megabytes(d.bytes, exact=exact)}, "
            f"padding {padding[d.max_seq_length]:.1%}, steps an epoch: {steps}"
        )


def _running(
    prepared: Prepared, found: Estimate, place: Place | None, beam_args: Sequence[str]
) -> Iterator[str]:
    width = id_type(prepared.job.vocabulary.vocab_size).bit_width // 8
    parts = [f"Running: {_runner(prepared, place, beam_args)}"]
    if found.manifest:
        parts.append(
            f"{_megabytes(found.block_memory, exact=False)} of memory for a worker's block"
        )
        if place is None:
            spilled = _megabytes(found.totals["tokens"] * width, exact=False)
            parts.append(f"{spilled} of temporary files")
    yield "; ".join(parts)


def _runner(prepared: Prepared, place: Place | None, beam_args: Sequence[str]) -> str:
    if place is not None:
        shuffle = _BY[place.submission.shuffle]
        return f"{place.runner.name}, {_workers(place.options)}, a shuffle by {shuffle}"
    direct = PipelineOptions(list(beam_args)).view_as(DirectOptions)
    mode, number = direct.direct_running_mode, direct.direct_num_workers
    if mode != "in_memory" or number != 1:
        return f"this machine, Beam's {mode} with {number or 'a core each'} workers"
    workers = prepared.workers
    if workers == 1:
        return "this machine, one process"
    how = "forked" if can_fork() else "started by Beam"
    return f"this machine, {workers} worker processes, {how}"


def _workers(options: PipelineOptions) -> str:
    kind = options.view_as(PortableOptions).environment_type
    return _WORKERS.get(kind, f"workers by {kind}" if kind else "workers as it has them")


def _too_many_rejects(prepared: Prepared, found: Estimate) -> bool:
    rejects = sum(found.rejects_by_reason.values())
    config = prepared.job.config
    limit = 0 if config.strict else config.max_reject_fraction
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
        config = prepared.job.config
        limit = "strict" if config.strict else f"max_reject_fraction={config.max_reject_fraction:g}"
        yield f"warning: {where}more records are refused than --{limit} allows; a build would stop"
    if found.manifest:
        yield from (f"warning: {where}{text}" for text in warnings_after(found.manifest))
    elif not found.exact:
        documents = found.seen["documents"]
        yield (
            f"warning: {where}{documents:,} {_plural('document', documents)}: "
            f"too few to say more; {_more_documents(prepared)}"
        )
