"""The commit of a file: whatever two attempts, an error or a kill do, its name has all of it or nothing."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from apache_beam.io.filesystem import BeamIOError

from pipeline.output import sweep
from schemas.stores import list_below, open_file, scheme_of
from tests.builds import ROOT
from tests.unit.remote import MemoryFileSystem
from transforms import atomic
from transforms.atomic import atomic_write

CONTENT = bytes(range(256)) * 2000
OLD = b"what an earlier build wrote"
PATIENCE = 120


@pytest.fixture(params=["local", "memory", "gs", "s3"])
def folder(request, servers, tmp_path, monkeypatch) -> str:
    """Of each kind of file system one: ``memory://`` refuses to rename onto a file, as HDFS does."""
    if request.param == "local":
        return str(tmp_path)
    if request.param == "memory":
        monkeypatch.setattr(MemoryFileSystem, "files", {})
        return "memory://box/out"
    return f"{servers(request.param).root}/{tmp_path.name}"


def names(folder: str) -> set[str]:
    return set(list_below(folder)) if scheme_of(folder) else set(os.listdir(folder))


def seen(path: str) -> bytes | None:
    try:
        with open_file(path) as file:
            return file.read()
    except (FileNotFoundError, BeamIOError):  # the second of memory://, when it appears just then
        return None


def write(path: str, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)


@contextlib.contextmanager
def watching(path: str, allowed: set[bytes | None]):
    """Reads the file again and again in a thread; it never has anything but what is allowed."""
    stop, odd = threading.Event(), []

    def watch() -> None:
        while not stop.is_set():
            found = seen(path)
            if found not in allowed:
                odd.append(found)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not odd, [None if found is None else len(found) for found in odd]


def test_two_attempts_at_once_in_threads(folder):
    path = f"{folder}/shard"
    both = threading.Barrier(2)
    failed = []

    def attempt(step: int) -> None:
        try:
            for number in range(3):
                both.wait(PATIENCE)
                with atomic_write(f"{path}{number}") as file:
                    for begin in range(0, len(CONTENT), step):
                        file.write(CONTENT[begin : begin + step])
                    if number % 2:
                        both.wait(PATIENCE)  # and end at the same time
        except BaseException as error:
            failed.append(error)
            both.abort()

    threads = [threading.Thread(target=attempt, args=(step,)) for step in (7_000, 100_000)]
    with watching(f"{path}0", {None, CONTENT}), watching(f"{path}1", {None, CONTENT}):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    assert names(folder) == {"shard0", "shard1", "shard2"}
    assert all(seen(f"{path}{number}") == CONTENT for number in range(3))


def test_once_it_is_there_it_is_never_gone(folder):
    """A late attempt at what is finished: nobody who reads it meanwhile notices."""
    path = f"{folder}/shard"
    write(path, CONTENT)
    with watching(path, {CONTENT}):
        for _ in range(3):
            write(path, CONTENT)
    assert names(folder) == {"shard"}


def test_what_an_earlier_build_wrote_is_replaced(folder):
    path = f"{folder}/shard"
    write(path, OLD)
    write(path, CONTENT)
    assert seen(path) == CONTENT
    assert names(folder) == {"shard"}


def child(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Python in a process of its own, whose output says how far it is."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


_WRITES = """
import sys
from transforms.atomic import atomic_write
print("ready", flush=True)
sys.stdin.read()
for _ in range(4):
    with atomic_write(sys.argv[1]) as file:
        file.write(bytes(range(256)) * 2000)
"""


def test_two_attempts_at_once_in_processes(folder):
    if folder.startswith("memory"):
        pytest.skip("is in the memory of one process")
    path = f"{folder}/shard"
    attempts = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITES, path],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for attempt in attempts:
        assert attempt.stdout
        assert attempt.stdout.readline() == b"ready\n"
    with watching(path, {None, CONTENT}):
        for attempt in attempts:
            assert attempt.stdin
            attempt.stdin.close()
        assert [attempt.wait(PATIENCE) for attempt in attempts] == [0, 0]
    for attempt in attempts:
        assert attempt.stdout
        attempt.stdout.close()
    assert names(folder) == {"shard"}
    assert seen(path) == CONTENT


class Stop(BaseException):
    """Like an interrupt: nothing catches it as an error."""


@pytest.mark.parametrize("error", [ValueError, Stop])
def test_code_that_raises_while_it_writes_changes_nothing(folder, error):
    path = f"{folder}/shard"
    write(path, OLD)

    def fail(name: str) -> None:
        with atomic_write(f"{folder}/{name}") as file:
            file.write(CONTENT)
            raise error

    for name in ("shard", "other"):
        with pytest.raises(error):
            fail(name)
    assert seen(path) == OLD
    assert names(folder) == {"shard"}


