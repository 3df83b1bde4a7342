"""Arrow schemas of the batches between the stages, and of the examples that are written.

Every element of a PCollection between stages is one :class:`pyarrow.RecordBatch` with one of
these schemas: megabytes at a time, never a record at a time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

__all__ = [
    "DOCUMENT_BATCH",
    "IS_NEXT",
    "KEY_BYTES",
    "NOT_NEXT",
    "REJECT_BATCH",
    "SENTENCE_BATCH",
    "example_schema",
    "id_dtype",
    "id_type",
    "token_batch",
]

#: Bytes of a document's key (128-bit BLAKE2b of its canonical text).
KEY_BYTES = 16

#: The two values of ``next_sentence_label``; the reference's convention.
IS_NEXT = 0
NOT_NEXT = 1

#: After ReadDocuments. ``text`` is canonical (see ``transforms.documents.canonical_text``) and not
#: empty; ``source`` is ``path@byte offset`` or ``path#id``; ``language`` is the record's own, or null.
DOCUMENT_BATCH = pa.schema(
    [
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("language", pa.string(), nullable=True),
    ]
)

#: After SplitSentences: the same documents in the same order.
SENTENCE_BATCH = pa.schema(
    [
        pa.field("key", pa.binary(KEY_BYTES), nullable=False),
        pa.field("sentences", pa.list_(pa.large_string()), nullable=False),
    ]
)

#: Refused records, beside the documents.
REJECT_BATCH = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("excerpt", pa.string(), nullable=False),
    ]
)


def id_type(vocab_size: int) -> pa.DataType:
    """The narrowest type of token ids: ``uint16`` up to 65,536 entries, else ``uint32``."""
    return pa.uint16() if vocab_size <= 1 << 16 else pa.uint32()


def id_dtype(vocab_size: int) -> np.dtype:
    """:func:`id_type` in numpy's terms (Arrow's own translation needs pandas)."""
    return np.dtype(str(id_type(vocab_size)))


def token_batch(vocab_size: int) -> pa.Schema:
    """After TokenizeSentences: the same documents; sentences without a token are left out.

    A document may have no sentence left; it stays, so that documents can be counted.
    """
    return pa.schema(
        [
            pa.field("key", pa.binary(KEY_BYTES), nullable=False),
            pa.field("sentences", pa.list_(pa.list_(id_type(vocab_size))), nullable=False),
        ]
    )


def example_schema(vocab_size: int, *, provenance: bool) -> pa.Schema:
    """The columns of a shard. Rows are unpadded.

    Args:
      vocab_size: entries of the vocabulary; decides the type of ids.
      provenance: add where A and B come from: document key, first sentence, end sentence
        (exclusive), counted over the document's sentences that have at least one token.
    """
    ids = pa.list_(pa.field("item", id_type(vocab_size), nullable=False))
    fields = [
        pa.field("input_ids", ids, nullable=False),
        pa.field(
            "token_type_ids", pa.list_(pa.field("item", pa.uint8(), nullable=False)), nullable=False
        ),
        pa.field(
            "masked_lm_positions",
            pa.list_(pa.field("item", pa.uint16(), nullable=False)),
            nullable=False,
        ),
        pa.field("masked_lm_ids", ids, nullable=False),
        pa.field("next_sentence_label", pa.uint8(), nullable=False),
        pa.field("num_tokens", pa.uint16(), nullable=False),
    ]
    if provenance:
        for side in ("a", "b"):
            fields += [
                pa.field(f"{side}_document", pa.binary(KEY_BYTES), nullable=False),
                pa.field(f"{side}_first_sentence", pa.uint32(), nullable=False),
                pa.field(f"{side}_end_sentence", pa.uint32(), nullable=False),
            ]
        fields.append(pa.field("dupe_pass", pa.uint16(), nullable=False))
    return pa.schema(fields)
