"""A build from an object store into one: the bytes of a local build, and all that reads them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.manifest import WriteManifest
from schemas.errors import ConfigError
from schemas.manifest import Shard, load_manifest
from schemas.stores import file_system, remove
from tests.builds import DATA, VOCAB, build_here, digests
from tests.end_to_end.commands import files_of
from tests.stores import CountingProxy, Store
from transforms.documents import read_task
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads

CORPUS = DATA / "documents.jsonl"
SETTINGS = {
    "dupe_factor": 1,
    "max_seq_length": (32, 64),
    "num_shards": 3,
    "provenance": True,
    "validation_fraction": 0.2,
}
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The sample, with two records that are refused."""
    path = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
    path.write_bytes(CORPUS.read_bytes() + b'{"text": 1}\n{"text": \n')
    return path


@pytest.fixture(scope="module")
def local(corpus, tmp_path_factory):
    output = tmp_path_factory.mktemp("local") / "out"
    build_here(corpus, output=output, max_reject_fraction=0.5, **SETTINGS)
    return output


@pytest.fixture(scope="module")
def inputs(store, corpus) -> Store:
    """The store, with the corpus and the vocabulary in it."""
    store.put_file(corpus, "corpus/documents.jsonl")
    store.put_file(VOCAB, "vocab.txt")
    return store


def build_there(store: Store, name: str, **settings):
    values = {"vocab_file": f"{store.root}/vocab.txt", "max_reject_fraction": 0.5} | SETTINGS
    output = f"{store.root}/{name}"
    return build_here(f"{store.root}/corpus/*.jsonl", output=output, **(values | settings))


@pytest.fixture(scope="module")
def built(inputs) -> str:
    build_there(inputs, "out")
    return f"{inputs.root}/out"


def test_the_bytes_are_those_of_a_local_build(built, inputs, local):
    assert digests(built) == digests(local)
    assert without_rejects(inputs.names("out")) == without_rejects(files_of(local))
    for name in ("tokenizer.json", "vocab.txt"):
        assert inputs.read(f"out/{name}") == (local / name).read_bytes(), name


def without_rejects(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("rejects/")}


def test_refused_records_are_written_there(built, inputs):
    names = inputs.names("out")
    (name,) = names - without_rejects(names)
    rejects = [json.loads(line) for line in inputs.read(f"out/{name}").splitlines()]
    assert [r["reason"] for r in rejects] == ["field_not_a_string", "broken_json"]
    assert all(f"{inputs.root}/corpus/documents.jsonl" in r["source"] for r in rejects)


def test_and_with_two_workers(inputs, local):
    build_there(inputs, "two", num_workers=2)
    assert digests(f"{inputs.root}/two") == digests(local)
    assert without_rejects(inputs.names("two")) == without_rejects(files_of(local))
    assert load_manifest(f"{inputs.root}/two").counts.rejects == 2


def test_text_in_three_languages_has_the_same_shards(store, shared, tmp_path):
    names = ["handbook.de-DE.jsonl", "handbook.ru-RU.jsonl", "wikitext-raw.test.txt"]
    paths = [shared / "data" / "corpora" / name for name in names]
    there = [store.put_file(path, f"languages/{path.name}") for path in paths]
    settings = {"num_shards": 4, "dupe_factor": 1, "sentence_splitter": "sentencex"}
    build_here(*paths, output=tmp_path / "out", **settings)
    build_here(*there, output=f"{store.root}/languages-out", **settings)
    assert digests(f"{store.root}/languages-out") == digests(tmp_path / "out")


def test_what_is_there_is_not_overwritten_unless_it_is_said(built, inputs, local):
    with pytest.raises(ConfigError, match="already holds a data set; --overwrite replaces it"):
        build_there(inputs, "out")
    inputs.put("mine/notes.txt", b"mine")
    with pytest.raises(ConfigError, match=r"holds files that are no data set's"):
        build_there(inputs, "mine", overwrite=True)
    build_there(inputs, "replaced", num_shards=1)
    build_there(inputs, "replaced", overwrite=True)
    assert inputs.names("replaced") == inputs.names("out")
    assert digests(f"{inputs.root}/replaced") == digests(local)


