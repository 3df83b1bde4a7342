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
    "SPLIT_DOCUMENT_BATCH",
    "example_schema",
    "id_dtype",
    "id_type",
    "token_batch",
]

#: Bytes of a document's key (128-bit BLAKE2b of its canonical text).
KEY_BYTES = 16

#: The two values of ``next_sentence_label``; the reference's convention. For ``sop`` they are
#: "in order" and "swapped".
IS_NEXT = 0
NOT_NEXT = 1

#: After ReadDocuments. ``text`` is canonical (see ``transforms.canonical.canonical_text``) and not
#: empty; ``source`` is ``path@byte offset`` or ``path#id``; ``language`` is the record's own, or null.
DOCUMENT_BATCH = pa.schema(
    [
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("language", pa.string(), nullable=True),
    ]
)

#: The same where some documents bring their sentences along: stripped, none empty; null for the others.
SPLIT_DOCUMENT_BATCH = DOCUMENT_BATCH.append(
    pa.field("sentences", pa.list_(pa.large_string()), nullable=True)
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


def token_batch(vocab_size: int, *, word_marks: bool = False) -> pa.Schema:
    """After TokenizeSentences: the same documents; sentences without a token are left out.

    A document may have no sentence left; it stays, so that documents can be counted.

    Args:
      vocab_size: entries of the vocabulary; decides the type of ids.
      word_marks: add ``continues_word``, an item for each token of the document, over the ends of
        sentences: 1 where it is of the same word as the token before it. Without, the vocabulary's
        table says it.
    """
    fields = [
        pa.field("key", pa.binary(KEY_BYTES), nullable=False),
        pa.field("sentences", pa.list_(pa.list_(id_type(vocab_size))), nullable=False),
    ]
    if word_marks:
        fields.append(pa.field("continues_word", pa.list_(pa.uint8()), nullable=False))
    return pa.schema(fields)


def example_schema(
    vocab_size: int,
    *,
    provenance: bool,
    objective: str = "nsp",
    masking: str = "static",
    layout: str = "separate",
) -> pa.Schema:
    """The columns of a shard. Rows are unpadded.

    ============================  ========================================================
    ``input_ids``                 with the masks in place; the text's own ids with masking ``none``
                                  and in layout ``shared``
    ``token_type_ids``            not with objective ``mlm``
    ``continues_word``            masking ``none``: the token is of the same word as the one before it
    ``masked_lm_positions``       masking ``static``; in layout ``shared`` a list for each pass
    ``masked_lm_ids``             layout ``separate``: the ids that were there
    ``replacement_ids``           layout ``shared``: what stands there instead, for each pass
    ``next_sentence_label``       not with objective ``mlm``
    ``num_tokens``                length of the row
    ============================  ========================================================

    Args:
      vocab_size: entries of the vocabulary; decides the type of ids.
      provenance: add where the row comes from: document keys, first sentence, end sentence (exclusive),
        counted over the document's sentences that have at least one token. For A and B of a pair;
        for ``mlm`` lists with an item for each document in the row, in order. And the dupe pass,
        but for layout ``shared``.
      objective: nsp, sop or mlm.
      masking: static or none.
      layout: separate or shared.
    """
    ids = _list(id_type(vocab_size))
    positions = _list(pa.uint16())
    fields = [pa.field("input_ids", ids, nullable=False)]
    if objective != "mlm":
        fields.append(pa.field("token_type_ids", _list(pa.uint8()), nullable=False))
    if masking == "none":
        fields.append(pa.field("continues_word", _list(pa.bool_()), nullable=False))
    elif layout == "shared":
        fields.append(pa.field("masked_lm_positions", _list(positions), nullable=False))
        fields.append(pa.field("replacement_ids", _list(ids), nullable=False))
    else:
        fields.append(pa.field("masked_lm_positions", positions, nullable=False))
        fields.append(pa.field("masked_lm_ids", ids, nullable=False))
    if objective != "mlm":
        fields.append(pa.field("next_sentence_label", pa.uint8(), nullable=False))
    fields.append(pa.field("num_tokens", pa.uint16(), nullable=False))
    if provenance:
        fields += _provenance_fields(objective)
        if layout == "separate":
            fields.append(pa.field("dupe_pass", pa.uint16(), nullable=False))
    return pa.schema(fields)


def _list(item: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("item", item, nullable=False))


def _provenance_fields(objective: str) -> list[pa.Field]:
    columns = {
        "document": pa.binary(KEY_BYTES),
        "first_sentence": pa.uint32(),
        "end_sentence": pa.uint32(),
    }
    if objective == "mlm":
        return [pa.field(f"{name}s", _list(kind), nullable=False) for name, kind in columns.items()]
    return [
        pa.field(f"{side}_{name}", kind, nullable=False)
        for side in ("a", "b")
        for name, kind in columns.items()
    ]
