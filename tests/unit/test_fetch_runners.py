"""``make runners``: once, whole or again, and one line on what is wrong."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from tests.clusters import fetch
from tests.clusters.fetch import Piece


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH with programs that do nothing; a function that makes another one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.setattr(fetch, "TOOLS", {name: f"The {name}" for name in ("a-java", "a-mvn")})

    def make(name, script="exit 0"):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    for name in fetch.TOOLS:
        make(name)
    return make


@pytest.fixture
def made(monkeypatch):
    """Pieces that write a file; how often each was made, and what the next one fails with."""
    counts = {"one": 0, "two": 0}
    failures: dict[str, Exception] = {}

    def make(name):
        def piece(folder, log):
            counts[name] += 1
            log.touch()
            (folder / f"{name}-jars").mkdir()
            (folder / f"{name}-jars" / "new").write_text(str(counts[name]))
            if name in failures:
                raise failures.pop(name)
            (folder / name).write_text("whole")

        return piece

    monkeypatch.setattr(fetch, "PIECES", tuple(Piece(name, "v1", make(name)) for name in counts))
    return counts, failures


def test_what_is_there_is_left_alone(tools, made, tmp_path, monkeypatch, capsys):
    counts, _ = made
    folder = tmp_path / "runners"
    assert not fetch.is_complete(folder)
    assert fetch.main([str(folder)]) == 0
    assert fetch.main([str(folder)]) == 0
    assert counts == {"one": 1, "two": 1}
    assert fetch.is_complete(folder)
    assert capsys.readouterr().out.count("\n") == 2
    monkeypatch.setattr(fetch, "TOOLS", {"no-such-program": "A program"})
    assert fetch.main([str(folder)]) == 0  # nothing is needed for nothing
    # Another version is another thing.
    one, two = fetch.PIECES
    monkeypatch.setattr(fetch, "TOOLS", {})
    monkeypatch.setattr(fetch, "PIECES", (one, Piece("two", "v2", two.make)))
    assert fetch.main([str(folder)]) == 0
    assert counts == {"one": 1, "two": 2}
    assert (folder / "two-jars" / "new").read_text() == "2"


def test_what_was_interrupted_is_done_again(tools, made, tmp_path, capsys):
    counts, failures = made
    folder = tmp_path / "runners"
    failures["two"] = fetch.MissingError("the registry is away")
    assert fetch.main([str(folder)]) == 1
    assert capsys.readouterr().err == "make runners: error: the registry is away\n"
    assert not fetch.is_complete(folder)
    assert not (folder / "two").exists()
    assert fetch.main([str(folder)]) == 0
    assert counts == {"one": 1, "two": 2}
    assert (folder / "two").read_text() == "whole"
    assert {path.name for path in folder.iterdir()} >= {"one", "two", "one-jars", "two-jars"}
    assert not list(folder.glob(".new-*"))


def test_programs_that_are_missing_are_named_before_anything_is_fetched(
    tools, made, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch.main([str(tmp_path / "runners")]) == 1
    line = "needs The a-java (a-java), The a-mvn (a-mvn): not installed, or not in the PATH"
    assert capsys.readouterr().err == f"make runners: error: {line}\n"
    assert made[0] == {"one": 0, "two": 0}


def test_a_program_that_fails_says_why(tools, tmp_path):
    program = tools("fails", "echo all is well; echo '[ERROR] no such artifact'; echo bye; exit 3")
    log = tmp_path / "log"
    with pytest.raises(fetch.MissingError) as caught:
        fetch._run([str(program)], log)
    said = str(caught.value)
    assert said == f"fails failed with 3: [ERROR] no such artifact (all of it: {log})"
    with pytest.raises(fetch.MissingError, match="failed with 1: the last"):
        fetch._run(["sh", "-c", "echo first; echo the last; exit 1"], log)


def test_a_jar_names_those_beside_it(tmp_path):
    jars = tmp_path / "some-jars"
    jars.mkdir()
    names = [f"an-artifact-with-a-long-name-{i}.jar" for i in range(9)]
    for name in names:
        (jars / name).touch()
    fetch._write_manifest_jar(tmp_path / "a.jar", "org.example.Main", jars)
    with zipfile.ZipFile(tmp_path / "a.jar") as jar:
        text = jar.read("META-INF/MANIFEST.MF").decode()
    assert max(map(len, text.split("\n"))) <= 72
    unfolded = text.replace("\n ", "").splitlines()
    assert unfolded[1] == "Main-Class: org.example.Main"
    assert unfolded[2] == "Class-Path: " + " ".join(f"some-jars/{name}" for name in names)


def test_it_needs_nothing_but_the_standard_library(tmp_path):
    code = "import sys; sys.modules.update(apache_beam=None, numpy=None); import fetch"
    where = fetch.HERE
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=where, check=False)
    assert done.returncode == 0