def test_an_interrupted_build_keeps_its_finished_shards(inputs, local, monkeypatch):
    import apache_beam as beam

    with monkeypatch.context() as patch:
        patch.setattr(
            WriteManifest,
            "expand",
            lambda self, blocks: blocks | beam.combiners.ToList() | beam.Map(lambda found: 1 / 0),
        )
        with pytest.raises(ZeroDivisionError):
            build_there(inputs, "resumed")
    shards = sorted(digests(local))
    there = inputs.names("resumed")
    assert {name for name in there if name.startswith("seq")} == set(shards)
    assert any(name.startswith(".resume/") for name in there)
    digits = "0123456789abcdef" * 2
    inputs.put(f"resumed/seq32/.train-00000-of-00003.parquet.{digits}.tmp", b"of a dead attempt")
    inputs.put(f"resumed/{shards[0]}", b"damaged")
    inputs.put(f"resumed/.resume/{shards[1].replace('/', '-')}.json", b"damaged")
    before = {name: stamp(inputs, f"resumed/{name}") for name in shards}
    with pytest.raises(
        ConfigError, match=r"an interrupted build; --overwrite .*, --resume goes on"
    ):
        build_there(inputs, "resumed")
    build_there(inputs, "resumed", resume=True)
    after = {name: stamp(inputs, f"resumed/{name}") for name in shards}
    assert {name for name in shards if before[name] != after[name]} == set(shards[:2])
    assert digests(f"{inputs.root}/resumed") == digests(local)
    assert inputs.names("resumed") - there <= files_of(local)
    assert not [name for name in inputs.names("resumed") if name.startswith(".") or "/." in name]
    assert build_there(inputs, "resumed", resume=True) == load_manifest(f"{inputs.root}/resumed")


def stamp(store: Store, name: str) -> float:
    """When it was written."""
    path = f"{store.root}/{name}"
    return file_system(path).last_updated(path)


def test_show_check_and_plan_read_from_there(built, inputs, local, capsys):
    assert main(["show", built, "-n", "2", "--split", "validation"]) == 0
    shown = capsys.readouterr().out
    assert main(["show", str(local), "-n", "2", "--split", "validation"]) == 0
    assert shown == capsys.readouterr().out
    corpus = f"{inputs.root}/corpus/documents.jsonl"
    assert main(["check", built, "--corpus", corpus, "--num_workers", "1"]) == 0
    assert "All of it holds" in capsys.readouterr().out
    vocabulary = f"{inputs.root}/vocab.txt"
    flags = ["--max_reject_fraction=0.5", "--output", f"{inputs.root}/planned"]
    assert main(["plan", f"{inputs.root}/corpus", "--vocab_file", vocabulary, *flags]) == 0
    assert "66 documents" in capsys.readouterr().out
    assert not inputs.names("planned")


def test_a_damaged_shard_is_found_there(built, inputs, capsys):
    for name in inputs.names("out"):
        inputs.put(f"damaged/{name}", inputs.read(f"out/{name}"))
    one, other = sorted(digests(built))[:2]
    inputs.put(f"damaged/{one}", inputs.read(f"out/{one}")[:-1])
    remove([f"{inputs.root}/damaged/{other}"])
    assert main(["check", f"{inputs.root}/damaged", "--num_workers", "1"]) == 1
    printed = capsys.readouterr()
    assert f"{one}: size: " in printed.out
    assert f"{other}: missing: " in printed.out
    assert not printed.err


