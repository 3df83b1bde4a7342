"""Rows of data sets as text: read by number, with the fate of each token, and where they are from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow.parquet as pq
from tokenizers import Tokenizer

from schemas.manifest import TokenizerInfo
from transforms.word_marks import WordMarks, find_word_marks

__all__ = [
    "Piece",
    "as_plain",
    "as_static",
    "pieces_of",
    "provenance_lines",
    "read_rows",
    "segment_lines",
]


@dataclass(frozen=True)
class Piece:
    """A token as it is shown.

    Attributes:
      token: what the row has, without the mark of a word's first piece (``▁``, ``Ġ``), and without
        the prefix of its later pieces (``##``) if it is ``joined`` and as it was.
      segment: 0 for A, 1 for B.
      original: what is to be predicted here, with its prefix if it has one, or None.
      fate: ``special``, ``plain``, ``mask``, ``random`` or ``kept``.
      joined: it goes on the word before it, without a space.
    """

    token: str
    segment: int
    original: str | None
    fate: str
    joined: bool


def as_static(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of any kind of row as those of one pair with its masks in place.

    Of layout ``shared`` it is the first pass; a row without pairs is all A, one without masks has
    nothing to predict. Of lists that do not fit each other, as much is taken as fits.
    """
    ids = list(columns["input_ids"])
    positions = columns.get("masked_lm_positions", [])
    originals = columns.get("masked_lm_ids", [])
    if "replacement_ids" in columns:
        positions, replaced = ((columns[name] or [[]])[0] for name in _SHARED)
        originals = [ids[p] if p < len(ids) else 0 for p in positions]
        for p, token_id in zip(positions, replaced, strict=False):
            if p < len(ids):
                ids[p] = token_id
    types = [int(bool(t)) for t in columns.get("token_type_ids", [])[: len(ids)]]
    size = min(len(positions), len(originals))
    return columns | {
        "input_ids": ids,
        "token_type_ids": types + [0] * (len(ids) - len(types)),
        "masked_lm_positions": positions[:size],
        "masked_lm_ids": originals[:size],
    }


_SHARED = ("masked_lm_positions", "replacement_ids")


def pieces_of(
    columns: dict[str, Any], *, tokenizer: Tokenizer, about: TokenizerInfo
) -> list[Piece]:
    """The tokens of a row; ids that the tokenizer does not have are shown as ``<id>``."""
    originals = dict(zip(columns["masked_lm_positions"], columns["masked_lm_ids"], strict=True))
    special = {about.pad_id, about.unk_id, about.cls_id, about.sep_id, about.mask_id}
    marks = find_word_marks(tokenizer)
    found: list[Piece] = []
    for position, token_id in enumerate(columns["input_ids"]):
        original_id = originals.get(position)
        if original_id is None:
            fate = "special" if token_id in special else "plain"
        elif token_id == original_id:
            fate = "kept"
        else:
            fate = "mask" if token_id == about.mask_id else "random"
        there = token_id if original_id is None else original_id
        joined = (
            there not in special
            and marks.continues(tokenizer.id_to_token(there) or "")
            and position > 0
            and found[-1].fate != "special"
        )
        token = _token(tokenizer, token_id, marks, unmarked=joined and fate in ("plain", "kept"))
        if fate == "plain" and token == marks.mark and marks.marks_first:
            token = ""  # the space before what follows
        original = None if original_id is None else _token(tokenizer, original_id, marks)
        segment = columns["token_type_ids"][position]
        found.append(Piece(token, segment, original, fate, joined))
    return found


def _token(tokenizer: Tokenizer, token_id: int, marks: WordMarks, *, unmarked: bool = False) -> str:
    """A token to look at; ``unmarked`` takes ``##`` off, other marks always go."""
    token: str | None = tokenizer.id_to_token(token_id)
    if token is None:
        return f"<{token_id}>"
    if unmarked or marks.marks_first:
        text = marks.text(token)
        token = text.removeprefix(" ") or token
    return token if token.isprintable() else ascii(token)[1:-1]


def as_plain(piece: Piece) -> str:
    """A token without colour: ``[MASK:original]``, ``{random→original}``, ``word(kept)``."""
    if piece.fate == "mask":
        return f"[MASK:{piece.original}]"
    if piece.fate == "random":
        return f"{{{piece.token}→{piece.original}}}"
    return f"{piece.token}(kept)" if piece.fate == "kept" else piece.token


def segment_lines(pieces: Sequence[Piece]) -> Iterator[str]:
    """A row as running text without colour, a line for each segment."""
    line = ""
    for i, piece in enumerate(pieces):
        if i and piece.segment != pieces[i - 1].segment:
            yield line
            line = ""
        line += ("" if piece.joined or not line else " ") + as_plain(piece)
    yield line


def provenance_lines(columns: dict[str, Any]) -> Iterator[str]:
    """Where a row is from, a line for each document, as far as its columns say it."""
    for side in ("a", "b"):
        if f"{side}_document" in columns:
            first, end = columns[f"{side}_first_sentence"], columns[f"{side}_end_sentence"]
            key = columns[f"{side}_document"].hex()
            yield f"{side.upper()} from document {key}, sentences {first} to {end} (excluded)"
    names = ("documents", "first_sentences", "end_sentences")
    for key, first, end in zip(*(columns.get(name, []) for name in names), strict=False):
        yield f"from document {key.hex()}, sentences {first} to {end} (excluded)"
    if "dupe_pass" in columns:
        yield f"pass {columns['dupe_pass']}"


def read_rows(file: BinaryIO, rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of these numbers of a shard, ascending, with their columns; a row group at a time."""
    # Without Arrow's threads: one that still holds the file when Python ends aborts the process.
    parquet = pq.ParquetFile(file, pre_buffer=False)
    first = 0
    for group in range(parquet.metadata.num_row_groups):
        end = first + parquet.metadata.row_group(group).num_rows
        if wanted := [row for row in rows if first <= row < end]:
            table = parquet.read_row_group(group, use_threads=False)
            for row in wanted:
                yield row, table.slice(row - first, 1).to_pylist()[0]
        first = end
