"""``bert-data show``: which rows, what is printed of them, in colour and without."""

from __future__ import annotations

import hashlib
import io
import itertools
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from pipeline.cli import main
from pipeline.row_text import pieces_of
from pipeline.show import _render, show, sparse_rows
from schemas.arrow import IS_NEXT, NOT_NEXT, example_schema
from schemas.errors import ConfigError
from schemas.manifest import MANIFEST_FILE, Shard
from tests.small_tokenizers import tokenizer_json
from tests.unit.test_manifest_reader import make_data_set, make_manifest

A = ["the", "bridge", "##s", "of", "the", "river"]
B = ["##ing", "in", "water", "[UNK]"]


def vocabulary(data: Path) -> dict[str, int]:
    tokens = (data / "vocab.txt").read_text().splitlines()
    return {token: i for i, token in enumerate(tokens)}


def make_row(vocab: dict[str, int], number: int, *, provenance: bool) -> dict[str, Any]:
    """[CLS] A [SEP] B [SEP], of which four are to be predicted; ``number`` is its length in A."""
    ids = [vocab["[CLS]"], *(vocab[t] for t in A), vocab["[SEP]"]]
    types = [0] * len(ids) + [1] * (len(B) + 1)
    ids += [*(vocab[t] for t in B), vocab["[SEP]"]]
    positions = [2, 3, 5, 8]
    originals = [ids[i] for i in positions]
    ids[2] = vocab["[MASK]"]  # bridge
    ids[3] = vocab["water"]  # ##s
    ids[8] = vocab["[MASK]"]  # ##ing; 5, the second "the", is kept
    row = {
        "input_ids": ids,
        "token_type_ids": types,
        "masked_lm_positions": positions,
        "masked_lm_ids": originals,
        "next_sentence_label": NOT_NEXT if number % 2 else IS_NEXT,
        "num_tokens": len(ids) + number,  # not true, so that a row can be told from its title
    }
    if provenance:
        for side, byte in (("a", b"\x0a"), ("b", b"\x0b")):
            row |= {
                f"{side}_document": byte * 16,
                f"{side}_first_sentence": 3,
                f"{side}_end_sentence": 5,
            }
        row["dupe_pass"] = 4
    return row


@pytest.fixture
def make_directory(data, tmp_path):
    def make(
        shards: tuple[int, ...] = (7, 0, 13), *, provenance: bool = False, lengths: Any = (128,)
    ) -> Path:
        vocab = vocabulary(data)
        Tokenizer(WordPiece(vocab, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
        schema = example_schema(len(vocab), provenance=provenance)
        data_sets = []
        for length in lengths:
            numbers = itertools.count()
            (tmp_path / f"seq{length}").mkdir()
            written = []
            for i, rows in enumerate(shards):
                table = pa.Table.from_pylist(
                    [make_row(vocab, next(numbers), provenance=provenance) for _ in range(rows)],
                    schema=schema,
                )
                path = f"seq{length}/train-{i:05d}-of-{len(shards):05d}.parquet"
                pq.write_table(table, tmp_path / path, row_group_size=4)
                content = (tmp_path / path).read_bytes()
                digest = hashlib.sha256(content).hexdigest()
                written.append(Shard(path=path, rows=rows, bytes=len(content), sha256=digest))
            data_sets.append(make_data_set(tuple(written), max_seq_length=length))
        names = ("pad", "unk", "cls", "sep", "mask")
        about = {f"{name}_id": vocab[f"[{name.upper()}]"] for name in names}
        manifest = make_manifest(tuple(data_sets), tokenizer=about)
        (tmp_path / MANIFEST_FILE).write_text(manifest.to_json())
        return tmp_path

    return make


def shown(directory: Path, *, terminal: bool = False, width: int = 200, **keywords: Any) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        force_terminal=terminal,
        width=width,
        color_system="standard" if terminal else None,
    )
    show(str(directory), console=console, **keywords)
    return file.getvalue()


def test_plain_text_shows_masks_replacements_and_originals(make_directory):
    lines = shown(make_directory(), n=1).splitlines()
    assert lines[0] == (
        "seq128 train: 20 examples, 3 shards, 101.5 of 128 tokens on average, 12.5% masked, "
        "12.5% NotNext; showing 1 (5%)"
    )
    assert lines[1] == "[MASK:original]  {random→original}  word(kept)"
    assert lines[3] == "IsNext  13 tokens, 4 to predict  seq128/train-00000-of-00003.parquet row 0"
    assert lines[4] == "A: [CLS] the [MASK:bridge]{water→##s} of the(kept) river [SEP]"
    assert lines[5] == "B: [MASK:##ing] in water [UNK] [SEP]"
    assert len(lines) == 6


@pytest.mark.parametrize("kind", ["unigram", "bytelevel"])
def test_pieces_are_joined_where_words_begin_with_a_mark(kind):
    tokenizer = Tokenizer.from_str(tokenizer_json(kind))
    cls, sep = ("[CLS]", "[SEP]") if kind == "unigram" else ("<s>", "</s>")
    names = {"pad": "<pad>", "unk": "<unk>", "cls": cls, "sep": sep}
    names["mask"] = "[MASK]" if kind == "unigram" else "<mask>"
    about = make_manifest(
        (), tokenizer={f"{role}_id": tokenizer.token_to_id(name) for role, name in names.items()}
    ).tokenizer
    text = "la maison était très würzig là-bas"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) > 8
    row = [about.cls_id, *ids, about.sep_id]

    def shown_as(positions=(), mask=False):
        changed = list(row)
        for i in positions:
            changed[i] = about.mask_id if mask else changed[i]
        columns = {
            "input_ids": changed,
            "token_type_ids": [0] * len(row),
            "masked_lm_positions": list(positions),
            "masked_lm_ids": [row[i] for i in positions],
        }
        pieces = pieces_of(columns, tokenizer=tokenizer, about=about)
        return _render(pieces, "AB", colour=False).plain

    assert shown_as() == f"A: {cls} {text} {sep}"
    last = shown_as([len(row) - 2], mask=True)
    assert re.search(r"\S\[MASK:", last)
    everything = shown_as(range(1, len(row) - 1), mask=True)
    # A mark that is a token by itself is shown where it is to be predicted.
    everything = re.sub(r"\[MASK:[▁Ġ]\]", "", everything)
    assert re.sub(r"\[MASK:([^\]]*)\]", r"\1", everything) == f"A: {cls} {text} {sep}"


