"""Found by people who tried to break it: each was a crash, a wrong code or a misleading word once."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from schemas.errors import ConfigError, SingleDocumentError
from schemas.manifest import ManifestError, load_manifest
from tests.builds import DATA, ROOT, VOCAB, build_here, run_command

CORPUS = DATA / "sentences.txt"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    output = tmp_path_factory.mktemp("finished") / "out"
    build_here(CORPUS, output=output, dupe_factor=1)
    return output


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "2>&-"])
def test_closed_descriptors_are_no_failure(tmp_path, finished, closed):
    python = f"{sys.executable} -m pipeline"
    build = f"{python} build {CORPUS} --vocab_file {VOCAB} --dupe_factor 1 --output {tmp_path}/out"
    for command in (f"{build} {closed}", f"{python} show {finished} -n 1 {closed}"):
        assert subprocess.run(command, shell=True, cwd=ROOT, check=False).returncode == 0
    assert load_manifest(tmp_path / "out").counts.documents == 66


def test_a_terminal_without_arrows(finished):
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = run_command("show", finished, "-n", "1", env=ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert "NotNext" in done.stdout or "IsNext" in done.stdout


@pytest.mark.parametrize("content", [None, "{}", "no json"])
def test_show_names_a_tokenizer_that_is_none(tmp_path, finished, content):
    output = shutil.copytree(finished, tmp_path / "out")
    (output / "tokenizer.json").unlink()
    if content is not None:
        (output / "tokenizer.json").write_text(content)
    done = run_command("show", output)
    assert done.returncode == 2
    assert f"{output}/tokenizer.json: cannot be read as a tokenizer" in done.stderr


@pytest.mark.parametrize("content", [None, "[" * 300_000])
def test_a_manifest_that_is_none(tmp_path, content):
    if content is None:
        (tmp_path / "manifest.json").mkdir()
    else:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ManifestError):
        load_manifest(tmp_path)


def test_a_runner_that_beam_does_not_know(tmp_path):
    with pytest.raises(ConfigError, match="--runner='nope': "):
        build_here(CORPUS, output=tmp_path / "out", runner="nope")


def test_a_corpus_that_is_refused_whole_says_so(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"body": "A."}\n{"body": "B."}\n')
    with pytest.raises(
        SingleDocumentError, match=r"all 2 records were refused \(2 missing_field\)"
    ):
        build_here(path, output=tmp_path / "out", max_reject_fraction=1.0)


def test_more_shards_than_documents_is_said(tmp_path, capfd):
    done = run_command(
        "build", CORPUS, "--vocab_file", VOCAB, "--output", tmp_path / "out",
        "--num_shards=150", "--dupe_factor=1",
    )  # fmt: skip
    assert done.returncode == 0
    assert (
        "of the 150 shards of seq128/train have no example; give fewer --num_shards" in done.stdout
    )


def test_threads_of_the_tokenizer_do_not_hang_a_forked_worker(tmp_path):
    done = run_command(
        "build", CORPUS, "--vocab_file", VOCAB, "--output", tmp_path / "out", "--num_workers=2",
        env={"TOKENIZERS_PARALLELISM": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
