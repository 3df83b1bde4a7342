"""The commands with an export of MediaWiki."""

from __future__ import annotations

import bz2
import re

import pytest

from pipeline.check import check
from pipeline.cli import main
from tests.builds import DATA, VOCAB, build_here, documents_of
from tests.unit.wiki_exports import export, page

CORPUS = DATA / "sentences.txt"


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """A small one, and one of which a plan takes a sample, some 10 MB, packed in three ways."""
    folder = tmp_path_factory.mktemp("exports")
    pages = [
        page("\n\n".join(lines), title=f"T{i}") for i, lines in enumerate(documents_of(CORPUS))
    ]
    talk = page("No.", title="Talk:T", inside="<ns>1</ns>")
    (folder / "small.xml.bz2").write_bytes(bz2.compress(export([*pages, talk]).encode()))
    large = export(
        page(f"It is number {i}.\n\n" + "\n\n".join(lines), title=f"T{i}")
        for i, lines in enumerate(documents_of(CORPUS) * 70)
    )
    (folder / "large.xml").write_text(large)
    (folder / "large16.xml").write_bytes(large.encode("utf-16"))
    (folder / "large.xml.bz2").write_bytes(bz2.compress(large.encode()))
    return folder


def test_a_build_and_its_check(exports, tmp_path, capsys):
    corpus = exports / "small.xml.bz2"
    manifest = build_here(corpus, output=tmp_path / "out", provenance=True, num_shards=2)
    assert (manifest.counts.documents, manifest.counts.rejects) == (66, 0)
    assert check(str(tmp_path / "out"), corpus=[str(corpus)], num_workers=1) == 0
    assert "violation" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["large.xml", "large16.xml", "large.xml.bz2"])
def test_a_plan_of_a_sample(exports, capsys, name):
    assert main(["plan", str(exports / name), "--vocab_file", str(VOCAB)]) == 0
    said = re.search(r"Text: ~?([\d,]+) documents", out := capsys.readouterr().out)
    assert said, out
    assert 0.8 * 66 * 70 < int(said[1].replace(",", "")) < 1.25 * 66 * 70
