"""Writes what a data set says of itself: the tokenizer, the card, and last of all the manifest.

Reading it is in ``schemas.manifest``, which trainers may import without the rest of the pipeline.
"""

from __future__ import annotations

import json
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from typing import Any

import apache_beam as beam
import numpy as np

from pipeline.card import dataset_card
from pipeline.config import BuildConfig
from pipeline.output import sweep
from schemas.manifest import (
    LABEL_CONVENTIONS,
    MANIFEST_FILE,
    Counts,
    CreatedBy,
    DataSet,
    Manifest,
    Rates,
    Shard,
    TokenizerInfo,
)
from transforms.atomic import atomic_write
from transforms.input_check import ReadTotals, require_documents
from transforms.languages import version_of_detector
from transforms.reader import READ_COUNTS
from transforms.shards import BlockInfo, ShardInfo
from transforms.splitters import version_of_splitter
from transforms.vocabulary import Vocabulary

__all__ = ["WriteManifest", "make_manifest", "version_of_segmenter"]


def version_of_segmenter(name: str) -> str | None:
    """Name and version of a ``word_segmenter``; None for ``none``."""
    return None if name == "none" else f"{name} {metadata.version(name)}"


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _rates(counts: Counter[str], *, config: BuildConfig, max_seq_length: int, tokens: int) -> Rates:
    """Realised shares of one data set.

    Args:
      counts: summed over its shards, see ``transforms.examples.ExampleStream``.
      config: decides which shares there are.
      max_seq_length: its length.
      tokens: of its split's documents, counted once.
    """
    examples, example_tokens = counts["examples"], counts["example_tokens"]
    masked = counts["mask_tokens"] + counts["random_tokens"] + counts["kept_tokens"]
    filled = _ratio(example_tokens, examples * max_seq_length)
    passes_in_row = config.dupe_factor if config.layout == "shared" else 1
    static, objective = config.masking == "static", config.objective
    return Rates(
        mean_num_tokens=_ratio(example_tokens, examples),
        padding=None if filled is None else 1 - filled,
        masked=_ratio(masked, example_tokens * passes_in_row) if static else None,
        mask_token=_ratio(counts["mask_tokens"], masked),
        random_token=_ratio(counts["random_tokens"], masked),
        kept_token=_ratio(counts["kept_tokens"], masked),
        not_next=None if objective == "mlm" else _ratio(counts["not_next"], examples),
        short=_ratio(counts["short"], examples),
        unknown=_ratio(counts["unknown_tokens"], example_tokens),
        uncovered_tokens=_ratio(counts["uncovered_tokens"], tokens),
        single_segment_not_next=_ratio(counts["single_segment_not_next"], examples)
        if objective == "nsp"
        else None,
        split_segment=_ratio(counts["split_segment"], examples) if objective == "sop" else None,
    )


def _data_set(shards: list[ShardInfo], *, config: BuildConfig, tokens: int) -> DataSet:
    first = shards[0]
    counts = Counter[str]()
    for shard in shards:
        counts.update(shard.counts)
    return DataSet(
        name=f"seq{first.max_seq_length}",
        max_seq_length=first.max_seq_length,
        max_predictions_per_seq=first.max_predictions_per_seq,
        split=first.split,
        examples=counts["examples"],
        chunks_without_partner=counts["chunks_without_partner"],
        long_sentences=counts["long_sentences"],
        rates=_rates(counts, config=config, max_seq_length=first.max_seq_length, tokens=tokens),
        num_tokens_histogram=tuple(
            int(n) for n in np.sum([shard.histogram for shard in shards], axis=0)
        ),
        shards=tuple(
            Shard(path=s.path, rows=s.rows, bytes=s.bytes, sha256=s.sha256)
            for s in sorted(shards, key=lambda s: s.path)
        ),
    )


