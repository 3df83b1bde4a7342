"""Going on with a build that did not end: what is kept, what is made again, what is not left."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest

from pipeline.manifest import WriteManifest
from schemas.errors import ConfigError
from schemas.manifest import load_manifest
from tests.builds import DATA, build_here, digests, documents_of, write_text
from tests.end_to_end.commands import PROMPTLY, files_of, is_leftover, shards_of, wait_until_gone
from tests.end_to_end.slow_corpus import FLAGS, is_writing, make_slow_corpus

CORPUS = DATA / "sentences.txt"
SETTINGS = {"num_shards": 4, "dupe_factor": 1, "max_seq_length": (32, 64)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A build that nothing interrupted."""
    output = tmp_path_factory.mktemp("whole") / "out"
    build_here(CORPUS, output=output, **SETTINGS)
    return output


@pytest.fixture(scope="module")
def template(tmp_path_factory, whole):
    """One that failed at the very end: all of its shards are done, and there is no manifest."""
    output = tmp_path_factory.mktemp("failed") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WriteManifest, "expand", _fail)
        with pytest.raises(ZeroDivisionError):
            build_here(CORPUS, output=output, **SETTINGS)
    assert len(shards_of(output)) == 8
    assert "manifest.json" not in files_of(output)
    return output


def _fail(self, blocks):
    import apache_beam as beam

    return blocks | beam.combiners.ToList() | beam.Map(lambda blocks: 1 / 0)


@pytest.fixture
def failed(template, tmp_path):
    return shutil.copytree(template, tmp_path / "out", copy_function=shutil.copy2)


def stamps(output) -> dict[str, tuple[int, int]]:
    """Which file it is, and when it was written."""
    found = {str(p.relative_to(output)): p.stat() for p in output.glob("seq*/*")}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in found.items()}


def resume(output, *inputs, **settings):
    return build_here(*(inputs or [CORPUS]), output=output, resume=True, **(SETTINGS | settings))


def same_as(output, whole) -> bool:
    """The same shards, the same manifest but for where it is, and no other file."""
    manifests = []
    for directory in (output, whole):
        manifest = json.loads((directory / "manifest.json").read_text())
        manifests.append(manifest | {"configuration": None})
    return (
        files_of(output) == files_of(whole)
        and digests(output) == digests(whole)
        and manifests[0] == manifests[1]
    )


def test_finished_shards_are_kept(failed, whole):
    before = stamps(failed)
    resume(failed)
    assert stamps(failed) == before
    assert same_as(failed, whole)


