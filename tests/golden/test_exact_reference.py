"""Instance for instance, in order, what the reference's script wrote for the same files and seed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from transforms.reference import Drawn, ReferenceOptions, draw_instances
from transforms.reference_documents import ReferenceDocuments, read_group
from transforms.reference_rows import lay_out_instances
from transforms.reference_tokenizer import ReferenceEncoder, reference_vocabulary, vocab_words
from transforms.vocabulary import Vocabulary, load_tokenizer

HERE = Path(__file__).parent / "reference"
DATA = Path(__file__).parents[1] / "data"
GOLDENS = sorted(path.name.removesuffix(".jsonl.gz") for path in HERE.glob("*.jsonl.gz"))
SHARED_GOLDENS = (
    "bert-sample-text",
    "default-smallvocab",
    "default-uncased",
    "long512-cased",
    "one-document-smallvocab",
    "short64-smallvocab",
    "two-files-smallvocab",
    "wwm-smallvocab",
    "wwm-uncased",
)


def read_golden(path: Path) -> tuple[dict, list[list]]:
    with gzip.open(path, "rt") as file:
        settings = json.loads(file.readline())
        return settings, [json.loads(line) for line in file]


def find(name: str, *folders: Path) -> Path:
    return next(folder / name for folder in folders if (folder / name).exists())


def draw(settings: dict, *folders: Path) -> tuple[ReferenceDocuments, Vocabulary, Drawn]:
    vocabulary = reference_vocabulary(
        load_tokenizer(
            str(find(settings["vocab"], *folders)), do_lower_case=settings["do_lower_case"]
        )
    )
    files = [(str(find(name, *folders)), "none") for name in settings["inputs"]]
    documents = read_group(files, ReferenceEncoder(vocabulary))
    names = ReferenceOptions.__dataclass_fields__
    drawn = draw_instances(
        documents.ids,
        documents.sentence_offsets,
        documents.document_offsets,
        ReferenceOptions(**{name: settings[name] for name in names}),
        is_subword=vocabulary.is_subword,
        vocab_words=vocab_words(vocabulary),
        mask_id=vocabulary.mask_id,
    )
    return documents, vocabulary, drawn


def rows(
    documents: ReferenceDocuments, vocabulary: Vocabulary, drawn: Drawn, max_seq_length: int
) -> Iterator[list]:
    count = len(drawn.order)
    room = count * max_seq_length
    ids, types = np.empty(room, documents.ids.dtype), np.empty(room, np.uint8)
    positions, labels = np.empty(room, np.uint16), np.empty(room, documents.ids.dtype)
    offsets, predictions = np.empty(count + 1, np.int32), np.empty(count + 1, np.int32)
    lay_out_instances(
        documents.ids,
        drawn.instances,
        drawn.order,
        drawn.positions,
        drawn.replacements,
        vocabulary.cls_id,
        vocabulary.sep_id,
        vocabulary.unk_id,
        ids,
        types,
        offsets,
        positions,
        labels,
        predictions,
    )
    for r in range(count):
        row = slice(offsets[r], offsets[r + 1])
        masked = slice(predictions[r], predictions[r + 1])
        yield [
            ids[row].tolist(),
            types[row].tolist().index(1),
            positions[masked].tolist(),
            labels[masked].tolist(),
            int(drawn.instances["label"][drawn.order[r]]),
        ]


def check(path: Path, *folders: Path) -> None:
    settings, golden = read_golden(path)
    documents, vocabulary, drawn = draw(settings, *folders)
    assert list(rows(documents, vocabulary, drawn, settings["max_seq_length"])) == golden
    assert len(golden) == settings["instances"]


@pytest.mark.parametrize("name", GOLDENS)
def test_every_instance_in_order(name):
    assert len(GOLDENS) == 5
    check(HERE / f"{name}.jsonl.gz", HERE, DATA)


@pytest.mark.parametrize("name", SHARED_GOLDENS)
def test_every_instance_in_order_with_real_vocabularies(shared, name):
    golden, data = shared / "golden", shared / "data"
    folders = (shared / "sample", golden, data / "vocab", data / "corpora")
    check(golden / f"{name}.jsonl.gz", *folders)


def test_the_counts_are_those_of_the_rows():
    settings, golden = read_golden(HERE / "wwm-smallvocab.jsonl.gz")
    _, vocabulary, drawn = draw(settings, HERE, DATA)
    now = np.concatenate([np.array(ids)[positions] for ids, _, positions, _, _ in golden])
    before = np.concatenate([labels for _, _, _, labels, _ in golden])
    not_next, single, own, across, masked, random, kept = drawn.counts
    assert not_next == sum(row[4] for row in golden)
    assert 0 < single < not_next
    assert own == 0
    assert masked + random + kept == len(now)
    # A random replacement may be [MASK] or what was there: that is rare.
    assert 0 <= np.count_nonzero(now == vocabulary.mask_id) - masked <= 3
    assert 0 <= np.count_nonzero(now == before) - kept <= 3
    glued = sum(
        bool({first - 2, first} <= set(positions))
        and bool(vocabulary.is_subword[labels[positions.index(first)]])
        for _, first, positions, labels, _ in golden
    )
    assert across == glued > 0


def test_one_document_gives_not_next_from_itself():
    settings, golden = read_golden(HERE / "one-document-smallvocab.jsonl.gz")
    _, _, drawn = draw(settings, HERE, DATA)
    not_next, _, own, *_ = drawn.counts
    assert not_next == own == sum(row[4] for row in golden) > 0
    assert (drawn.instances["b_document"] == 0).all()


def test_an_instance_says_where_its_segments_are_from():
    settings, _ = read_golden(HERE / "short64-smallvocab.jsonl.gz")
    documents, _, drawn = draw(settings, HERE, DATA)
    assert set(drawn.instances["dupe_pass"].tolist()) == {0, 1, 2}
    for side in "ab":
        of = drawn.instances[f"{side}_document"]
        first = drawn.instances[f"{side}_first_sentence"]
        end = drawn.instances[f"{side}_end_sentence"]
        assert (documents.document_offsets[of] <= first).all()
        assert (first < end).all()
        assert (end <= documents.document_offsets[of + 1]).all()
        assert (drawn.instances[f"{side}_start"] >= documents.sentence_offsets[first]).all()
        assert (drawn.instances[f"{side}_end"] <= documents.sentence_offsets[end]).all()
    next_ = drawn.instances["label"] == 0
    same = drawn.instances["a_document"] == drawn.instances["b_document"]
    assert (same == next_).all()
