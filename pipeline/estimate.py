"""The numbers of a plan: a sample goes the way of a build, and what comes out is scaled up."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipeline.config import BuildConfig
from pipeline.manifest import make_manifest
from pipeline.nowhere import NOWHERE
from pipeline.prepare import Prepared
from pipeline.sampling import Part, Sample
from schemas.arrow import id_type
from schemas.errors import SingleDocumentError
from schemas.manifest import Manifest
from transforms.blocks import BlockLayout, split_by_block
from transforms.examples import ROW_GROUP_ROWS
from transforms.formats.batching import text_bytes
from transforms.input_check import ReadTotals
from transforms.pairing import PAIR
from transforms.sentences import split_batch
from transforms.shards import BlockInfo, ShardSettings, write_block
from transforms.tokenization import Encoder, tokenize_batch

__all__ = ["Estimate", "SetEstimate", "estimate"]

#: Passes over a sample: one is like the other, so that a few say enough.
_PASSES = 5

#: Memory, measured: for each byte of a block's token ids, and for each token a row group has room for.
_PER_ID_BYTE, _PER_SLOT = 3.2, 22


@dataclasses.dataclass(frozen=True)
class SetEstimate:
    """One data set: of a length and a split."""

    max_seq_length: int
    split: str
    examples: float
    bytes: float
    shards: int


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a build would make.

    Attributes:
      exact: everything was read; the numbers are whole and those of a build.
      seen: in what was read: ``documents``, ``text_bytes``, ``words`` (between white space), ``tokens``.
      totals: of the input: ``text_bytes`` and the counts of documents that a manifest has.
      languages: of the documents read, how many name each themselves.
      rejects_by_reason: records of the input that are refused.
      reject_examples: one for each reason, as it was found.
      data_sets: by length and split.
      block_memory: bytes that a worker needs for a block, roughly.
      manifest: of what was read, as if it were all; None where no pairs can be made of that.
      failure: why there is no manifest.
    """

    exact: bool
    seen: Mapping[str, int]
    totals: Mapping[str, float]
    languages: Mapping[str, int]
    rejects_by_reason: Mapping[str, float]
    reject_examples: tuple[str, ...]
    data_sets: tuple[SetEstimate, ...]
    block_memory: float
    manifest: Manifest | None
    failure: SingleDocumentError | None


def estimate(prepared: Prepared, sample: Sample) -> Estimate:
    """Takes a sample all the way to shards, which nobody keeps."""
    tokens = [_tokenize(prepared, part) for part in sample.parts]
    made = _all_blocks(prepared, tokens) if sample.exact else _block_a_part(prepared, tokens)
    scales = [1.0] * len(made) if sample.exact else [part.scale for part in sample.parts]
    seen, totals = Counter[str](), defaultdict[str, float](float)
    for part in sample.parts:
        counts = _count_text(part)
        seen.update(counts)
        totals["text_bytes"] += counts["text_bytes"] * part.scale
    for info, scale in zip(made, scales, strict=True):
        seen["tokens"] += info.counts["tokens"]
        for name, n in info.counts.items():
            totals[name] += n * scale
    data_sets = _data_sets(prepared, made, scales, exact=sample.exact)
    rejects, reject_examples = _rejects(sample.parts)
    found = Counter(
        reason for part in sample.parts for b in part.rejects for reason in b["reason"].to_pylist()
    )
    counts = Counter[str]()
    for part in sample.parts:
        counts.update(part.counts)
    totals_read = ReadTotals(seen["documents"], found, counts=counts)
    manifest, failure = _manifest(prepared, made, totals_read)
    return Estimate(
        exact=sample.exact,
        seen=seen,
        totals=totals,
        languages=_languages(sample.parts),
        rejects_by_reason=rejects,
        reject_examples=reject_examples,
        data_sets=data_sets,
        block_memory=_block_memory(prepared, totals["tokens"], data_sets),
        manifest=manifest,
        failure=failure,
    )


def _count_text(part: Part) -> dict[str, int]:
    texts = (text for batch in part.documents for text in batch.column("text").to_pylist())
    return {
        "documents": sum(batch.num_rows for batch in part.documents),
        "text_bytes": sum(text_bytes(batch) for batch in part.documents),
        "words": sum(len(text.split()) for text in texts),
    }


def _languages(parts: Sequence[Part]) -> Counter[str]:
    """What the documents say themselves."""
    said = (name for p in parts for batch in p.documents for name in batch["language"].to_pylist())
    return Counter(name for name in said if name is not None)


