"""Lays out the rows of ``--exact_reference``, masks in place, in whatever order is asked for."""

from __future__ import annotations

from numba import njit

__all__ = ["lay_out_instances"]


@njit(cache=True, nogil=True)
def lay_out_instances(  # type: ignore[no-untyped-def]
    ids,
    instances,
    rows,
    positions,
    replacements,
    cls_id,
    sep_id,
    unk_id,
    input_ids,
    token_type_ids,
    offsets,
    row_positions,
    labels,
    prediction_offsets,
):
    """Writes ``[CLS] A [SEP] B [SEP]`` with its masks for each of ``rows``.

    Args:
      ids: the group's tokens.
      instances, positions, replacements: of :class:`Drawn`; ``rows``: int64[rows], which of the
        instances, in which order.
      input_ids, token_type_ids, row_positions, labels: filled, large enough; the labels are the
        ids before masking.
      offsets, prediction_offsets: int32[rows + 1], filled.

    Returns:
      How many of the tokens are ``unk_id`` before masking.
    """
    p = 0
    n = 0
    unknown = 0
    offsets[0] = 0
    prediction_offsets[0] = 0
    for r in range(len(rows)):
        instance = instances[rows[r]]
        b = p + 2 + instance.a_end - instance.a_start
        end = b + 1 + instance.b_end - instance.b_start
        input_ids[p] = cls_id
        input_ids[p + 1 : b - 1] = ids[instance.a_start : instance.a_end]
        input_ids[b - 1] = sep_id
        input_ids[b : end - 1] = ids[instance.b_start : instance.b_end]
        input_ids[end - 1] = sep_id
        token_type_ids[p:b] = 0
        token_type_ids[b:end] = 1
        for k in range(p, end):
            unknown += input_ids[k] == unk_id
        for k in range(instance.predictions):
            position = positions[instance.first_prediction + k]
            row_positions[n] = position
            labels[n] = input_ids[p + position]
            input_ids[p + position] = replacements[instance.first_prediction + k]
            n += 1
        p = end
        offsets[r + 1] = p
        prediction_offsets[r + 1] = n
    return unknown
