"""Where files are: what a path says, what is missing for it, and how its errors are said."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys

import pytest
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from pipeline.cli import main
from schemas import stores
from schemas.errors import ConfigError
from schemas.store_clients import share_amazon_session
from schemas.stores import exists, list_below, local_path, open_file, remove, require_store
from tests.builds import DATA, VOCAB, run_command
from tests.unit.remote import MemoryFileSystem

CORPUS = str(DATA / "documents.jsonl")


@pytest.mark.parametrize(
    ("path", "local"),
    [("a/b", "a/b"), ("/a", "/a"), ("file:///a", "/a"), ("gs://b/a", None), ("hf:name", "hf:name")],
)
def test_a_path_says_where_it_is(path, local):
    assert local_path(path) == local


@pytest.fixture
def without(monkeypatch):
    """Nothing of what a store needs is installed."""
    original = importlib.util.find_spec

    def find(name, *rest):
        if name == "google.cloud.storage":
            raise ModuleNotFoundError(name)  # as where there is no google at all
        return None if name in ("boto3", "hdfs", "azure.storage.blob") else original(name, *rest)

    monkeypatch.setattr(stores.importlib.util, "find_spec", find)


NEEDS = "needs a package that is not installed: pip install"
REMEDIES = {
    "gs": f'{NEEDS} "bert-data[gcp]"',
    "s3": f'{NEEDS} "bert-data[aws]"',
    "hdfs": f'{NEEDS} "apache-beam[hadoop]"',
    "azfs": f'{NEEDS} "apache-beam[azure]"',
    "nosuch": "there is no file system for nosuch://; give a path on this machine, or gs://, s3://, "
    "azfs://, hdfs://",
}


@pytest.mark.parametrize("scheme", REMEDIES)
@pytest.mark.parametrize("flag", ["input", "vocab_file", "output", "temp_dir"])
def test_a_build_says_what_is_not_installed(without, scheme, flag, tmp_path, capsys):
    values = {
        "input": CORPUS,
        "vocab_file": VOCAB,
        "output": tmp_path / "out",
        "temp_dir": tmp_path,
    }
    values[flag] = url = f"{scheme}://box/a"
    for command in ("build", "plan"):
        assert main([command, *(f"--{name}={value}" for name, value in values.items())]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line == f"bert-data: error: --{flag}='{url}': {REMEDIES[scheme]}"
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("scheme", REMEDIES)
@pytest.mark.parametrize("command", ["show", "check"])
def test_what_reads_a_data_set_says_it_too(without, scheme, command, capsys):
    assert main([command, f"{scheme}://box/a"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"bert-data: error: --directory='{scheme}://box/a': ")
    assert REMEDIES[scheme] in line


def test_the_trainer_says_it_too(without, tmp_path, capsys):
    from train.cli import main as train

    assert train(["gs://box/a", "--output", str(tmp_path / "model")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--data='gs://box/a': " in line
    assert REMEDIES["gs"] in line


def test_a_local_run_needs_a_folder_of_this_machine(tmp_path, capsys):
    flags = [f"--vocab_file={VOCAB}", f"--output={tmp_path / 'out'}", "--temp_dir=memory://box/a"]
    assert main(["build", CORPUS, *flags]) == 2
    assert (
        "--temp_dir='memory://box/a': must be a folder on this machine" in capsys.readouterr().err
    )


class _ClientError(Exception):
    """As the clients of stores have them: no OSError, with the code of HTTP."""

    def __init__(self, code: int):
        super().__init__(f"no\nwords {code}")
        self.code = code


@pytest.mark.parametrize(
    ("code", "kind"), [(404, FileNotFoundError), (403, PermissionError), (503, OSError)]
)
def test_errors_of_clients_are_those_of_the_system(monkeypatch, code, kind):
    class Broken(io.BytesIO):
        def read(self, *unused):
            raise _ClientError(code)

    def refuse(self, path, *unused):
        raise _ClientError(code)

    monkeypatch.setattr(MemoryFileSystem, "open", lambda self, path, *unused: Broken())
    with open_file("memory://box/a") as file, pytest.raises(kind) as found:
        file.read(10)
    assert "\n" not in str(found.value)
    monkeypatch.setattr(MemoryFileSystem, "open", refuse)
    with pytest.raises(kind):
        open_file("memory://box/a")


def test_files_are_listed_and_removed(monkeypatch):
    files = {"memory://box/out/a": b"1", "memory://box/out/b/c": b"22", "memory://box/outer": b""}
    monkeypatch.setattr(MemoryFileSystem, "files", files)
    assert list_below("memory://box/out") == {"a": 1, "b/c": 2}
    assert exists("memory://box/outer")
    assert not exists("memory://box/out")
    remove(["memory://box/out/a", "memory://box/outer"])
    remove(["memory://box/outer"])
    assert set(files) == {"memory://box/out/b/c"}


def test_what_cannot_be_removed_is_an_error(monkeypatch):
    def refuse(self, paths):
        raise BeamIOError("denied", dict.fromkeys(paths, "no"))

    monkeypatch.setattr(MemoryFileSystem, "files", {"memory://box/a": b"1"})
    monkeypatch.setattr(MemoryFileSystem, "delete", refuse)
    with pytest.raises(OSError, match="denied"):
        remove(["memory://box/a"])


def test_store_packages_are_not_imported_for_what_is_here():
    done = run_command("build", "--help", env={})
    assert done.stderr == ""
    program = "import sys, schemas.stores, pipeline.cli, train.manifest; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"google.cloud.storage", "boto3"} & set(loaded.stdout.split())
    assert loaded.stderr == ""


def test_importing_beam_with_its_stores_says_nothing():
    loaded = subprocess.run(
        [sys.executable, "-c", "import pipeline.run"], capture_output=True, text=True, check=True
    )
    assert (loaded.stdout, loaded.stderr) == ("", "")


def test_flags_of_beam_reach_the_file_systems_before_a_pipeline_is_made(monkeypatch, tmp_path):
    """What is looked up before it runs is already in the store that the flags name."""
    from apache_beam.options.pipeline_options import S3Options

    seen = []

    def note(self, path):
        seen.append(FileSystems._pipeline_options.view_as(S3Options).s3_endpoint_url)
        raise BeamIOError("seen", {path: "enough"})

    monkeypatch.setattr(MemoryFileSystem, "exists", note)
    flags = [f"--vocab_file={VOCAB}", f"--output={tmp_path / 'out'}"]
    for command in ("build", "plan"):
        main([command, "memory://box/a", *flags, f"--s3_endpoint_url=http://{command}"])
    assert seen == ["http://build", "http://plan"]


def test_clients_of_s3_are_of_one_session(monkeypatch):
    """Each of its own costs ten times as much."""
    boto3 = pytest.importorskip("boto3")
    from apache_beam.io.aws.clients.s3 import boto3_client
    from apache_beam.options.pipeline_options import PipelineOptions

    made = []

    def make(make_one=boto3.session.Session):
        made.append(make_one())
        return made[-1]

    monkeypatch.setattr(boto3.session, "Session", make)
    monkeypatch.setattr(boto3_client, "boto3", boto3)
    monkeypatch.setattr(stores, "share_amazon_session", share_amazon_session.__wrapped__)
    stores.file_system("s3://box/a")
    options = PipelineOptions(["--s3_region_name=eu-west-1"])
    one, other = boto3_client.Client(options).client, boto3_client.Client(options).client
    assert one is not other
    assert len(made) == 1
    assert one.meta.region_name == "eu-west-1"


def test_a_wrong_store_is_refused_by_name():
    with pytest.raises(
        ConfigError, match=r"--corpus='ftp://a': there is no file system for ftp://"
    ):
        require_store("corpus", "ftp://a")
