"""Builds of web archives and pages: the documents decide the bytes, not what they are packed in."""

from __future__ import annotations

import gzip
import os
from importlib import metadata

import pytest

from pipeline.config import BuildConfig
from pipeline.estimate import estimate
from pipeline.plan import describe
from pipeline.prepare import prepare
from pipeline.sampling import draw_sample
from schemas.errors import ConfigError
from tests.builds import (
    DATA,
    VOCAB,
    build_here,
    digests,
    documents_of,
    run_command,
    write_jsonl,
)
from tests.web_archives import chunked, conversion, members, page, request, response
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import read_task

pytest.importorskip("resiliparse")

SETTINGS = {"num_shards": 2, "sentence_splitter": "none", "dupe_factor": 2, "provenance": True}


@pytest.fixture(scope="module")
def documents():
    return [
        [" ".join(line.split()) for line in d] for d in documents_of(DATA / "sentences.txt")[:40]
    ]


@pytest.fixture(scope="module")
def expected(tmp_path_factory, documents):
    folder = tmp_path_factory.mktemp("expected")
    corpus = write_jsonl(folder / "in.jsonl", documents)
    manifest = build_here(corpus, output=folder / "out", **SETTINGS)
    assert manifest.counts.documents == 40
    return digests(folder / "out")


def pages_of(documents) -> list[bytes]:
    """A record for each document, sent in one way or another."""
    records = []
    for i, document in enumerate(documents):
        body = page(document, head='<meta charset="utf-8">').encode()
        kinds = [
            (body, []),
            (gzip.compress(body, mtime=0), ["Content-Encoding: gzip"]),
            (chunked(body), ["Transfer-Encoding: chunked"]),
        ]
        body, fields = kinds[i % 3]
        records += [request(), response(body, *fields, uri=f"http://a.example/{i}")]
    return records


def test_the_same_documents_in_every_kind_of_archive(expected, documents, tmp_path):
    pages = pages_of(documents)
    texts = [
        conversion("\r\n".join(d), uri=f"http://b.example/{i}") for i, d in enumerate(documents)
    ]
    archives = {
        "plain.warc": b"".join(pages),
        "a.warc.gz": members(pages),
        "one.warc.gz": gzip.compress(b"".join(pages)),
        "text.warc.wet": b"".join(texts),
        "text.warc.wet.gz": members(texts),
        "without-a-name": members(reversed(texts)),
    }
    for name, data in archives.items():
        (tmp_path / name).write_bytes(data)
        manifest = build_here(tmp_path / name, output=tmp_path / f"{name}.out", **SETTINGS)
        assert manifest.counts.rejects == 0
        assert digests(tmp_path / f"{name}.out") == expected, name


def test_the_same_documents_as_pages_on_disk(expected, documents, tmp_path):
    folder = tmp_path / "site"
    (folder / "sub").mkdir(parents=True)
    for i, document in enumerate(documents):
        name = ("{}.html", "sub/{}.htm", "{}.xhtml", "sub/{}")[i % 4].format(i)
        (folder / name).write_text(page(document), encoding="utf8")
    build_here(folder, output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected


def test_two_workers_share_an_archive(expected, documents, tmp_path):
    (tmp_path / "a.warc").write_bytes(b"".join(pages_of(documents)) + b"\r\n" * (1 << 20))
    flags = ["--num_shards=2", "--sentence_splitter=none", "--dupe_factor=2", "--provenance"]
    done = run_command(
        *["build", tmp_path / "a.warc", "--vocab_file", VOCAB, "--output", tmp_path / "out"],
        *[*flags, "--num_workers=2"],
    )
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "out") == expected


def test_a_build_can_be_checked_against_its_archive(documents, tmp_path):
    corpus = tmp_path / "a.warc.gz"
    corpus.write_bytes(members(pages_of(documents)))
    manifest = build_here(corpus, output=tmp_path / "out", **SETTINGS)
    assert manifest.created_by.text_readers == f"resiliparse {metadata.version('resiliparse')}"
    done = run_command("check", tmp_path / "out", "--corpus", corpus)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Corpus: 40 documents" in done.stdout
    corpus.write_bytes(members(pages_of(documents[:-1])))
    assert run_command("check", tmp_path / "out", "--corpus", corpus).returncode == 1


