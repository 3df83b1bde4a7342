"""``bert-data check`` of a data set on one of Beam's file systems."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from apache_beam.io.filesystem import BeamIOError

from pipeline.cli import main
from tests.builds import DATA, build_here
from tests.unit.remote import MemoryFileSystem

CORPUS = DATA / "documents.jsonl"
ROOT = "memory://box/out"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, bytes]:
    output = tmp_path_factory.mktemp("built") / "out"
    build_here(CORPUS, output=output, provenance=True, dupe_factor=1, num_shards=2)
    files = [path for path in output.rglob("*") if path.is_file()]
    return {f"{ROOT}/{path.relative_to(output)}": path.read_bytes() for path in files}


@pytest.fixture
def remote(built, monkeypatch) -> dict[str, bytes]:
    files = dict(built)
    monkeypatch.setattr(MemoryFileSystem, "files", files)
    return files


def check(*arguments: str | Path) -> int:
    return main(["check", ROOT, "--num_workers", "1", *map(str, arguments)])


def shards(files) -> list[str]:
    return [path for path in files if path.endswith(".parquet")]


def test_a_remote_data_set_holds_and_every_file_is_read_once(remote, monkeypatch, capsys):
    opened: list[str] = []
    original = MemoryFileSystem.open

    def open_and_note(self, path, *args, **kwargs):
        opened.append(path)
        return original(self, path, *args, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "open", open_and_note)
    assert check("--corpus", CORPUS) == 0, capsys.readouterr()
    assert "66 documents" in capsys.readouterr().out
    assert sorted(path for path in opened if path in shards(remote)) == sorted(shards(remote))


def test_faults_of_remote_files_are_found(remote, capsys):
    one, other = shards(remote)
    remote[one] = remote[one][:-100]
    del remote[other]
    assert check() == 1
    printed = capsys.readouterr().out
    for rule in ("size", "sha256", "unreadable", "missing"):
        assert f": {rule}: " in printed


def refuse(path, *unused):
    raise BeamIOError("access denied", {path: PermissionError("no\nway")})


@pytest.mark.parametrize("where", ["open", "read"])
def test_what_the_file_system_refuses_is_a_line(remote, where, monkeypatch, capsys):
    original = MemoryFileSystem.open

    class Broken(io.BytesIO):
        def read(self, *unused):
            raise RuntimeError("connection\nlost")

    def open_or_refuse(self, path, *args, **kwargs):
        if path.endswith(".parquet"):
            return Broken() if where == "read" else refuse(path)
        return original(self, path, *args, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "open", open_or_refuse)
    assert check() == 1
    printed = capsys.readouterr()
    assert printed.out.count(": missing: cannot be read: ") == 2
    assert not printed.err


def test_a_manifest_that_cannot_be_read_is_an_error_of_one_line(remote, monkeypatch, capsys):
    monkeypatch.setattr(MemoryFileSystem, "open", lambda self, path, *a, **k: refuse(path))
    monkeypatch.setattr(MemoryFileSystem, "exists", lambda self, path: refuse(path))
    assert check() == 2
    printed = capsys.readouterr()
    assert "access denied" in printed.err
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("path", ["nosuch://box/out", "memory://elsewhere"])
def test_no_data_set_is_an_error_of_one_line(remote, path, capsys):
    assert main(["check", path]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
