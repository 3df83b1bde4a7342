"""``bert-data show``: examples of a data set as text, to look at.

Reads by the manifest, one row group at a time, without Beam.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, BinaryIO

import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text
from tokenizers import Tokenizer

from schemas.arrow import NOT_NEXT
from schemas.errors import ConfigError
from schemas.manifest import (
    DataSet,
    Manifest,
    ManifestError,
    TokenizerInfo,
    load_manifest,
    open_file,
    open_shards,
)

__all__ = ["Example", "Piece", "pieces_of", "show", "sparse_rows"]

_SEGMENT_STYLES = ("cyan", "yellow")
_LEGEND_COLOUR = (
    ("A", "cyan"),
    ("B", "yellow"),
    ("[MASK]→original", "bold magenta"),
    ("random→original", "bold red"),
    ("kept", "underline"),
)
_LEGEND_PLAIN = "[MASK:original]  {random→original}  word(kept)"


@dataclass(frozen=True)
class Piece:
    """A token as it is shown.

    Attributes:
      token: what the row has, without the prefix of a word's later pieces if it is ``joined``
        and as it was.
      segment: 0 for A, 1 for B.
      original: what is to be predicted here, with its prefix, or None.
      fate: ``special``, ``plain``, ``mask``, ``random`` or ``kept``.
      joined: it goes on the word before it, without a space.
    """

    token: str
    segment: int
    original: str | None
    fate: str
    joined: bool


@dataclass(frozen=True)
class Example:
    """A row and where it is."""

    shard: str
    row: int
    columns: dict[str, Any]


def show(
    directory: str,
    *,
    n: int = 5,
    split: str = "train",
    max_seq_length: int | None = None,
    start: int = 0,
    console: Console | None = None,
) -> None:
    """Print ``n`` examples, spread evenly over the rows of one data set.

    Args:
      directory: with a ``manifest.json``.
      n: how many; all when there are fewer.
      split: ``train`` or ``validation``.
      max_seq_length: None for the shortest there is.
      start: rows to move on by; the same numbers show the same rows every time.
      console: where to; colour only where it is a terminal and NO_COLOR is not set.

    Raises:
      ConfigError: nothing to show: no finished data set, no such length or split, a bad number.
    """
    if n < 1:
        raise ConfigError("n", n, "must be a whole number, at least 1")
    if start < 0:
        raise ConfigError("start", start, "must be a whole number, at least 0")
    manifest = load_manifest(directory)
    data_set = _choose(manifest, split=split, max_seq_length=max_seq_length)
    paths = open_shards(manifest, directory, name=data_set.name, split=split)
    tokenizer = _read_tokenizer(posixpath.join(directory, manifest.tokenizer.file))
    console = console or Console(highlight=False)
    colour = console.is_terminal and not console.no_color
    rows = sparse_rows(data_set.examples, n=n, start=start)
    _print(console, _header(data_set, shown=len(rows)))
    if rows:
        _print(console, _legend(colour))
    for example in _read(rows, paths, data_set):
        _print(console, Text())
        _print(console, _title(example))
        pieces = pieces_of(example.columns, tokenizer=tokenizer, about=manifest.tokenizer)
        console.print(_render(pieces, colour=colour))
        for line in _provenance(example.columns):
            _print(console, Text(line, style="dim" if colour else ""))


def sparse_rows(total: int, *, n: int, start: int) -> list[int]:
    """``n`` different row numbers below ``total``, evenly apart, from ``start`` on, in order."""
    n = min(n, total)
    return sorted((start + i * total // n) % total for i in range(n))


def pieces_of(
    columns: dict[str, Any], *, tokenizer: Tokenizer, about: TokenizerInfo
) -> list[Piece]:
    """The tokens of a row; ids that the tokenizer does not have are shown as ``<id>``."""
    originals = dict(zip(columns["masked_lm_positions"], columns["masked_lm_ids"], strict=True))
    special = {about.pad_id, about.unk_id, about.cls_id, about.sep_id, about.mask_id}
    prefix = getattr(tokenizer.model, "continuing_subword_prefix", None) or "##"
    found: list[Piece] = []
    for position, token_id in enumerate(columns["input_ids"]):
        original_id = originals.get(position)
        if original_id is None:
            fate = "special" if token_id in special else "plain"
        elif token_id == original_id:
            fate = "kept"
        else:
            fate = "mask" if token_id == about.mask_id else "random"
        token = _token(tokenizer, token_id)
        original = None if original_id is None else _token(tokenizer, original_id)
        joined = (
            (original or token).startswith(prefix) and position > 0 and found[-1].fate != "special"
        )
        if joined and fate in ("plain", "kept"):
            token = token.removeprefix(prefix)
        segment = columns["token_type_ids"][position]
        found.append(Piece(token, segment, original, fate, joined))
    return found


def _read_tokenizer(path: str) -> Tokenizer:
    try:
        with open_file(path) as file:
            return Tokenizer.from_buffer(file.read())
    except (OSError, ValueError) as error:
        raise ManifestError(
            path, f"cannot be read as a tokenizer ({error}); copy it again"
        ) from None


def _token(tokenizer: Tokenizer, token_id: int) -> str:
    token: str | None = tokenizer.id_to_token(token_id)
    if token is None:
        return f"<{token_id}>"
    return token if token.isprintable() else ascii(token)[1:-1]


def _choose(manifest: Manifest, *, split: str, max_seq_length: int | None) -> DataSet:
    fitting = [
        d
        for d in manifest.data_sets
        if d.split == split and max_seq_length in (None, d.max_seq_length)
    ]
    if not fitting:
        there = ", ".join(f"{d.max_seq_length} {d.split}" for d in manifest.data_sets) or "nothing"
        field, value = (
            ("split", split) if max_seq_length is None else ("max_seq_length", max_seq_length)
        )
        raise ConfigError(field, value, f"no such data set; there is {there}")
    return min(fitting, key=lambda d: d.max_seq_length)


def _read(rows: list[int], paths: list[str], data_set: DataSet) -> Iterator[Example]:
    """The rows by number over all shards, in order, a row group at a time."""
    ends = list(accumulate(shard.rows for shard in data_set.shards))
    for shard, path, end in zip(data_set.shards, paths, ends, strict=True):
        first = end - shard.rows
        if wanted := [row - first for row in rows if first <= row < end]:
            with open_file(path) as file:
                for row, columns in _read_shard(file, wanted):
                    yield Example(shard=shard.path, row=row, columns=columns)


def _read_shard(file: BinaryIO, rows: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    parquet = pq.ParquetFile(file)
    first = 0
    for group in range(parquet.metadata.num_row_groups):
        end = first + parquet.metadata.row_group(group).num_rows
        if wanted := [row for row in rows if first <= row < end]:
            table = parquet.read_row_group(group)
            for row in wanted:
                yield row, table.slice(row - first, 1).to_pylist()[0]
        first = end


def _header(data_set: DataSet, *, shown: int) -> Text:
    rates = data_set.rates
    share = f" ({100 * shown / data_set.examples:.3g}%)" if data_set.examples else ""
    parts = [f"{data_set.name} {data_set.split}: {data_set.examples:,} examples"]
    parts.append(f"{len(data_set.shards)} shards")
    if rates.mean_num_tokens is not None:
        parts.append(f"{rates.mean_num_tokens:.1f} of {data_set.max_seq_length} tokens on average")
    if rates.masked is not None:
        parts.append(f"{rates.masked:.1%} masked")
    if rates.not_next is not None:
        parts.append(f"{rates.not_next:.1%} NotNext")
    return Text(f"{', '.join(parts)}; showing {shown}{share}", style="bold")


def _legend(colour: bool) -> Text:
    if not colour:
        return Text(_LEGEND_PLAIN)
    return Text("  ").join(Text(word, style=style) for word, style in _LEGEND_COLOUR)


def _title(example: Example) -> Text:
    columns = example.columns
    label = "NotNext" if columns["next_sentence_label"] == NOT_NEXT else "IsNext"
    counts = f"{columns['num_tokens']} tokens, {len(columns['masked_lm_ids'])} to predict"
    return Text.assemble((label, "bold"), f"  {counts}  {example.shard} row {example.row}")


def _render(pieces: list[Piece], *, colour: bool) -> Text:
    """The row as running text, B on a line of its own."""
    text = Text()
    for i, piece in enumerate(pieces):
        new_segment = i == 0 or piece.segment != pieces[i - 1].segment
        if new_segment:
            text.append(("\n" if i else "") + "AB"[piece.segment] + ": ")
        elif not piece.joined:
            text.append(" ")
        text.append(_coloured(piece) if colour else Text(_plain(piece)))
    return text


def _plain(piece: Piece) -> str:
    if piece.fate == "mask":
        return f"[MASK:{piece.original}]"
    if piece.fate == "random":
        return f"{{{piece.token}→{piece.original}}}"
    return f"{piece.token}(kept)" if piece.fate == "kept" else piece.token


def _coloured(piece: Piece) -> Text:
    style = _SEGMENT_STYLES[piece.segment]
    if piece.fate in ("mask", "random"):
        changed = "bold magenta" if piece.fate == "mask" else "bold red"
        return Text.assemble((piece.token, changed), ("→", "dim"), (str(piece.original), style))
    styles = {"special": "dim", "kept": f"{style} underline", "plain": style}
    return Text(piece.token, style=styles[piece.fate])


def _provenance(columns: dict[str, Any]) -> Iterator[str]:
    for side in ("a", "b"):
        if f"{side}_document" in columns:
            first, end = columns[f"{side}_first_sentence"], columns[f"{side}_end_sentence"]
            key = columns[f"{side}_document"].hex()
            yield f"{side.upper()} from document {key}, sentences {first} to {end} (excluded)"
    if "dupe_pass" in columns:
        yield f"pass {columns['dupe_pass']}"


def _print(console: Console, text: Text) -> None:
    """Without line breaks, so that a path can be copied."""
    console.print(text, soft_wrap=True)