def test_pieces_of_words_are_joined(make_directory, data):
    vocab = vocabulary(data)
    ids = [vocab[t] for t in ["[CLS]", "bridge", "##s", "##ing", "[SEP]", "##s", "of", "[SEP]"]]
    columns = {
        "input_ids": [*ids, 60_000],
        "token_type_ids": [0] * 5 + [1] * 4,
        "masked_lm_positions": [3],
        "masked_lm_ids": [vocab["##ing"]],
    }
    manifest = make_manifest(())
    about = manifest.tokenizer
    tokenizer = Tokenizer(WordPiece(vocab, unk_token="[UNK]"))
    pieces = pieces_of(columns, tokenizer=tokenizer, about=about)
    assert [p.token for p in pieces] == (
        ["[CLS]", "bridge", "s", "ing", "[SEP]", "##s", "of", "[SEP]", "<60000>"]
    )
    assert [p.joined for p in pieces] == [False, False, True, True] + [False] * 5
    assert [p.fate for p in pieces] == (
        ["special", "plain", "plain", "kept", "special", "plain", "plain", "special", "plain"]
    )


def test_rows_are_spread_over_the_shards_and_always_the_same(make_directory):
    directory = make_directory()
    text = shown(directory, n=4)
    titles = [line for line in text.splitlines() if "to predict" in line]
    assert [title.split("  ")[2] for title in titles] == [
        "seq128/train-00000-of-00003.parquet row 0",
        "seq128/train-00000-of-00003.parquet row 5",
        "seq128/train-00002-of-00003.parquet row 3",
        "seq128/train-00002-of-00003.parquet row 8",
    ]
    # The numbers of tokens are those of rows 0, 5, 10, 15 of the data set.
    assert [title.split("  ")[1].split()[0] for title in titles] == ["13", "18", "23", "28"]
    assert [title.split("  ")[0] for title in titles] == ["IsNext", "NotNext"] * 2
    assert shown(directory, n=4) == text
    assert shown(directory, n=4, start=20) == text
    later = shown(directory, n=4, start=1)
    assert "parquet row 1\n" in later
    assert "parquet row 0\n" not in later


def test_all_rows_are_shown_when_there_are_fewer(make_directory):
    text = shown(make_directory(), n=1000)
    assert text.count(" to predict ") == 20
    assert "showing 20 (100%)" in text