def test_documents_are_written_there(inputs, tmp_path):
    for folder in (inputs.root, tmp_path):
        arguments = [f"{inputs.root}/corpus", "--output", f"{folder}/documents.jsonl"]
        assert main(["documents", *arguments, "--max_reject_fraction=0.5"]) == 0
    assert inputs.read("documents.jsonl") == (tmp_path / "documents.jsonl").read_bytes()
    assert inputs.read("_documents.jsonl.rejects.jsonl").count(b"\n") == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_the_trainer_reads_the_same_batches(built, local, workers):
    pytest.importorskip("torch", reason="the trainer needs torch: pip install bert-data[train]")
    from train.data import PretrainingDataset

    flags = {"batch_size": 16, "num_workers": workers, "verify": True, "max_seq_length": 64}
    there, here = (list(PretrainingDataset(d, **flags)) for d in (built, str(local)))
    assert len(there) == len(here) > 1
    for one, other in zip(there, here, strict=True):
        assert all(one[name].equal(other[name]) for name in other)


@pytest.fixture
def counted(store, monkeypatch):
    """The number of bytes that a function has fetched from the store."""
    proxy = CountingProxy(store.port)
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value.replace(f":{store.port}", f":{proxy.port}"))

    def count(function) -> int:
        before = proxy.sent
        function()
        return proxy.sent - before

    yield count
    proxy.close()


def test_a_range_of_a_corpus_is_all_that_is_fetched(store, counted):
    line = json.dumps({"text": "A sentence of a document. " * 400}).encode() + b"\n"
    path = store.put("large/corpus.jsonl", line * (32 * MEGABYTE // len(line)))
    tasks = plan_reads(list_inputs([path], format="auto"), num_stripes=1, range_bytes=2 * MEGABYTE)
    assert len(tasks) == 16
    documents = []

    def read() -> None:
        for name, batch in read_task(tasks[7]):
            documents.append(batch.num_rows if name == "documents" else 0)

    fetched = counted(read)
    assert sum(documents) * len(line) == pytest.approx(2 * MEGABYTE, rel=0.01)
    assert 2 * MEGABYTE < fetched < 2.3 * MEGABYTE, fetched / MEGABYTE


def test_a_footer_and_a_row_group_are_all_that_is_fetched(store, counted, tmp_path):
    from train.shards import list_row_groups, read_row_group

    draw = np.random.default_rng(1)
    table = pa.table({"a": draw.integers(0, 2**60, 4_000_000), "b": draw.random(4_000_000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100_000, compression="none")
    path = store.put_file(tmp_path / "a.parquet", "large/a.parquet")
    size = (tmp_path / "a.parquet").stat().st_size
    assert size > 60 * MEGABYTE
    shard = Shard(path=path, rows=table.num_rows, bytes=size, sha256="")
    groups: list = []
    footers = counted(lambda: groups.extend(list_row_groups([path], [shard])))
    assert footers < MEGABYTE
    whole = size / len(groups)
    fetched = counted(lambda: read_row_group(groups[7], columns=["a", "b"]))
    assert whole < fetched < whole + 1.5 * MEGABYTE, fetched / MEGABYTE


def test_the_errors_of_a_store_are_lines(store, capsys):
    scheme = store.root.partition(":")[0]
    vocabulary = ["--vocab_file", str(VOCAB)]
    cases = [
        (["build", f"{store.root}/nothing/*", *vocabulary, "--output", "out"], "matches no file"),
        (["plan", str(CORPUS), "--vocab_file", f"{store.root}/no.txt"], "--vocab_file="),
        (["show", f"{store.root}/nothing"], "incomplete or not a data set"),
        (["check", f"{scheme}://no-such-bucket/out"], "incomplete or not a data set"),
        (["show", "nosuch://box/out"], "there is no file system for nosuch://"),
    ]
    for arguments, words in cases:
        assert main(arguments) == 2, arguments
        printed = capsys.readouterr()
        assert words in printed.err
        assert len(printed.err.splitlines()) == 1
