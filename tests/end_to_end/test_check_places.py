"""``bert-data check`` of what cannot be read or reached: violations, or one line that says what to do."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline import check_graph
from pipeline.check import check
from pipeline.cli import main
from runners.local import _DeathWatch
from tests.builds import DATA, build_here, run_command
from tests.fault_files import edit
from tests.faults import Planter

CORPUS = DATA / "documents.jsonl"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("built") / "out"
    build_here(CORPUS, output=output, dupe_factor=2, num_shards=2)
    return output


@pytest.fixture
def planter(built, tmp_path) -> Planter:
    shutil.copytree(built, tmp_path / "out")
    return Planter(tmp_path / "out")


@pytest.fixture
def in_time():
    """A test that waits for ever is ended."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waits without end"))
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("name", ["shard", "tokenizer.json", "vocab.txt", "manifest.json"])
def test_a_pipe_in_a_files_place_is_a_violation(planter, name, in_time, capsys):
    path = planter.path() if name == "shard" else planter.directory / name
    path.unlink()
    os.mkfifo(path)
    assert main(["check", str(planter.directory), "--num_workers", "1"]) == 1
    printed = capsys.readouterr()
    assert "is not a regular file" in printed.out
    assert "error" not in printed.err


def rows(number: int):
    def plant(planter: Planter) -> None:
        d = planter.manifest["data_sets"][0]
        d["shards"][0]["rows"] += number
        d["shards"][1]["rows"] -= number
        planter.save()

    return plant


DAMAGES = {
    "rows": (rows(10**25), "rows"),
    "NUL in a shard's name": (
        edit("data_sets", 0, "shards", 0, "path", value="seq128/\0.parquet"),
        "missing",
    ),
    "NUL in the tokenizer's name": (edit("tokenizer", "file", value="to\0.json"), "tokenizer"),
    "tokenizer elsewhere": (edit("tokenizer", "file", value="/etc/hostname"), "tokenizer"),
    "data set's name": (edit("data_sets", 0, "name", value="foo"), "data_sets"),
    "negative count": (edit("counts", "tokens", value=-1), "counts"),
    "too many copies": (edit("counts", "duplicate_documents", value=10**30), "counts"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_manifest_that_cannot_be_is_a_violation(planter, damage, workers):
    plant, rule = DAMAGES[damage]
    plant(planter)
    done = run_command("check", planter.directory, "--num_workers", workers)
    assert done.returncode == 1
    assert f": {rule}: " in done.stdout
    assert "error" not in done.stderr


def test_short_rows_that_lack_one_token(tmp_path):
    """Of documents kept apart, a row may be full with a token less."""
    settings = {"max_seq_length": (16,), "sep_between_documents": True, "short_seq_prob": 0.9}
    build_here(CORPUS, output=tmp_path / "out", objective="mlm", **settings)
    assert main(["check", str(tmp_path / "out"), "--num_workers", "1"]) == 0


def test_more_short_rows_than_rows_that_are_not_full(tmp_path, capsys):
    build_here(CORPUS, output=tmp_path / "out", objective="mlm", short_seq_prob=0.1)
    assert main(["check", str(tmp_path / "out"), "--num_workers", "1"]) == 0
    edit("data_sets", 0, "rates", "short", value=0.9)(Planter(tmp_path / "out"))
    assert main(["check", str(tmp_path / "out"), "--num_workers", "1"]) == 1
    assert "rates.short is 0.9" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["foo://x/y"], "no file system for foo://"),
        (["http://x/y"], "no file system for http://"),
        (["gs://x/y"], 'pip install "bert-data[gcp]"'),
        (["s3://x/y"], 'pip install "bert-data[aws]"'),
        (["{built}", "--temp_dir", "{built}/manifest.json/x"], "--temp_dir="),
        (["{built}", "--temp_dir", "s3://x/y"], "a folder on this machine"),
    ],
)
def test_a_place_out_of_reach(built, arguments, words, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["check", *(each.format(built=built) for each in arguments)]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not printed.out


def test_folders_of_killed_audits_go(built, tmp_path):
    """Old ones that nobody holds: not young ones, nor others' files."""
    names = ["bert-data-check-" + digit * 32 for digit in "ab"] + ["bert-data-check-mine"]
    folders = [tmp_path / name for name in names]
    for folder in folders:
        folder.mkdir()
        (folder / "0.hashes").write_bytes(b"12345678")
    for folder in (folders[0], folders[2]):
        os.utime(folder, (time.time() - 10**6,) * 2)
    assert main(["check", str(built), "--num_workers", "1", "--temp_dir", str(tmp_path)]) == 0
    assert sorted(os.listdir(tmp_path)) == sorted(names[1:])


def test_a_worker_that_was_killed(built, monkeypatch):
    """The remedy is one that check has."""
    runs: list[Any] = []
    causes: list[str] = []

    class Workers:
        def find_dead(self) -> str:
            return "was killed by SIGKILL"

    class Interrupts:
        cause = None

        def insist(self) -> None:
            pass

        def stop(self, cause: Exception) -> None:
            causes.append(str(cause))

    class StoppedError(Exception):
        pass

    def note(construct, run, **unused):
        runs.append(run)
        raise StoppedError

    monkeypatch.setattr(check_graph, "run_locally", note)
    with pytest.raises(StoppedError):
        check(str(built))
    workers: Any = Workers()
    interrupts: Any = Interrupts()
    _DeathWatch(workers, interrupts, runs[0].less_memory).check()
    assert causes == [
        "a worker process was killed by SIGKILL; if the machine ran out of memory, "
        "use fewer --num_workers"
    ]
    assert "--resume" not in runs[0].go_on
