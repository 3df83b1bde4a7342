"""The law: rows are a function of the documents, the configuration and the seed, and of nothing else."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma

import numpy as np
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.builds import (
    DATA,
    VOCAB,
    build_here,
    digests,
    documents_of,
    run_command,
    write_jsonl,
    write_text,
)
from tests.unit.wiki_exports import export, page

SETTINGS = {
    "num_shards": 3,
    "validation_fraction": 0.2,
    "max_seq_length": (64, 128),
    "do_whole_word_mask": True,
    "sentence_splitter": "none",
    "dupe_factor": 2,
}
FLAGS = [
    *["--num_shards=3", "--validation_fraction=0.2", "--max_seq_length=64,128"],
    *["--do_whole_word_mask", "--sentence_splitter=none", "--dupe_factor=2"],
]
CORPUS = DATA / "sentences.txt"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    output = tmp_path_factory.mktemp("expected") / "out"
    manifest = build_here(CORPUS, output=output, **SETTINGS)
    assert manifest.counts.documents == 66
    assert len(manifest.data_sets) == 4
    found = digests(output)
    assert len(set(found.values())) == len(found) == 2 * (3 + 1)
    return found


@pytest.fixture(scope="module")
def shuffled():
    documents = documents_of(CORPUS)
    order = np.random.default_rng(1).permutation(len(documents))
    return [documents[i] for i in order]


def test_fifty_files_in_another_order(expected, shuffled, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(50):
        write_text(folder / f"{(i * 7) % 50:02d}.txt", shuffled[i::50])
    build_here(folder, output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected


def test_windows_line_ends_and_loose_white_space(expected, shuffled, tmp_path):
    lines = ["  " + line + " \t" for d in shuffled for line in [*d, "", ""]]
    path = tmp_path / "a.txt"
    path.write_bytes("\r\n".join(lines).encode())
    build_here(path, output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2", "a.txt.xz", "a.txt.zst"])
def test_compressed(expected, shuffled, tmp_path, name):
    compressors: dict = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": zstandard.ZstdCompressor().compress,
    }
    compress = compressors[name.rpartition(".")[2]]
    plain = write_text(tmp_path / "plain", shuffled)
    (tmp_path / name).write_bytes(compress(plain.read_bytes()))
    build_here(tmp_path / name, output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected


@pytest.mark.parametrize(
    ("encoding", "mark", "flags"),
    [
        ("utf-16-le", "\ufeff", {}),
        ("utf-32-be", "\ufeff", {}),
        ("gb18030", "", {"encoding": "gb18030"}),
    ],
)
def test_another_encoding(expected, shuffled, tmp_path, encoding, mark, flags):
    plain = write_text(tmp_path / "plain", shuffled)
    (tmp_path / "a").write_bytes((mark + plain.read_text(encoding="utf8")).encode(encoding))
    build_here(tmp_path / "a", output=tmp_path / "out", **SETTINGS, **flags)
    assert digests(tmp_path / "out") == expected


def test_without_copies(expected, shuffled, tmp_path):
    """Wherever the copies are, and of whatever format."""
    some = write_jsonl(tmp_path / "a.jsonl", [*shuffled[10:], *shuffled[20:40]])
    rest = write_text(tmp_path / "b.txt", shuffled[:30])
    for name, files in (("one", (some, rest)), ("other", (rest, some))):
        build_here(*files, output=tmp_path / name, deduplicate=True, **SETTINGS)
        assert digests(tmp_path / name) == expected


@pytest.mark.parametrize("how", [{"runner": "FnApiRunner"}, {"num_workers": 2}], ids=str)
def test_without_copies_in_other_processes(expected, shuffled, tmp_path, how):
    path = write_jsonl(tmp_path / "a.jsonl", [*shuffled, *shuffled[20:40]])
    build_here(path, output=tmp_path / "out", deduplicate=True, **SETTINGS, **how)
    assert digests(tmp_path / "out") == expected


def test_json_lines_and_a_mix_of_formats(expected, shuffled, tmp_path):
    jsonl = write_jsonl(tmp_path / "a.jsonl", shuffled)
    build_here(jsonl, output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected
    half = write_jsonl(tmp_path / "b.jsonl", shuffled[:30])
    rest = write_text(tmp_path / "c.txt", shuffled[30:])
    build_here(half, rest, output=tmp_path / "mix", **SETTINGS)
    assert digests(tmp_path / "mix") == expected


def test_exports_of_mediawiki(expected, shuffled, tmp_path):
    pages = [page("\n\n".join(lines), title=f"T{i}") for i, lines in enumerate(shuffled)]
    text = export(pages)
    many = [export(pages[:9]).removesuffix("</mediawiki>\n"), *pages[9:], "</mediawiki>"]
    for name, data in {
        "a.xml": text.encode(),
        "b.xml.bz2": b"".join(bz2.compress(part.encode()) for part in many),
        "c.xml": text.encode("utf-16"),
    }.items():
        (tmp_path / name).write_bytes(data)
        build_here(tmp_path / name, output=tmp_path / f"{name}.out", **SETTINGS)
        assert digests(tmp_path / f"{name}.out") == expected


def test_every_bundle_replayed(expected, tmp_path):
    build_here(
        CORPUS,
        output=tmp_path / "out",
        beam_args=["--direct_runner_bundle_repeat=1"],
        **SETTINGS,
    )
    assert digests(tmp_path / "out") == expected


@pytest.mark.parametrize(
    "how",
    [
        ["--num_workers=2"],
        ["--num_workers=3", "--direct_runner_bundle_repeat=1"],
        ["--direct_running_mode=multi_processing", "--direct_num_workers=2"],
        ["--direct_running_mode=multi_threading", "--direct_num_workers=2"],
    ],
    ids=["forked", "forked-replayed", "beams-processes", "threads"],
)
def test_worker_processes(expected, tmp_path, how):
    done = run_command(
        "build", CORPUS, "--vocab_file", VOCAB, "--output", tmp_path / "out", *FLAGS, *how
    )
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "out") == expected


def test_the_runners_own_shuffle(expected, tmp_path):
    build_here(CORPUS, output=tmp_path / "out", runner="FnApiRunner", **SETTINGS)
    assert digests(tmp_path / "out") == expected


def test_each_length_is_as_if_alone(expected, tmp_path):
    build_here(CORPUS, output=tmp_path / "out", **(SETTINGS | {"max_seq_length": (64,)}))
    alone = digests(tmp_path / "out")
    assert alone == {path: d for path, d in expected.items() if path.startswith("seq64/")}


def test_one_text_in_two_languages(tmp_path):
    """Its records have one key and other sentences; which of them comes first decides nothing."""
    records = [json.loads(line) for line in (DATA / "documents.jsonl").open(encoding="utf8")][:8]
    text = "Das kostet ca. 5 Euro bzw. 6 Dollar. Mr. Smith et al. kamen z. B. am 5. Mai. " * 4
    both = [{"text": text, "lang": "en"}, {"text": text, "lang": "de"}]
    found = []
    for order in (both, both[::-1]):
        path = tmp_path / f"{order[0]['lang']}.jsonl"
        path.write_text("".join(json.dumps(r) + "\n" for r in [*records, *order]))
        manifest = build_here(path, output=tmp_path / order[0]["lang"], num_shards=1)
        assert manifest.counts.duplicate_documents == 1
        found.append(digests(tmp_path / order[0]["lang"]))
    assert found[0] == found[1]


def test_other_rows_with_another_seed(expected, tmp_path):
    build_here(CORPUS, output=tmp_path / "out", random_seed=1, **SETTINGS)
    other = digests(tmp_path / "out")
    assert other.keys() == expected.keys()
    assert not set(other.values()) & set(expected.values())


#: sha256 over all rows of the sample's shards, as JSON.
#: With long sentences split, which is the default, and as they were before there was a choice.
ROWS = {
    True: "d7605c2f462fc7cd0c4f015966b0ece8982ebdaf1d735b2b85d8ca8a8c5a986f",
    False: "8789d6e7c9de5da5a7ec9712c213905d0187a4f0b60f65b769121d9246745219",
}


@pytest.mark.parametrize("split", ROWS)
def test_the_rows_of_the_bundled_sample_are_known(tmp_path, split):
    """Recorded once: a change of any draw or order is a change of everybody's data."""
    settings = {} if split else {"split_long_sentences": False}
    build_here(CORPUS, output=tmp_path / "out", **SETTINGS, **settings)
    rows = hashlib.sha256()
    for path in sorted(digests(tmp_path / "out")):
        rows.update(json.dumps(pq.read_table(tmp_path / "out" / path).to_pydict()).encode())
    assert rows.hexdigest() == ROWS[split]