def make_manifest(
    blocks: Sequence[BlockInfo],
    totals: ReadTotals,
    *,
    config: BuildConfig,
    vocabulary: Vocabulary,
    fingerprint: str,
    text_readers: str | None,
) -> Manifest:
    """Adds up what was written.

    Raises:
      SingleDocumentError: no document has text; or all have the same, so that no NotNext can be drawn.
    """
    documents = Counter[str]()
    tokens_of = Counter[str]()
    by_set: dict[tuple[int, str], list[ShardInfo]] = {}
    for block in sorted(blocks, key=lambda b: b.block):
        documents.update(block.counts)
        tokens_of[block.split] += block.counts["tokens"]
        for shard in block.shards:
            by_set.setdefault((shard.max_seq_length, shard.split), []).append(shard)
    data_sets = tuple(
        _data_set(shards, config=config, tokens=tokens_of[split])
        for (_, split), shards in sorted(by_set.items())
    )
    with_tokens = documents["documents"] - documents["documents_without_tokens"]
    distinct = with_tokens - documents["duplicate_documents"]
    # Known earlier but for texts that have no token.
    if not (config.exact_reference and distinct):
        require_documents(distinct, objective=config.objective)
    return Manifest(
        created_by=CreatedBy(
            name="bert-data",
            version=metadata.version("bert-data"),
            pyarrow=metadata.version("pyarrow"),
            sentencex=metadata.version("sentencex"),
            tokenizers=metadata.version("tokenizers"),
            word_segmenter=version_of_segmenter(config.word_segmenter),
            sentence_splitter=version_of_splitter(config.sentence_splitter),
            language_detector=version_of_detector(config.language),
            text_readers=text_readers,
        ),
        configuration=json.loads(config.to_json()),
        fingerprint=fingerprint,
        random_seed=config.random_seed,
        tokenizer=TokenizerInfo(
            file="tokenizer.json",
            digest=vocabulary.digest,
            vocab_size=vocabulary.vocab_size,
            do_lower_case=vocabulary.do_lower_case,
            pad_id=vocabulary.pad_id,
            unk_id=vocabulary.unk_id,
            cls_id=vocabulary.cls_id,
            sep_id=vocabulary.sep_id,
            mask_id=vocabulary.mask_id,
        ),
        counts=Counts(
            documents=documents["documents"],
            duplicate_documents=documents["duplicate_documents"],
            documents_without_tokens=documents["documents_without_tokens"],
            one_sentence_documents=documents["one_sentence_documents"],
            sentences=documents["sentences"],
            tokens=documents["tokens"],
            unknown_tokens=documents["unknown_tokens"],
            examples=sum(d.examples for d in data_sets),
            rejects=totals.rejects,
            rejects_by_reason=dict(totals.rejects_by_reason),
            **_counted(totals),
        ),
        data_sets=data_sets,
        label_convention=dict(LABEL_CONVENTIONS[config.objective]),
        objective=config.objective,
        masking=config.masking,
        layout=config.layout,
    )


def _counted(totals: ReadTotals) -> dict[str, int]:
    """What reading counted; nothing where it did not."""
    if totals.counts is None:
        return {}
    return {name: totals.counts.get(name, 0) for name in READ_COUNTS}


class _WriteManifest(beam.DoFn):
    def __init__(
        self,
        config: BuildConfig,
        vocabulary: Vocabulary,
        fingerprint: str,
        text_readers: str | None,
    ):
        self._config = config
        self._vocabulary = vocabulary
        self._fingerprint = fingerprint
        self._text_readers = text_readers

    def process(
        self, element: tuple[int, Iterable[BlockInfo]], totals: ReadTotals
    ) -> Iterator[str]:
        manifest = make_manifest(
            list(element[1]),
            totals,
            config=self._config,
            vocabulary=self._vocabulary,
            fingerprint=self._fingerprint,
            text_readers=self._text_readers,
        )
        files = {
            "tokenizer.json": self._vocabulary.tokenizer_json,
            "vocab.txt": "".join(f"{token}\n" for token in self._vocabulary.tokens),
            "README.md": dataset_card(manifest),
            MANIFEST_FILE: manifest.to_json(),
        }
        sweep(self._config.output, complete=False)
        for name, text in files.items():
            with atomic_write(posixpath.join(self._config.output, name)) as file:
                file.write(text.encode())
        sweep(self._config.output, complete=True)
        yield manifest.fingerprint


class WriteManifest(beam.PTransform):
    """:class:`BlockInfo` elements in; the data set is complete when this is done.

    Args:
      config, vocabulary, fingerprint, text_readers: of the job.
      totals: a side input, the ``ReadTotals``.
    """

    def __init__(
        self,
        *,
        config: BuildConfig,
        vocabulary: Vocabulary,
        fingerprint: str,
        text_readers: str | None,
        totals: Any,
    ):
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.fingerprint = fingerprint
        self.text_readers = text_readers
        self.totals = totals

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        write = _WriteManifest(self.config, self.vocabulary, self.fingerprint, self.text_readers)
        return (
            blocks
            | "ForOne" >> beam.Map(lambda block: (0, block))
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(write, self.totals)
        )