def planned(*inputs, max_bytes=4 << 20, **settings):
    values = {"vocab_file": str(VOCAB), "num_workers": 1, "input": tuple(map(str, inputs))}
    prepared = prepare(BuildConfig.from_values(values | {"output": os.devnull} | settings))
    found = estimate(prepared, draw_sample(prepared, max_bytes=max_bytes))
    return found, "\n".join(describe(prepared, found, None, beam_args=()))


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_a_plan_is_exact_for_a_small_archive_and_near_for_a_large_one(documents, tmp_path, name):
    records = pages_of([[*d, f"Version {i}."] for i in range(12) for d in documents])
    data = members(records) if name.endswith("gz") else b"".join(records)
    (tmp_path / name).write_bytes(data)
    found, text = planned(tmp_path / name)
    assert found.exact
    assert "480 documents" in text
    assert "its name ends in .warc" in text
    sampled, text = planned(tmp_path / name, max_bytes=60_000)
    assert not sampled.exact
    assert 0.6 < sampled.totals["tokens"] / found.totals["tokens"] < 1.6
    assert 0.6 < sampled.totals["documents"] / 480 < 1.6


@pytest.mark.parametrize("name", ["a.warc.gz", "a.html"])
def test_a_missing_package_is_one_line(tmp_path, documents, name):
    (tmp_path / name).write_bytes(members(pages_of(documents[:2])))
    hide = tmp_path / "sitecustomize.py"
    hide.write_text(
        "import importlib.util as u\n_f = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'resiliparse' else _f(name, *a)\n"
    )
    done = run_command(
        *["build", tmp_path / name, "--vocab_file", VOCAB, "--output", tmp_path / "out"],
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'pip install "bert-data[web]"' in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.warc", b"x", "warc"),
        ("A.WARC.WET.GZ", gzip.compress(b"x"), "warc"),
        ("a.txt", b"WARC/1.0\r\nWARC-Type: x", "warc"),
        ("a.txt", b"WARC/1.0 is a format\n", "text"),
        ("a.html", b"x", "html"),
        ("a.HTM", b"x", "html"),
        ("a.xhtml", b"x", "html"),
        ("a", b"\xef\xbb\xbf \n<!DOCTYPE HTML PUBLIC>", "html"),
        ("a", b"<html lang=en>", "html"),
        ("a", b"<?xml version='1.0'?>\n<!DOCTYPE html>", "html"),
        ("a", b"<?xml version='1.0'?>\n<mediawiki>", "mediawiki"),
        ("a", b"<?xml version='1.0'?>\n<feed>", "text"),
        ("a", b"<htmlish>", "text"),
        ("a", b"<p>text that begins with a tag", "text"),
    ],
)
def test_formats_are_known_by_names_and_first_bytes(tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    (file,) = list_inputs([str(tmp_path / name)], format="auto")
    assert file.format == expected


def test_a_format_that_needs_nothing_needs_nothing(monkeypatch, tmp_path, documents):
    """A corpus without web pages is built without the package."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    corpus = write_jsonl(tmp_path / "a.jsonl", documents[:3])
    build_here(corpus, output=tmp_path / "out", **SETTINGS)
    (tmp_path / "b.html").write_text(page(documents[0]))
    with pytest.raises(ConfigError, match=r"bert-data\[web\]"):
        build_here(tmp_path / "b.html", output=tmp_path / "not", **SETTINGS)


def read(path):
    files = list_inputs([str(path)], format="auto")
    found: dict[str, list] = {"documents": [], "rejects": []}
    for task in plan_reads(files, num_stripes=3, range_bytes=100_000):
        for kind, batch in read_task(task):
            found[kind] += batch.to_pylist()
    return found["documents"], found["rejects"]


def test_a_real_crawl(shared):
    found, rejects = read(shared / "data" / "corpora" / "dolma-sample-0000.warc.gz")
    assert rejects == []
    assert len(found) == 22
    by_uri = {d["source"].split("#", 1)[1]: d for d in found}
    post = by_uri["https://maria-antoniak.github.io/2022/07/27/topic-modeling-for-the-people.html"]
    lines = post["text"].split("\n")
    assert lines[0] == "Topic Modeling for the People"
    assert lines[1].startswith("“How do your topics look so good?” I get this question sometimes")
    assert {d["language"] for d in found} == {"en", None}
    assert not any("<" + tag in d["text"] for d in found for tag in ("p>", "div", "script"))


@pytest.mark.parametrize(
    ("name", "documents", "rejects"),
    [
        ("warcio-example.warc.gz", 1, []),
        ("warcio-example-bad.warc.gz.bad", 1, []),  # one member for all records: no harm to us
        ("warcio-example-trunc.warc", 0, ["damaged_record"]),  # its length is two bytes short
    ],
)
def test_real_archives_with_damage(shared, name, documents, rejects):
    found, refused = read(shared / "data" / "bad" / name)
    assert [r["reason"] for r in refused] == rejects
    assert len(found) == documents
    assert all(d["text"].startswith("Example Domain\nThis domain is established") for d in found)