@pytest.mark.parametrize(
    "kind",
    [
        {"objective": "sop"},
        {"objective": "mlm"},
        {"masking": "none"},
        {"dupe_mode": "remask", "layout": "shared", "max_ngram_size": 3},
    ],
    ids=lambda kind: "-".join(map(str, kind.values())),
)
def test_every_kind_of_rows(shuffled, tmp_path, kind):
    settings = SETTINGS | kind
    build_here(CORPUS, output=tmp_path / "expected", **settings)
    expected = digests(tmp_path / "expected")
    assert len(set(expected.values())) == 2 * (3 + 1)
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(7):
        write_text(folder / f"{i}.txt", shuffled[i::7])
    build_here(folder, output=tmp_path / "files", **settings)
    assert digests(tmp_path / "files") == expected
    build_here(CORPUS, output=tmp_path / "shuffle", runner="FnApiRunner", **settings)
    assert digests(tmp_path / "shuffle") == expected
    build_here(
        CORPUS,
        output=tmp_path / "replayed",
        beam_args=["--direct_runner_bundle_repeat=1"],
        **settings,
    )
    assert digests(tmp_path / "replayed") == expected
    alone = settings | {"max_seq_length": (128,)}
    build_here(CORPUS, output=tmp_path / "alone", **alone)
    for path, digest in digests(tmp_path / "alone").items():
        assert expected[path] == digest