class _BreaksOff(io.BytesIO):
    """A file that is uploaded until its third piece."""

    pieces = 0

    def read(self, size: int | None = -1) -> bytes:
        self.pieces += 1
        if self.pieces == 3:
            raise Stop
        return super().read(size)


def test_an_upload_that_breaks_off_is_never_completed(folder, monkeypatch):
    if not scheme_of(folder):
        pytest.skip("there are no uploads")
    path = f"{folder}/shard"
    write(path, OLD)
    monkeypatch.setattr(atomic.tempfile, "SpooledTemporaryFile", lambda unused: _BreaksOff())
    for name in ("shard", "other"):
        with pytest.raises(Stop), atomic_write(f"{folder}/{name}") as file:
            file.write(bytes(3 * atomic._PIECE_BYTES))
    assert seen(path) == OLD
    assert names(folder) == {"shard"}


def test_an_upload_that_is_given_up_leaves_no_parts(servers, monkeypatch):
    """Amazon keeps, and charges for, the parts of an upload that was neither completed nor aborted."""
    boto3 = pytest.importorskip("boto3")
    root = servers("s3").root
    monkeypatch.setattr(atomic.tempfile, "SpooledTemporaryFile", lambda unused: _BreaksOff())
    with pytest.raises(Stop), atomic_write(f"{root}/parts/shard") as file:
        file.write(bytes(3 * atomic._PIECE_BYTES))
    bucket = root.rpartition("/")[2]
    assert not boto3.client("s3").list_multipart_uploads(Bucket=bucket).get("Uploads")


_WAITS = """
import sys, time
from transforms import atomic
path, where = sys.argv[1:]

def wait():
    print("half", flush=True)
    time.sleep(1000)

if where == "uploading":
    original, calls = atomic._upload, []
    class Slow:
        def __init__(self, content):
            self.content = content
        def seek(self, *position):
            return self.content.seek(*position)
        def read(self, size):
            calls.append(size)
            if len(calls) == 3:
                wait()
            return self.content.read(size)
    atomic._upload = lambda content, path: original(Slow(content), path)
with atomic.atomic_write(path) as file:
    file.write(bytes(3 * atomic._PIECE_BYTES))
    if where == "writing":
        wait()
"""


@pytest.mark.parametrize("where", ["writing", "uploading"])
def test_a_writer_that_is_killed_leaves_nothing_to_be_seen(folder, where):
    if folder.startswith("memory"):
        pytest.skip("is in the memory of one process")
    if where == "uploading" and not scheme_of(folder):
        pytest.skip("there are no uploads")
    path = f"{folder}/shard"
    write(path, OLD)
    with child(_WAITS, path, where) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "half\n"
        os.kill(writer.pid, signal.SIGKILL)
        assert writer.wait(PATIENCE) == -signal.SIGKILL
    assert seen(path) == OLD
    sweep(folder, complete=False)
    assert names(folder) == {"shard"}
    write(path, CONTENT)
    assert seen(path) == CONTENT


def test_leftovers_of_dead_attempts_are_swept_and_nothing_else(folder):
    shard = "seq128/train-00000-of-00001.parquet"
    note = ".resume/seq128-train-00000-of-00001.parquet.json"
    digits = "0123456789abcdef" * 2
    left = {f"seq128/.train-00000-of-00001.parquet.{digits}.tmp", f".manifest.json.{digits}.tmp"}
    others = {"seq128/.mine.tmp", "notes.txt", shard}
    for name in {*left, *others, note}:
        if scheme_of(folder):
            write(f"{folder}/{name}", OLD)
        else:
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_bytes(OLD)

    def there() -> set[str]:
        if scheme_of(folder):
            return names(folder)
        return {str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file()}

    sweep(folder, complete=False)
    assert there() == {*others, note}
    sweep(folder, complete=True)
    assert there() == others


def test_an_attempt_whose_temporary_file_was_swept_fails_and_changes_nothing(tmp_path):
    write(f"{tmp_path}/shard", CONTENT)

    def late() -> None:
        with atomic_write(f"{tmp_path}/shard", sync=False) as file:
            file.write(OLD)
            sweep(str(tmp_path), complete=False)

    with pytest.raises(FileNotFoundError):
        late()
    assert names(str(tmp_path)) == {"shard"}
    assert seen(f"{tmp_path}/shard") == CONTENT
