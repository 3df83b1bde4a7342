"""``bert-data show``: examples of a data set as text, to look at.

Reads by the manifest, one row group at a time, without Beam.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rich.console import Console
from rich.text import Text
from tokenizers import Tokenizer

from pipeline.row_text import (
    Piece,
    as_plain,
    as_static,
    pieces_of,
    provenance_lines,
    read_rows,
)
from pipeline.wording import plural
from schemas.errors import ConfigError
from schemas.manifest import (
    DataSet,
    Manifest,
    ManifestError,
    load_manifest,
    open_shards,
)
from schemas.stores import open_file

__all__ = ["Example", "show", "sparse_rows"]

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
    _print(console, _header(data_set, manifest.label_convention, shown=len(rows)))
    if rows and manifest.masking == "static":
        _print(console, _legend(colour))
    for example in _read(rows, paths, data_set):
        _print(console, Text())
        _print(console, _title(example, manifest))
        pieces = pieces_of(
            as_static(example.columns), tokenizer=tokenizer, about=manifest.tokenizer
        )
        names = "" if manifest.objective == "mlm" else "AB"
        console.print(_render(pieces, names, colour=colour))
        for line in provenance_lines(example.columns):
            _print(console, Text(line, style="dim" if colour else ""))


def sparse_rows(total: int, *, n: int, start: int) -> list[int]:
    """``n`` different row numbers below ``total``, evenly apart, from ``start`` on, in order."""
    n = min(n, total)
    return sorted((start + i * total // n) % total for i in range(n))


def _read_tokenizer(path: str) -> Tokenizer:
    try:
        with open_file(path) as file:
            return Tokenizer.from_buffer(file.read())
    except (OSError, ValueError) as error:
        raise ManifestError(
            path, f"cannot be read as a tokenizer ({error}); copy it again"
        ) from None


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
                for row, columns in read_rows(file, wanted):
                    yield Example(shard=shard.path, row=row, columns=columns)


def _header(data_set: DataSet, labels: Mapping[str, str], *, shown: int) -> Text:
    rates = data_set.rates
    share = f" ({100 * shown / data_set.examples:.3g}%)" if data_set.examples else ""
    parts = [f"{data_set.name} {data_set.split}: {data_set.examples:,} examples"]
    parts.append(plural(len(data_set.shards), "shard"))
    if rates.mean_num_tokens is not None:
        parts.append(f"{rates.mean_num_tokens:.1f} of {data_set.max_seq_length} tokens on average")
    if rates.masked is not None:
        parts.append(f"{rates.masked:.1%} masked")
    if rates.not_next is not None:
        parts.append(f"{rates.not_next:.1%} {labels['1']}")
    return Text(f"{', '.join(parts)}; showing {shown}{share}", style="bold")


def _legend(colour: bool) -> Text:
    if not colour:
        return Text(_LEGEND_PLAIN)
    return Text("  ").join(Text(word, style=style) for word, style in _LEGEND_COLOUR)


def _title(example: Example, manifest: Manifest) -> Text:
    columns = example.columns
    parts = [f"{columns['num_tokens']} tokens"]
    if "replacement_ids" in columns:
        passes = [len(ids) for ids in columns["replacement_ids"]]
        parts.append(f"{passes[0]} to predict in the first of {len(passes)} passes")
    elif "masked_lm_ids" in columns:
        parts.append(f"{len(columns['masked_lm_ids'])} to predict")
    where = f"{', '.join(parts)}  {example.shard} row {example.row}"
    if "next_sentence_label" not in columns:
        return Text(where)
    label = manifest.label_convention[str(columns["next_sentence_label"])]
    return Text.assemble((label, "bold"), f"  {where}")


def _render(pieces: list[Piece], names: str, *, colour: bool) -> Text:
    """The row as running text, each segment on a line of its own with its name, if it has one."""
    text = Text()
    for i, piece in enumerate(pieces):
        new_segment = i == 0 or piece.segment != pieces[i - 1].segment
        if new_segment:
            text.append(("\n" if i else "") + (f"{names[piece.segment]}: " if names else ""))
        elif not piece.joined:
            text.append(" ")
        text.append(_coloured(piece) if colour else Text(as_plain(piece)))
    return text


def _coloured(piece: Piece) -> Text:
    style = _SEGMENT_STYLES[piece.segment]
    if piece.fate in ("mask", "random"):
        changed = "bold magenta" if piece.fate == "mask" else "bold red"
        return Text.assemble((piece.token, changed), ("→", "dim"), (str(piece.original), style))
    styles = {"special": "dim", "kept": f"{style} underline", "plain": style}
    return Text(piece.token, style=styles[piece.fate])


def _print(console: Console, text: Text) -> None:
    """Without line breaks, so that a path can be copied."""
    console.print(text, soft_wrap=True)
