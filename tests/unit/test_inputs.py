"""Every file is found once, and every byte of it belongs to one task."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ConfigError
from tests.unit.compressing import COMPRESS
from tests.unit.remote import MemoryFileSystem
from transforms.inputs import InputFile, list_inputs
from transforms.read_tasks import FileShare, plan_reads

MIB = 1 << 20


def make(folder: Path, *names: str, content: bytes = b"text") -> list[str]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return [str(folder / name) for name in names]


def paths(patterns, format="auto") -> list[str]:
    return [file.path for file in list_inputs([str(p) for p in patterns], format=format)]


# What is found


def test_paths_patterns_and_folders(tmp_path):
    make(tmp_path, "a.txt", "b.txt", "c.jsonl", "deep/er/d.txt")
    make(tmp_path, ".hidden", "_SUCCESS", "deep/.git/e.txt", "_temp/f.txt", "deep/er/_g.txt")
    everything = [str(tmp_path / name) for name in ("a.txt", "b.txt", "c.jsonl", "deep/er/d.txt")]
    assert paths([tmp_path]) == everything
    assert paths([f"{tmp_path}/"]) == [
        f"{tmp_path}/" + p[len(f"{tmp_path}/") :] for p in everything
    ]
    assert paths([tmp_path / "*.txt"]) == everything[:2]
    assert paths([tmp_path / "**"]) == everything
    assert paths([tmp_path / "**" / "*.txt"]) == [everything[i] for i in (0, 1, 3)]
    assert paths([tmp_path / "_*"]) == [str(tmp_path / "_SUCCESS"), str(tmp_path / "_temp/f.txt")]
    assert paths([tmp_path / "b.txt", tmp_path / "a.txt"]) == everything[:2]
    assert paths([tmp_path / "_SUCCESS", f"file://{tmp_path}/a.txt"]) == [
        str(tmp_path / "_SUCCESS"),
        everything[0],
    ]


def test_a_file_that_is_found_twice_is_read_once(tmp_path, monkeypatch):
    make(tmp_path, "data/a.txt", "data/b.txt")
    (tmp_path / "data" / "link.txt").symlink_to(tmp_path / "data" / "a.txt")
    (tmp_path / "data" / "circle").symlink_to(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert paths(["data/*.txt", "./data", str(tmp_path / "data" / "b.txt")]) == [
        "data/a.txt",
        "data/b.txt",
    ]


def test_names_that_look_like_something_else(tmp_path):
    make(tmp_path, "folder.jsonl/part-0", "notes [1].txt", "notes 1.txt", content=b'{"text": "x"}')
    (file,) = list_inputs([str(tmp_path / "folder.jsonl")], format="auto")
    assert (file.path, file.format) == (str(tmp_path / "folder.jsonl" / "part-0"), "jsonl")
    assert paths([tmp_path / "notes [1].txt"]) == [str(tmp_path / "notes [1].txt")]


@pytest.mark.parametrize("pattern", ["missing.txt", "*.missing", "empty-folder"])
def test_a_pattern_without_a_file_is_an_error(pattern, tmp_path):
    (tmp_path / "empty-folder").mkdir()
    make(tmp_path, "a.txt", "empty-folder/_ignored")
    with pytest.raises(ConfigError, match="matches no file") as caught:
        list_inputs([str(tmp_path / "a.txt"), str(tmp_path / pattern)], format="auto")
    assert caught.value.field == "input"
    assert caught.value.value == str(tmp_path / pattern)


def test_a_second_length_is_no_file(tmp_path):
    make(tmp_path, "a.txt")
    with pytest.raises(ConfigError, match=r"matches no file; .*; a list of numbers has commas"):
        list_inputs([str(tmp_path / "a.txt"), "512"], format="auto")


def test_files_that_cannot_be_read_are_errors(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="regular"):
        list_inputs([str(tmp_path / "pipe")], format="auto")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "broken").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="broken"):
        list_inputs([str(tmp_path / "folder")], format="auto")
    make(tmp_path, "locked")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read anything
    with pytest.raises(ConfigError, match="permission"):
        list_inputs([str(tmp_path / "locked")], format="auto")


def test_empty_files_are_fine_among_others(tmp_path):
    make(tmp_path, "a.txt", "b.jsonl", "c.gz", content=b"")
    with pytest.raises(ConfigError, match="every file is empty"):
        list_inputs([str(tmp_path)], format="auto")
    make(tmp_path, "d.txt")
    assert [file.size for file in list_inputs([str(tmp_path)], format="auto")] == [0, 0, 0, 4]


# What it is


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", b"anything", ("none", "jsonl")),
        ("a.JSON", b'{"text": 1}', ("none", "jsonl")),
        ("a.ndjson.zst", b"anything", ("zst", "jsonl")),
        ("a.json.gz", b'{"text": 1}', ("gz", "jsonl")),
        ("a.txt", b"text", ("none", "text")),
        ("a.txt", b' \n\t{"text": 1}', ("none", "jsonl")),
        ("a", b'\xef\xbb\xbf{"text": 1}', ("none", "jsonl")),
        ("a.xz", b'{"text": 1}', ("xz", "jsonl")),
        ("a.txt.bz2", b"text", ("bz2", "text")),
        ("a.txt.zstd", b"text", ("zst", "text")),
        ("a.txt", b" \n", ("none", "text")),
    ],
)
def test_formats_are_told_by_name_and_first_byte(name, content, expected, tmp_path):
    (path,) = make(tmp_path, name, content=COMPRESS[expected[0]](content))
    (file,) = list_inputs([path], format="auto")
    assert (file.compression, file.format) == expected
    assert file.size == os.path.getsize(path)
    assert file.decided_by
    (file,) = list_inputs([path], format="prose")
    assert (file.compression, file.format) == (expected[0], "prose")


@pytest.mark.parametrize("codec", ["gz", "bz2", "xz", "zst"])
def test_the_bytes_have_the_last_word_on_compression(codec, tmp_path):
    (path,) = make(tmp_path, "a.txt", content=COMPRESS[codec](b'{"text": 1}'))
    (file,) = list_inputs([path], format="auto")
    assert (file.compression, file.format) == (codec, "jsonl")
    (path,) = make(tmp_path, "b.gz", content=COMPRESS[codec](b"text"))
    (file,) = list_inputs([path], format="auto")
    assert (file.compression, file.format) == (codec, "text")


def test_a_text_may_begin_like_a_bz2_file(tmp_path):
    (path,) = make(tmp_path, "a.txt", content=b"BZh9 is how bz2 files begin")
    assert list_inputs([path], format="auto")[0].compression == "none"


@pytest.mark.parametrize("name", ["a.7z", "a.tar.gz", "a.zip"])
def test_what_is_no_text_is_refused(name, tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        list_inputs(make(tmp_path, name), format="auto")


def test_a_json_array_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(ConfigError, match="jq"):
        list_inputs(make(tmp_path, "a.json", content=b'[\n{"text": "x"}]'), format="auto")


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="jsonl"):
        list_inputs(make(tmp_path, "a"), format="csv")


def test_other_file_systems(monkeypatch):
    names = ["box/x/a.jsonl", "box/x/deep/b.txt.gz", "box/x/_tmp/c.txt", "box/x/_SUCCESS", "box/y"]
    files = {f"memory://{name}": b"some text" for name in names}
    monkeypatch.setattr(MemoryFileSystem, "files", files)
    found = list_inputs(["memory://box/x"], format="auto")
    assert [(f.path, f.size, f.compression, f.format) for f in found] == [
        ("memory://box/x/a.jsonl", 9, "none", "jsonl"),
        ("memory://box/x/deep/b.txt.gz", 9, "gz", "text"),
    ]
    assert paths(["memory://box/x/*.jsonl", "memory://box/y", "memory://box/y"]) == [
        "memory://box/x/a.jsonl",
        "memory://box/y",
    ]
    with pytest.raises(ConfigError, match="matches no file"):
        list_inputs(["memory://box/z"], format="auto")
    with pytest.raises(ConfigError, match="there is no file system for nosuch"):
        list_inputs(["nosuch://box/z"], format="auto")


# Who reads what


def input_file(size: int, compression="none", format="text", name="f") -> InputFile:
    return InputFile(name, size, compression, format, "")


input_files = st.lists(
    st.builds(
        input_file,
        st.integers(0, 400),
        st.sampled_from(["none", "gz"]),
        st.sampled_from(["text", "jsonl", "prose"]),
    ),
    max_size=12,
).map(
    lambda files: [
        InputFile(str(i), f.size, f.compression, f.format, "") for i, f in enumerate(files)
    ]
)


@settings(deadline=None)
@given(input_files, st.integers(1, 5), st.integers(1, 120), st.sampled_from([None, "---"]))
def test_every_byte_has_one_owner_and_weights_add_up(files, stripes, range_bytes, separator):
    tasks = plan_reads(
        files, num_stripes=stripes, range_bytes=range_bytes, document_separator=separator
    )
    assert [task.index for task in tasks] == list(range(len(tasks)))
    assert sum(task.weight for task in tasks) == sum(file.size for file in files)
    for file in files:
        shares = [s for task in tasks for s in task.shares if s.path == file.path]
        if not shares:
            assert file.size == 0
            assert file.format != "prose"
        for offset in range(file.size):
            assert sum(share.owned_run(offset)[1] for share in shares) == 1
        if file.format == "prose" and separator is None:
            assert len(shares) == 1
        if file.compression != "none":
            assert len(shares) in (0, 1, stripes)


@given(st.integers(0, 60), st.integers(1, 5), st.integers(1, 9), st.integers(0, 300))
def test_a_run_goes_to_where_the_owner_changes(stripe, stripes, width, offset):
    stripe %= stripes
    part = FileShare("f", "gz", "text", 0, stripe=stripe, num_stripes=stripes, stripe_bytes=width)
    end, owned = part.owned_run(offset)
    if stripes == 1:
        assert (end, owned) == (None, True)
        return
    assert end is not None
    assert owned is (offset // width % stripes == stripe)
    assert all(part.owned_run(o)[1] is owned for o in range(offset, end))
    assert part.owned_run(end)[1] is not owned


def test_the_size_of_ranges():
    def sizes(total):
        tasks = plan_reads([input_file(total)], num_stripes=2, range_bytes=None)
        return [task.weight for task in tasks]

    assert sizes(MIB) == [MIB]
    assert max(sizes(10 * MIB)) == MIB
    assert len(sizes(256 * MIB)) == 64
    assert max(sizes(50 << 30)) == 16 * MIB
    assert len(set(sizes(10 * MIB + 5))) <= 2


def test_small_files_are_read_together():
    files = [input_file(100_000, name=str(i)) for i in range(100)]
    tasks = plan_reads(files, num_stripes=2, range_bytes=None)
    assert len(tasks) == 10
    assert max(task.weight for task in tasks) <= MIB
    many = [input_file(1, name=str(i)) for i in range(5000)]
    tasks = plan_reads(many, num_stripes=2, range_bytes=None)
    assert max(len(pickle.dumps(task)) for task in tasks) < 100_000


def test_large_compressed_files_are_shared_and_many_middling_ones_are_not():
    (one, two) = plan_reads([input_file(50 * MIB, "gz")], num_stripes=2, range_bytes=None)
    assert [s.stripe for task in (one, two) for s in task.shares] == [0, 1]
    assert one.weight == two.weight == 25 * MIB
    assert pickle.loads(pickle.dumps(one)) == one
    (alone,) = plan_reads([input_file(50 * MIB, "gz")], num_stripes=1, range_bytes=None)
    assert alone.shares[0].num_stripes == 1
    hundred = [input_file(50 * MIB, "gz", name=str(i)) for i in range(100)]
    tasks = plan_reads(hundred, num_stripes=2, range_bytes=None)
    assert [len(task.shares) for task in tasks] == [1] * 100
    assert all(task.shares[0].num_stripes == 1 for task in tasks)


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError):
        plan_reads([input_file(5)], num_stripes=0, range_bytes=None)
    with pytest.raises(ConfigError):
        plan_reads([input_file(5)], num_stripes=1, range_bytes=0)