def _rejects(parts: Sequence[Part]) -> tuple[dict[str, float], tuple[str, ...]]:
    """How many of each reason in the input, and one of each."""
    counts: dict[str, float] = defaultdict(float)
    examples: dict[str, str] = {}
    for part in parts:
        for row in (row for batch in part.rejects for row in batch.to_pylist()):
            counts[row["reason"]] += part.scale
            examples.setdefault(row["reason"], f"{row['source']}: {row['reason']}: {row['detail']}")
    return dict(sorted(counts.items())), tuple(examples[reason] for reason in sorted(examples))


def _tokenize(prepared: Prepared, part: Part) -> list[pa.RecordBatch]:
    config = prepared.job.config
    encoder, marker = Encoder.of(prepared.job.vocabulary), prepared.job.word_marker()
    return [
        tokenize_batch(
            split_batch(
                batch, language=config.language, sentence_splitter=config.sentence_splitter
            ),
            encoder,
            word_marks=marker,
        )
        for batch in part.documents
    ]


def _all_blocks(prepared: Prepared, tokens: Sequence[list[pa.RecordBatch]]) -> list[BlockInfo]:
    """The blocks of a build."""
    layout = prepared.job.layout
    batches = [batch for part in tokens for batch in part]
    blocks = dict(split_by_block(pa.Table.from_batches(batches), layout)) if batches else {}
    settings = dataclasses.replace(prepared.job.shards, output=NOWHERE, resume=False)
    return [
        write_block(block, [blocks[block]] if block in blocks else [], settings)
        for block in range(layout.num_blocks)
    ]


def _passes(config: BuildConfig) -> int:
    """Passes over a sample; in layout ``shared`` they are all in the same rows."""
    return config.dupe_factor if config.layout == "shared" else min(_PASSES, config.dupe_factor)


def _block_a_part(prepared: Prepared, tokens: Sequence[list[pa.RecordBatch]]) -> list[BlockInfo]:
    """Each part of a sample as a block of its own, with a few of the passes."""
    settings: ShardSettings = prepared.job.shards
    passes = _passes(prepared.job.config)
    settings = dataclasses.replace(
        settings,
        output=NOWHERE,
        resume=False,
        options=dataclasses.replace(settings.options, dupe_factor=passes),
        layout=BlockLayout(settings.options.random_seed, num_shards=len(tokens)),
    )
    return [write_block(i, batches, settings) for i, batches in enumerate(tokens)]


def _data_sets(
    prepared: Prepared, made: Sequence[BlockInfo], scales: Sequence[float], *, exact: bool
) -> tuple[SetEstimate, ...]:
    config, layout = prepared.job.config, prepared.job.layout
    examples: dict[tuple[int, str], float] = defaultdict(float)
    size: dict[tuple[int, str], float] = defaultdict(float)
    shares = {"train": 1 - config.validation_fraction, "validation": config.validation_fraction}
    again = config.dupe_factor / _passes(config)
    for info, scale in zip(made, scales, strict=True):
        for shard in info.shards:
            # A sample is one split; by expectation the other is like it.
            for split, share in {info.split: 1.0}.items() if exact else shares.items():
                of_all = 1.0 if exact else scale * share * again
                examples[shard.max_seq_length, split] += shard.rows * of_all
                size[shard.max_seq_length, split] += shard.bytes * of_all
    shards = {"train": layout.num_shards, "validation": layout.num_validation_shards}
    return tuple(
        SetEstimate(length, split, examples[length, split], size[length, split], shards[split])
        for length, split in sorted(examples)
        if shards[split]
    )


def _manifest(
    prepared: Prepared, made: Sequence[BlockInfo], totals: ReadTotals
) -> tuple[Manifest | None, SingleDocumentError | None]:
    job = prepared.job
    try:
        manifest = make_manifest(
            made,
            totals,
            config=job.config,
            vocabulary=job.vocabulary,
            fingerprint=job.fingerprint,
            text_readers=job.text_readers,
        )
    except SingleDocumentError as error:
        return None, error
    return manifest, None


def _block_memory(prepared: Prepared, tokens: float, data_sets: Sequence[SetEstimate]) -> float:
    """Of the largest block: its ids, the plan of its pairs, and a row group of the longest rows."""
    job = prepared.job
    width = id_type(job.vocabulary.vocab_size).bit_width // 8
    validation = job.config.validation_fraction
    share = max(
        (1 - validation) / job.layout.num_shards,
        validation / max(1, job.layout.num_validation_shards),
    )
    pairs = max((d.examples / max(1, d.shards) for d in data_sets), default=0.0)
    rows = min(pairs, ROW_GROUP_ROWS) * max(job.config.max_seq_length)
    return tokens * share * width * _PER_ID_BYTE + pairs * PAIR.itemsize + rows * _PER_SLOT
