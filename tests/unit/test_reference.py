"""The compiled draws against the script's algorithm in plain Python, over random small corpora."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.reference import ReferenceOptions, draw_instances
from transforms.reference_masking import DrawnCounts
from transforms.reference_rows import lay_out_instances

#: [PAD] [UNK] [CLS] [SEP] [MASK] are 0 to 4; every third entry from 20 on continues a word.
VOCAB_SIZE = 60
UNK, CLS, SEP, MASK = 1, 2, 3, 4
IS_SUBWORD = np.array([i >= 20 and i % 3 == 0 for i in range(VOCAB_SIZE)])


def plain(documents: list[list[list[int]]], options: ReferenceOptions) -> list[list]:
    """All instances in the order in which the script writes them."""
    rng = random.Random(options.random_seed)
    documents = list(documents)
    rng.shuffle(documents)
    instances = []
    for _ in range(options.dupe_factor):
        for index in range(len(documents)):
            instances += _of_document(rng, documents, index, options)
    rng.shuffle(instances)
    return instances


def _of_document(rng, documents, index, options):
    document, longest, instances = documents[index], options.max_seq_length - 3, []
    target = longest
    if rng.random() < options.short_seq_prob:
        target = rng.randint(2, longest)
    chunk: list[list[int]] = []
    i = 0
    while i < len(document):
        chunk.append(document[i])
        if i == len(document) - 1 or sum(map(len, chunk)) >= target:
            a_end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            a = [token for sentence in chunk[:a_end] for token in sentence]
            b: list[int] = []
            if not_next := (len(chunk) == 1 or rng.random() < 0.5):
                wanted = target - len(a)
                for _ in range(10):
                    other = rng.randint(0, len(documents) - 1)
                    if other != index:
                        break
                start = rng.randint(0, len(documents[other]) - 1)
                for sentence in documents[other][start:]:
                    b += sentence
                    if len(b) >= wanted:
                        break
                i -= len(chunk) - a_end
            else:
                b = [token for sentence in chunk[a_end:] for token in sentence]
            while len(a) + len(b) > longest:
                victim = a if len(a) > len(b) else b
                del victim[0 if rng.random() < 0.5 else -1]
            row = [CLS, *a, SEP, *b, SEP]
            instances.append([*_masked(rng, row, options), len(a) + 2, int(not_next)])
            chunk = []
        i += 1
    return instances


def _masked(rng, row, options):
    words: list[list[int]] = []
    for position, token in enumerate(row):
        if token in (CLS, SEP):
            continue
        if options.do_whole_word_mask and words and IS_SUBWORD[token]:
            words[-1].append(position)
        else:
            words.append([position])
    rng.shuffle(words)
    wanted = max(1, round(len(row) * options.masked_lm_prob))
    wanted = min(options.max_predictions_per_seq, wanted)
    changed = list(row)
    labels: dict[int, int] = {}
    for word in words:
        if len(labels) >= wanted:
            break
        if len(labels) + len(word) > wanted:
            continue
        for position in word:
            labels[position] = row[position]
            if rng.random() < 0.8:
                changed[position] = MASK
            elif rng.random() >= 0.5:
                changed[position] = rng.randint(0, VOCAB_SIZE - 1)
    return [changed, sorted(labels), [labels[position] for position in sorted(labels)]]


def compiled(documents, options, *, dtype=np.uint16):
    sentences = [sentence for document in documents for sentence in document]
    ids = np.array([token for sentence in sentences for token in sentence], dtype)
    drawn = draw_instances(
        ids,
        np.cumsum([0, *map(len, sentences)]),
        np.cumsum([0, *map(len, documents)]),
        options,
        is_subword=IS_SUBWORD,
        vocab_words=np.arange(VOCAB_SIZE).astype(dtype),
        mask_id=MASK,
    )
    count = len(drawn.order)
    room = count * options.max_seq_length
    input_ids, labels = np.empty(room, dtype), np.empty(room, dtype)
    types, positions = np.empty(room, np.uint8), np.empty(room, np.uint16)
    ends, masks = np.empty(count + 1, np.int32), np.empty(count + 1, np.int32)
    lay_out_instances(
        *(ids, drawn.instances, drawn.order, drawn.positions, drawn.replacements),
        *(CLS, SEP, UNK, input_ids, types, ends, positions, labels, masks),
    )
    rows = []
    for r in range(count):
        row, of_row = slice(ends[r], ends[r + 1]), slice(masks[r], masks[r + 1])
        first_b = types[row].tolist().index(1)
        label = int(drawn.instances["label"][drawn.order[r]])
        found = (input_ids[row], positions[of_row], labels[of_row])
        rows.append([*(array.tolist() for array in found), first_b, label])
    return rows, drawn


OPTIONS = ReferenceOptions(
    max_seq_length=128,
    max_predictions_per_seq=20,
    masked_lm_prob=0.15,
    short_seq_prob=0.1,
    dupe_factor=2,
    random_seed=1,
    do_whole_word_mask=False,
)

corpora = st.lists(
    st.lists(
        st.lists(st.integers(10, VOCAB_SIZE - 1), min_size=1, max_size=15), min_size=1, max_size=8
    ),
    min_size=1,
    max_size=6,
)
option_sets = st.builds(
    ReferenceOptions,
    max_seq_length=st.sampled_from([8, 11, 32, 128]),
    max_predictions_per_seq=st.sampled_from([1, 3, 20]),
    masked_lm_prob=st.sampled_from([0.01, 0.15, 0.25, 0.5]),
    short_seq_prob=st.sampled_from([0.0, 0.1, 1.0]),
    dupe_factor=st.integers(1, 3),
    random_seed=st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1)),
    do_whole_word_mask=st.booleans(),
)


@given(corpora, option_sets)
@settings(max_examples=600, deadline=None)
def test_every_draw_is_the_scripts(documents, options):
    rows, drawn = compiled(documents, options)
    assert rows == plain(documents, options)
    assert drawn.counts[DrawnCounts.NOT_NEXT] == sum(row[-1] for row in rows)
    # Everything the instances say of where they are from is of their own documents.
    for side in "ab":
        of = np.array(drawn.instances[f"{side}_document"])
        assert ((of >= 0) & (of < len(documents))).all()


def test_no_documents_make_no_instances():
    rows, drawn = compiled([], OPTIONS)
    assert rows == []
    assert not drawn.counts.any()


def test_ids_of_large_vocabularies_make_the_same_draws():
    rng = random.Random(1)
    documents = [
        [[rng.randint(10, VOCAB_SIZE - 1) for _ in range(rng.randint(1, 30))] for _ in range(20)]
        for _ in range(30)
    ]
    options = dataclasses.replace(OPTIONS, do_whole_word_mask=True)
    rows, _ = compiled(documents, options, dtype=np.uint32)
    assert rows == compiled(documents, options)[0] == plain(documents, options)
    assert len(rows) > 100