def test_a_shard_whose_bytes_were_changed_is_made_again(failed, whole, capsys):
    before = stamps(failed)
    changed = "seq32/train-00002-of-00004.parquet"
    content = bytearray((failed / changed).read_bytes())
    content[len(content) // 2] ^= 1
    (failed / changed).write_bytes(content)
    resume(failed)
    after = stamps(failed)
    assert [name for name in before if before[name] != after[name]] == [changed]
    assert same_as(failed, whole)
    said = f"bert-data: warning: {changed}: its checksum does not hold; it is made again\n"
    assert capsys.readouterr().err == said


def test_shards_that_cannot_be_trusted_are_made_again(failed, whole):
    before = stamps(failed)
    cut_off, gone, no_note, damaged_note = (
        f"seq64/train-0000{i}-of-00004.parquet" for i in range(4)
    )
    notes = {shard: failed / ".resume" / f"{shard.replace('/', '-')}.json" for shard in before}
    assert all(note.exists() for note in notes.values())
    os.truncate(failed / cut_off, 1000)
    (failed / gone).unlink()
    notes[no_note].unlink()
    notes[damaged_note].write_text('{"digest": "0"')
    resume(failed)
    after = stamps(failed)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {cut_off, gone, no_note, damaged_note}
    assert same_as(failed, whole)


def test_only_blocks_whose_documents_changed_are_made_again(failed, tmp_path):
    documents = documents_of(CORPUS)
    documents[7] = [*documents[7], "And then one more sentence."]
    corpus = write_text(tmp_path / "changed.txt", documents)
    before = stamps(failed)
    resume(failed, corpus)
    after = stamps(failed)
    changed = {name.rpartition("/")[2] for name in before if before[name] != after[name]}
    assert 1 <= len(changed) <= 2  # the document's old block and its new one
    build_here(corpus, output=tmp_path / "new", **SETTINGS)
    assert same_as(failed, tmp_path / "new")


@pytest.mark.parametrize(
    "settings",
    [{"random_seed": 1}, {"num_shards": 3}, {"max_seq_length": (64,)}],
    ids=lambda settings: next(iter(settings)),
)
def test_other_settings_keep_nothing(failed, tmp_path, settings):
    before = stamps(failed)
    resume(failed, **settings)
    assert not set(before.values()) & set(stamps(failed).values())
    build_here(CORPUS, output=tmp_path / "new", **(SETTINGS | settings))
    assert same_as(failed, tmp_path / "new")


def test_another_pyarrow_keeps_nothing(failed, monkeypatch):
    before = stamps(failed)
    monkeypatch.setattr("pyarrow.__version__", "0.0.1")
    resume(failed)
    assert not set(before.values()) & set(stamps(failed).values())


@pytest.mark.parametrize("there", ["nothing", "an empty directory", "a data set"])
def test_there_need_not_be_anything_to_resume(tmp_path, whole, there):
    output = tmp_path / "deep" / "out"
    if there == "an empty directory":
        output.mkdir(parents=True)
    elif there == "a data set":
        shutil.copytree(whole, output)
    resume(output)
    assert same_as(output, whole)


def test_going_on_has_to_be_asked_for(failed):
    before = files_of(failed)
    with pytest.raises(
        ConfigError, match=r"an interrupted build; --overwrite .*, --resume goes on"
    ):
        build_here(CORPUS, output=failed, **SETTINGS)
    assert files_of(failed) == before


def test_refused_records_of_the_interrupted_build_are_not_counted_twice(failed, whole):
    (failed / "rejects").mkdir()
    (failed / "rejects" / f"{0:032x}.jsonl").write_text("{}\n")
    assert resume(failed).counts.rejects == 0
    assert same_as(failed, whole)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow")
    return make_slow_corpus(folder / "slow.jsonl")


@pytest.fixture(scope="module")
def slow_whole(commands, slow, tmp_path_factory):
    output = tmp_path_factory.mktemp("slow") / "out"
    assert commands.build(slow, output, "--num_workers=1", *FLAGS).wait().code == 0
    return output


#: Each worker writes two shards, and takes for ever for the next.
STAYS = """
import time
import transforms.shards as shards
before, written = shards.write_block, []
def write_block(*arguments, **keywords):
    written.append(True)
    if len(written) > 2:
        time.sleep(100)
    return before(*arguments, **keywords)
shards.write_block = write_block
"""


def test_a_build_that_was_killed_ends_with_the_same_bytes(commands, slow, slow_whole, tmp_path):
    output = tmp_path / "out"
    command = commands.build(slow, output, "--num_workers=2", *FLAGS, before=STAYS)
    command.until(lambda: is_writing(output))
    assert len(command.workers()) == 2
    os.kill(command.pid, signal.SIGKILL)
    assert command.wait(PROMPTLY).stderr == ""
    wait_until_gone(command.pid)
    there = shards_of(output)
    noted = {json.loads(p.read_text())["shard"]["path"] for p in output.glob(".resume/*.json")}
    assert noted <= set(there)
    assert 0 < len(there) < 8
    assert list(filter(is_leftover, files_of(output)))
    before = stamps(output)
    done = commands.build(slow, output, "--num_workers=2", "--resume", *FLAGS).wait()
    assert (done.code, done.stderr) == (0, "")
    assert same_as(output, slow_whole)
    after = stamps(output)
    assert {name for name in there if before[name] == after[name]} >= noted


def test_a_worker_says_that_it_makes_a_shard_again(commands, failed, whole):
    changed = failed / "seq32/train-00000-of-00004.parquet"
    changed.write_bytes(b"PAR1")
    flags = [f"--{name}={value}" for name, value in SETTINGS.items() if name != "max_seq_length"]
    flags += ["--max_seq_length=32,64", "--num_workers=2", "--resume"]
    done = commands.build(CORPUS, failed, *flags).wait()
    assert done.code == 0
    name = changed.relative_to(failed)
    assert done.stderr == (
        f"bert-data: warning: {name}: its checksum does not hold; it is made again\n"
    )
    assert same_as(failed, whole)


def test_a_complete_data_set_is_not_gone_on_with(whole, tmp_path):
    output = tmp_path / "out"
    first = shutil.copytree(whole, output, copy_function=shutil.copy2)
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    assert resume(output) == load_manifest(output)
    with pytest.raises(ConfigError, match="a complete data set of other settings; --overwrite"):
        resume(output, random_seed=7)
    copy = shutil.copy(CORPUS, tmp_path / "other.txt")
    with pytest.raises(ConfigError, match="a complete data set of other input; --overwrite"):
        resume(output, copy)
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == before
