"""What may be in the output directory before, what is in it after, and that no file is lost."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from pathlib import Path

import pytest

from pipeline.output import clear_leftovers, locked, prepare_output, spill_folder
from schemas.errors import ConfigError
from tests.builds import DATA, build_here, digests
from tests.end_to_end.commands import error_line, files_of
from tests.end_to_end.slow_corpus import FLAGS, is_writing, make_slow_corpus

CORPUS = DATA / "sentences.txt"
SETTINGS = {"dupe_factor": 1, "num_shards": 2}
SHARDS = {f"seq128/train-0000{i}-of-00002.parquet" for i in range(2)}
DESCRIPTIONS = {"README.md", "manifest.json", "tokenizer.json", "vocab.txt"}
HEX = f"{1:032x}"

FLAGS_OF = {"neither": {}, "overwrite": {"overwrite": True}, "resume": {"resume": True}}


@pytest.fixture(params=FLAGS_OF)
def flags(request):
    return FLAGS_OF[request.param]


@pytest.fixture(params=["overwrite", "resume"])
def replaces(request):
    return FLAGS_OF[request.param]


def put(directory: Path, *names: str) -> dict[str, bytes]:
    """Files with their names as content."""
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            path.write_text(name)
    return contents(directory)


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in files_of(directory)}


def prepare(output: Path, *, overwrite=False, resume=False, inputs=(), shards=SHARDS) -> None:
    """As a build of two shards does."""
    with locked(str(output)):
        prepare_output(
            str(output),
            overwrite=overwrite,
            resume=resume,
            inputs=list(map(str, inputs)),
            shards=shards,
        )


def test_exactly_what_is_promised_is_there(tmp_path):
    build_here(CORPUS, output=tmp_path / "a" / "b", **SETTINGS)
    assert files_of(tmp_path) == {f"a/b/{name}" for name in SHARDS | DESCRIPTIONS}
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == sorted(
        {"seq128"} | DESCRIPTIONS
    )


@pytest.mark.parametrize(
    "names",
    [
        ["notes.txt"],
        ["README.md", "vocab.txt"],
        ["manifest.json"],
        ["manifest.json", "rejects/bug-1.txt"],
        ["rejects/mine.jsonl", "README.md"],
        ["seq128/mine.parquet"],
        ["sequence/train-00000-of-00001.parquet"],
        [".spill-mine/1.arrow"],
        ["folder/"],
        ["rejects/", "README.md"],
        [".hidden"],
    ],
    ids=",".join,
)
def test_files_of_others_are_refused_and_left_alone(tmp_path, names, flags):
    before = put(tmp_path / "out", *names)
    with pytest.raises(ConfigError, match="holds files that are no data set's, such as '") as error:
        prepare(tmp_path / "out", **flags)
    assert error.value.field == "output"
    assert contents(tmp_path / "out") == before
    assert all((tmp_path / "out" / name).exists() for name in names)


def test_a_manifest_of_another_program_protects_what_looks_like_ours(tmp_path, flags):
    before = put(tmp_path / "out", *SHARDS, "manifest.json", f"rejects/{HEX}.jsonl")
    (tmp_path / "out" / "manifest.json").write_text('{"name": "My app", "manifest_version": 3}')
    before = contents(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"such as 'manifest\.json'"):
        prepare(tmp_path / "out", **flags)
    assert contents(tmp_path / "out") == before


def test_a_build_refuses_them_before_it_writes(tmp_path):
    before = put(tmp_path / "out", "notes.txt")
    with pytest.raises(ConfigError, match=r"such as 'notes\.txt'"):
        build_here(CORPUS, output=tmp_path / "out", overwrite=True, **SETTINGS)
    assert contents(tmp_path / "out") == before


def test_a_data_set_is_not_replaced_without_a_flag(tmp_path):
    build_here(CORPUS, output=tmp_path / "out", **SETTINGS)
    before = contents(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"already holds a data set; --overwrite replaces it$"):
        build_here(CORPUS, output=tmp_path / "out", random_seed=1, **SETTINGS)
    assert contents(tmp_path / "out") == before


def test_no_old_shard_lives_on_and_no_foreign_file_dies(tmp_path, replaces):
    output = tmp_path / "out"
    build_here(CORPUS, output=output, num_shards=5, dupe_factor=1, max_seq_length=(32, 128))
    foreign = ["notes.txt", "seq128/notes.txt", "rejects/notes.txt", "seq32/sub/x", ".mine"]
    mine = put(output, *foreign)
    put(output, f"rejects/{HEX}.jsonl", "report.html", f".spill-{HEX}/{HEX}.arrow")
    put(output, f"seq128/.train-00000-of-00005.parquet.{HEX}.tmp", f".README.md.{HEX}.tmp")
    if "resume" in replaces:  # which goes on with what is not complete, and knows no report then
        (output / "manifest.json").unlink()
        (output / "report.html").unlink()
    build_here(CORPUS, output=output, random_seed=2, **replaces, **SETTINGS)
    assert files_of(output) == SHARDS | DESCRIPTIONS | set(foreign)
    assert all((output / name).read_bytes() == mine[name] for name in foreign)
    build_here(CORPUS, output=tmp_path / "new", random_seed=2, **SETTINGS)
    assert digests(output) == digests(tmp_path / "new")


@pytest.mark.parametrize(
    ("names", "state"),
    [
        ([], None),
        ([".resume/"], None),
        ([".resume/", f".spill-{HEX}/{HEX}.arrow"], None),
        ([f".spill-{HEX}/"], None),
        ([f"rejects/{HEX}.jsonl"], "an interrupted build"),
        ([".resume/", *SHARDS], "an interrupted build"),
        ([*SHARDS], "an interrupted build"),
        ([".resume/", *SHARDS, "README.md", "tokenizer.json"], "an interrupted build"),
    ],
)
def test_what_an_interrupted_build_leaves_is_known(tmp_path, names, state):
    output = tmp_path / "out"
    before = put(output, *names)
    if state:
        with pytest.raises(ConfigError, match=f"already holds {state}; "):
            prepare(output)
        assert contents(output) == before
    for flags in FLAGS_OF.values() if state is None else [{"resume": True}, {"overwrite": True}]:
        prepare(output, **flags)
        assert (output / ".resume").is_dir()
        assert SHARDS & files_of(output) == (SHARDS & set(names) if "resume" in flags else set())
        assert not list(output.glob("rejects*"))


def test_a_build_killed_before_its_first_shard_over_a_data_set_can_go_on(tmp_path):
    # The manifest is gone, no note has been written: only the names of the shards are left.
    build_here(CORPUS, output=tmp_path / "out", **SETTINGS)
    prepare(tmp_path / "out", resume=True)
    assert "manifest.json" not in files_of(tmp_path / "out")
    build_here(CORPUS, output=tmp_path / "out", resume=True, **SETTINGS)
    assert files_of(tmp_path / "out") == SHARDS | DESCRIPTIONS


def test_what_would_be_removed_cannot_be_the_input(tmp_path, replaces):
    output = tmp_path / "out"
    put(output, f"rejects/{HEX}.jsonl")
    (tmp_path / "link.jsonl").symlink_to(output / "rejects" / f"{HEX}.jsonl")
    before = contents(output)
    with pytest.raises(ConfigError, match="is in the output directory and would be removed"):
        prepare(output, inputs=[CORPUS, tmp_path / "link.jsonl"], **replaces)
    assert contents(output) == before


def test_the_vocabulary_of_the_data_set_itself_may_be_used(tmp_path):
    output = tmp_path / "out"
    build_here(CORPUS, output=output, **SETTINGS)
    before = digests(output)
    vocab_file = str(output / "vocab.txt")
    build_here(CORPUS, output=output, overwrite=True, vocab_file=vocab_file, **SETTINGS)
    assert digests(output) == before


def test_links_are_followed_and_not_removed(tmp_path):
    (tmp_path / "big disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "big disk")
    build_here(CORPUS, output=tmp_path / "out", **SETTINGS)
    build_here(CORPUS, output=tmp_path / "out", overwrite=True, **SETTINGS)
    assert files_of(tmp_path / "big disk") == SHARDS | DESCRIPTIONS
    assert (tmp_path / "out").is_symlink()


@pytest.mark.parametrize("below", ["", "/deeper"])
def test_it_has_to_be_a_directory(tmp_path, below):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match=f"--output='{tmp_path}/out{below}': "):
        prepare(Path(f"{tmp_path}/out{below}"), overwrite=True)
    assert (tmp_path / "out").read_text() == "mine"


def test_wrong_settings_leave_nothing(tmp_path):
    with pytest.raises(ConfigError):
        build_here(tmp_path / "missing.txt", output=tmp_path / "out", **SETTINGS)
    assert not list(tmp_path.iterdir())


# Two builds at once.


def test_a_second_build_is_refused_while_the_first_is_at_work(commands, tmp_path):
    corpus = make_slow_corpus(tmp_path / "slow.jsonl")
    first = commands.build(corpus, tmp_path / "out", "--num_workers=2", *FLAGS)
    first.until(lambda: is_writing(tmp_path / "out"))
    os.kill(first.pid, signal.SIGSTOP)
    second = commands.build(CORPUS, tmp_path / "out", "--overwrite").wait()
    os.kill(first.pid, signal.SIGCONT)
    assert second.code == 2
    assert "another build is writing to it" in error_line(second)
    assert first.wait().code == 0
    assert len(digests(tmp_path / "out")) == 8
    third = commands.build(CORPUS, tmp_path / "out", "--overwrite", "--num_workers=2").wait()
    assert third.code == 0
    assert len(digests(tmp_path / "out")) == 1


def test_the_lock_ends_with_its_owner(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.output._LOCK_SECONDS", 0.1)
    output = str(tmp_path / "out")
    with locked(output), pytest.raises(ConfigError, match="another build"), locked(output):
        pytest.fail("not locked")
    with locked(output):
        pass
    assert not list((tmp_path / "out").iterdir())


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    build_here(CORPUS, output=tmp_path / "out", **SETTINGS)
    assert files_of(tmp_path / "out") == SHARDS | DESCRIPTIONS


# Files needed during the run.


def test_spilled_files_are_where_they_should_be(tmp_path):
    (tmp_path / "out").mkdir()
    for base in (tmp_path / "temp" / "deep", tmp_path / "out"):
        with spill_folder(str(base), output=str(tmp_path / "out")) as folder:
            assert Path(folder).parent == base
            Path(folder, "1.arrow").write_text("x")
        assert not list(base.iterdir())


def test_a_build_spills_to_the_temp_dir(tmp_path, monkeypatch):
    from transforms import blocks

    paths, spill = [], blocks.spill

    def spy(batches, layout, directory):
        paths.append(directory)
        return spill(batches, layout, directory)

    monkeypatch.setattr(blocks, "spill", spy)
    temp_dir = tmp_path / "temp"
    build_here(CORPUS, output=tmp_path / "out", temp_dir=str(temp_dir), **SETTINGS)
    assert [os.path.dirname(path) for path in paths] == [str(temp_dir)]
    assert not list(temp_dir.iterdir())


def test_spilled_files_of_the_dead_are_removed_and_of_nobody_else(tmp_path):
    base, output = tmp_path / "temp", tmp_path / "out"
    output.mkdir()
    put(base, f".spill-{2:032x}/{HEX}.arrow", "mine.txt", ".spill-mine/1.arrow")
    put(base, f".spill-{3:032x}/notes.txt", f".spill-{4:032x}/")
    with contextlib.ExitStack() as stack:
        living = stack.enter_context(spill_folder(str(base), output=str(output)))
        Path(living, f"{HEX}.arrow").write_text("needed")
        other = stack.enter_context(spill_folder(str(base), output=str(output)))
        assert Path(living, f"{HEX}.arrow").read_text() == "needed"
        assert Path(other).is_dir()
    assert files_of(base) == {"mine.txt", ".spill-mine/1.arrow", f".spill-{3:032x}/notes.txt"}
    assert not (base / f".spill-{4:032x}").exists()


def test_the_temp_dir_has_to_be_a_directory(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=r"--temp_dir='.*': cannot be made: File exists"):
        build_here(CORPUS, output=tmp_path / "out", temp_dir=str(tmp_path / "file"), **SETTINGS)
    assert not list((tmp_path / "out").iterdir())


def test_only_leftovers_are_cleared(tmp_path):
    names = ["seq128/x.tmp", ".x.tmp", "a.txt", f"sub/sub/.x.{HEX}.tmp", f"rejects/{HEX}.jsonl"]
    put(tmp_path, *names)
    put(tmp_path, f".x.{HEX}.tmp", f"seq128/.y.parquet.{HEX}.tmp", f".spill-{HEX}/{HEX}.arrow")
    clear_leftovers(str(tmp_path))
    assert files_of(tmp_path) == set(names)
