"""GroupIntoBlocks: every document in the block of its text, in both implementations."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that

import transforms.coders
from schemas.arrow import token_batch
from schemas.errors import BuildError
from tests.unit.blocks_of_tokens import VOCAB_SIZE, batch_of, key_of, random_documents
from transforms import blocks
from transforms.blocks import BlockLayout, GroupIntoBlocks, SpilledRange, assign_blocks, spill


@pytest.fixture(scope="module")
def documents():
    return [*random_documents(np.random.default_rng(1), count=300, sentences=5), []]


def test_a_block_depends_on_the_seed_and_the_text_alone(documents):
    layout = BlockLayout(random_seed=1, num_shards=7)
    keys = batch_of(documents).column("key")
    whole = assign_blocks(keys, layout)
    assert (assign_blocks(keys.slice(100, 50), layout) == whole[100:150]).all()
    assert set(whole) == set(range(7))
    assert np.bincount(whole).min() > 20
    assert (assign_blocks(keys, BlockLayout(random_seed=2, num_shards=7)) != whole).mean() > 0.7


def test_validation_is_a_share_of_the_documents():
    keys = pa.array([i.to_bytes(16, "little") for i in range(20_000)], pa.binary(16))
    train = BlockLayout(random_seed=1, num_shards=8)
    both = BlockLayout(
        random_seed=1, num_shards=8, num_validation_shards=3, validation_fraction=0.1
    )
    placed = assign_blocks(keys, both)
    held_out = placed >= 8
    assert abs(held_out.mean() - 0.1) < 4 * (0.1 * 0.9 / 20_000) ** 0.5
    assert set(placed[held_out]) == {8, 9, 10}
    # What stays in train stays in its block.
    assert (placed[~held_out] == assign_blocks(keys, train)[~held_out]).all()
    assert both.split_of(7) == ("train", 7, 8)
    assert both.split_of(9) == ("validation", 1, 3)


@pytest.mark.parametrize("with_files", [False, True])
def test_every_document_is_in_its_block_and_every_block_is_there(documents, with_files, tmp_path):
    layout = BlockLayout(random_seed=3, num_shards=40)
    few = documents[:30]
    keys = [key_of(d) for d in few]
    placed = assign_blocks(pa.array(keys, pa.binary(16)), layout)
    expected = {
        block: sorted((keys[i], few[i]) for i in np.flatnonzero(placed == block))
        for block in range(40)
    }
    assert any(not value for value in expected.values())

    def check(found):
        assert {block: sorted(value) for block, value in found} == expected

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        grouped = (
            pipeline
            | beam.Create([0, 10, 20])
            | beam.Map(lambda start: batch_of(few[start : start + 10])).with_output_types(
                pa.RecordBatch
            )
            | GroupIntoBlocks(
                layout, vocab_size=VOCAB_SIZE, spill_dir=str(tmp_path) if with_files else None
            )
            | beam.MapTuple(
                lambda block, batches: (
                    block,
                    [
                        (row["key"], row["sentences"])
                        for batch in batches
                        for row in batch.to_pylist()
                    ],
                )
            )
        )
        assert_that(grouped, check)
    assert bool(list(tmp_path.iterdir())) == with_files


def test_spilling_holds_a_bounded_number_of_tokens(documents, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "SPILL_BYTES", 10_000)
    layout = BlockLayout(random_seed=3, num_shards=4)
    step = blocks._SpillByBlock(layout, str(tmp_path))
    step.setup()
    step.start_bundle()
    parts = [batch_of(documents[i : i + 20]) for i in range(0, len(documents), 20)]
    out: list = []
    for part in parts:
        out += step.process(part)
        assert sum(b.nbytes for b in step._waiting) < 10_000
    out += [element.value for element in step.finish_bundle()]
    assert len({r.path for _, r in out}) > 3
    rows = [row for _, r in out for row in r.read().to_pylist()]
    assert sorted(row["key"] for row in rows) == sorted(key_of(d) for d in documents)


def with_marks(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same documents, each with marks by which it can be told."""
    marks = [[i % 2 for i in range(sum(map(len, sentences)))] for sentences in batch[1].to_pylist()]
    schema = token_batch(VOCAB_SIZE, word_marks=True)
    return pa.record_batch([*batch.columns, pa.array(marks, schema.field(2).type)], schema=schema)


@pytest.mark.parametrize("with_files", [False, True])
def test_marks_of_words_travel_with_their_documents(documents, with_files, tmp_path):
    layout = BlockLayout(random_seed=3, num_shards=40)
    schema = token_batch(VOCAB_SIZE, word_marks=True)
    few = with_marks(batch_of(documents[:30]))
    expected = sorted(few.to_pylist(), key=lambda row: row["key"])

    def check(found):
        assert len(found) == 40
        batches = [batch for _, of_block in found for batch in of_block]
        assert all(batch.schema == schema for batch in batches)
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert sorted(rows, key=lambda row: row["key"]) == expected

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        grouped = (
            pipeline
            | beam.Create([0, 10, 20])
            | beam.Map(lambda start: few.slice(start, 10)).with_output_types(pa.RecordBatch)
            | GroupIntoBlocks(
                layout,
                vocab_size=VOCAB_SIZE,
                word_marks=True,
                spill_dir=str(tmp_path) if with_files else None,
            )
            | beam.MapTuple(lambda block, batches: (block, list(batches)))
        )
        assert_that(grouped, check)


def test_a_spilled_range_is_read_by_itself(documents, tmp_path):
    layout = BlockLayout(random_seed=3, num_shards=5)
    ranges = spill([batch_of(documents), batch_of(documents[:7])], layout, str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
    assert [block for block, _ in ranges] == [0, 1, 2, 3, 4]
    total = 0
    for block, spilled in ranges:
        batch = spilled.read()
        assert batch.schema == token_batch(VOCAB_SIZE)
        assert (assign_blocks(batch.column("key"), layout) == block).all()
        total += batch.num_rows
    assert total == len(documents) + 7


def test_a_lost_spill_file_is_named(tmp_path):
    gone = str(tmp_path / "x.arrow")
    with pytest.raises(BuildError, match=r"x\.arrow: the spill file is gone"):
        SpilledRange(gone, 0, 10).read()


@pytest.mark.parametrize("marked", [False, True])
def test_shuffled_elements_are_small(marked):
    documents = random_documents(np.random.default_rng(2), count=400, sentences=200)
    batch = with_marks(batch_of(documents)) if marked else batch_of(documents)
    assert batch.nbytes > 1.5 * blocks.SHUFFLE_ELEMENT_BYTES
    layout = BlockLayout(random_seed=3, num_shards=1)
    pieces = list(blocks._SplitForShuffle(layout).process(batch))
    # A coder writes a slice's own rows only; that is what counts.
    coder = transforms.coders.ArrowBatchCoder()
    sizes = [len(coder.encode(piece)) for _, piece in pieces]
    assert max(sizes) < 1.01 * blocks.SHUFFLE_ELEMENT_BYTES
    assert min(sizes[:-1]) > 0.9 * blocks.SHUFFLE_ELEMENT_BYTES
    keys = [key for _, piece in pieces for key in piece.column("key").to_pylist()]
    assert keys == batch.column("key").to_pylist()


def test_a_document_larger_than_an_element_travels_alone():
    large = [[7] * 1000] * 600
    documents = [[[8, 9]], large, [[8, 10]], [[8, 11]]]
    layout = BlockLayout(random_seed=3, num_shards=1)
    pieces = list(blocks._SplitForShuffle(layout).process(batch_of(documents)))
    assert [piece.num_rows for _, piece in pieces] == [1, 1, 2]