@pytest.mark.parametrize("total", [0, 1, 5, 64, 1000])
@pytest.mark.parametrize("n", [1, 3, 5, 999])
@pytest.mark.parametrize("start", [0, 1, 63, 12345])
def test_sparse_rows_are_different_even_and_inside(total, n, start):
    rows = sparse_rows(total, n=n, start=start)
    assert len(rows) == min(n, total) == len(set(rows))
    assert rows == sorted(rows)
    assert all(0 <= row < total for row in rows)
    if rows:
        gaps = {b - a for a, b in itertools.pairwise([*rows, rows[0] + total])}
        assert max(gaps) - min(gaps) <= 1


def test_colour_only_where_it_is_wanted(make_directory, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    directory = make_directory()
    coloured = shown(directory, n=1, terminal=True)
    assert "\x1b[1;35m[MASK]\x1b[0m\x1b[2m→\x1b[0m\x1b[36mbridge\x1b[0m" in coloured
    assert "\x1b[1;31mwater\x1b[0m\x1b[2m→\x1b[0m\x1b[36m##s\x1b[0m" in coloured
    assert "\x1b[4;36mthe\x1b[0m" in coloured
    assert "\x1b[2m[SEP]\x1b[0m" in coloured
    assert "\x1b[33mwater\x1b[0m" in coloured
    assert "{water" not in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    plain = shown(directory, n=1, terminal=True)
    assert "[MASK:bridge]{water→##s}" in plain
    assert "\x1b[3" not in plain
    assert "\x1b" not in shown(directory, n=1)


def test_lines_are_wrapped_to_the_terminal(make_directory):
    text = shown(make_directory(), n=1, width=30)
    assert "seq128/train-00000-of-00003.parquet row 0\n" in text  # never cut
    assert max(map(len, text.splitlines()[4:])) <= 30
    assert "\n{water→##s}" not in text
    assert " ".join(text.split()).endswith("B: [MASK:##ing] in water [UNK] [SEP]")


def test_provenance_is_shown_where_it_is(make_directory):
    lines = shown(make_directory(provenance=True), n=1).splitlines()
    assert lines[-3:] == [
        f"A from document {'0a' * 16}, sentences 3 to 5 (excluded)",
        f"B from document {'0b' * 16}, sentences 3 to 5 (excluded)",
        "pass 4",
    ]


def test_the_length_is_chosen(make_directory):
    directory = make_directory((3,), lengths=(512, 128))
    assert shown(directory).startswith("seq128 train: 3 examples")
    assert shown(directory, max_seq_length=512).startswith("seq512 train: 3 examples")
    with pytest.raises(ConfigError, match=r"--max_seq_length=64: .*512 train, 128 train"):
        shown(directory, max_seq_length=64)
    with pytest.raises(ConfigError, match=r"--split='validation': .*512 train, 128 train"):
        shown(directory, split="validation")


def test_a_data_set_without_rows(make_directory):
    text = shown(make_directory((0, 0)))
    assert text == "seq128 train: 0 examples, 2 shards; showing 0\n"


def test_the_command(make_directory, capsys):
    directory = str(make_directory())
    assert main(["show", directory, "-n", "2", "--split", "train", "--max-seq-length", "128"]) == 0
    assert capsys.readouterr().out.count(" to predict ") == 2
    for flags, text in (
        (["-n", "0"], "--n=0: must be a whole number, at least 1"),
        (["-n", "two"], "argument -n: invalid int value: 'two'"),
        (["--start", "-1"], "--start=-1: must be"),
        (["--split", "test"], "--split='test': no such data set"),
        (["--colour"], "unrecognized arguments: --colour"),
    ):
        assert main(["show", directory, *flags]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("bert-data: error: ")
        assert text in captured.err
        assert captured.err.count("\n") == 1


def test_what_is_not_finished_or_damaged_is_refused_in_a_line(make_directory, capsys):
    directory = make_directory()
    shard = directory / "seq128" / "train-00002-of-00003.parquet"
    content = shard.read_bytes()
    shard.write_bytes(content[:-1])
    assert main(["show", str(directory)]) == 2
    assert f"it has {len(content) - 1:,} bytes" in capsys.readouterr().err
    (directory / "manifest.json").unlink()
    assert main(["show", str(directory)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"bert-data: error: {directory}: incomplete or not a data set")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
