"""Proves a data set against its corpus as the ``tokenizers`` library alone tokenizes it.

``bert-data check`` finds the tokens as a build does, by the word cache. Here every sentence is given to
the library, so that nothing of the two is the same but where sentences end.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from pipeline.check_data_sets import list_shards
from pipeline.check_manifest import check_tokenizer
from pipeline.check_setup import rules_of
from schemas.arrow import token_batch
from schemas.manifest import load_manifest
from transforms.audit import audit_block
from transforms.audit_counts import Counted
from transforms.audit_reports import AuditSettings
from transforms.blocks import BlockLayout, split_by_block
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import read_task
from transforms.sentences import split_batch
from transforms.vocabulary import Vocabulary


def library_batches(
    inputs: Sequence[str], vocabulary: Vocabulary, *, sentence_splitter: str
) -> Iterator[pa.RecordBatch]:
    """Token batches of the input."""
    tokenizer = vocabulary.tokenizer()
    schema = token_batch(vocabulary.vocab_size)
    for task in plan_reads(list_inputs(inputs, format="auto"), num_stripes=1, range_bytes=None):
        for kind, batch in read_task(task):
            if kind == "rejects":
                continue
            split = split_batch(batch, language="en", sentence_splitter=sentence_splitter)
            documents = []
            for sentences in split.column("sentences").to_pylist():
                encoded = tokenizer.encode_batch_fast(sentences, add_special_tokens=False)
                documents.append([e.ids for e in encoded if e.ids])
            yield pa.record_batch(
                [split.column("key"), pa.array(documents, schema.field("sentences").type)],
                schema=schema,
            )


def prove(directory: Path, inputs: Sequence[str]) -> Counter[str]:
    """Asserts that every row is what its provenance says; returns what was counted."""
    manifest = load_manifest(directory)
    config = manifest.configuration
    vocabulary, wrong = check_tokenizer(str(directory), manifest)
    assert vocabulary is not None, wrong
    tasks = list_shards(manifest)
    validation = max((len(d.shards) for d in manifest.data_sets if d.split != "train"), default=0)
    layout = BlockLayout(
        random_seed=manifest.random_seed,
        num_shards=config["num_shards"],
        num_validation_shards=validation,
        validation_fraction=config["validation_fraction"],
    )
    blocks: dict[int, list[pa.RecordBatch]] = {}
    splitter = config["sentence_splitter"]
    for batch in library_batches(inputs, vocabulary, sentence_splitter=splitter):
        for block, part in split_by_block(pa.Table.from_batches([batch]), layout):
            blocks.setdefault(block, []).append(part)
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        settings = AuditSettings(
            str(directory), rules_of(manifest, vocabulary), scratch, show=3, layout=layout
        )
        for block in range(layout.num_blocks):
            own = [task for task in tasks if task.block == block]
            report = audit_block(own, blocks.pop(block, []), settings)
            seen.update(report.counts)
            for shard in report.shards:
                assert not shard.broken, shard.violations
                seen["rows"] += int(shard.counts[Counted.ROWS])
    assert not blocks
    counts = manifest.counts
    assert seen["rows"] == counts.examples
    for name in ("documents", "sentences", "tokens", "unknown_tokens", "duplicate_documents"):
        assert seen[name] == getattr(counts, name), name
    return seen
