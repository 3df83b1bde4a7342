"""The output directory before and after a run: what may be in it, what is removed from it.

Only files that a build itself wrote are ever removed, known by their names, and only from a
directory that is a data set or an interrupted build. One build at a time has a directory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import posixpath
import re
import shutil
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from schemas.errors import ConfigError
from schemas.manifest import MANIFEST_FILE
from schemas.stores import list_below, open_file, remove, scheme_of
from transforms.atomic import TEMPORARY_NAME
from transforms.rejects import REJECTS_FOLDER
from transforms.shards import RESUME_FOLDER

__all__ = [
    "clear_leftovers",
    "is_local",
    "list_rejects",
    "lock_folder",
    "locked",
    "make_directory",
    "prepare_output",
    "spill_folder",
    "sweep",
]

#: Folders of the shuffle's files start with this.
_SPILL_PREFIX = ".spill-"

_HEX = "[0-9a-f]{32}"
_SHARD = r"(?:train|validation)-\d{5}-of-\d{5}\.parquet"
_SPILLED = rf"{re.escape(_SPILL_PREFIX)}{_HEX}/(?:{_HEX}\.arrow)?"
_TEMPORARY = re.compile(rf"(?:[^/]+/)?{TEMPORARY_NAME}")
_LEFTOVER = re.compile(rf"{_SPILLED}|{_TEMPORARY.pattern}")
_RESUME = re.compile(rf"{re.escape(RESUME_FOLDER)}/seq\d+-{_SHARD}\.json")
_REJECTS = re.compile(rf"{REJECTS_FOLDER}/{_HEX}\.jsonl")
_SHARDS = re.compile(rf"seq\d+/{_SHARD}")
_KEPT = (_SHARDS, _RESUME, _REJECTS)
_OWN_FOLDER = re.compile(
    rf"seq\d+|{re.escape(RESUME_FOLDER)}|{REJECTS_FOLDER}|{re.escape(_SPILL_PREFIX)}{_HEX}"
)
#: Others may have files of these names: they are a build's beside a manifest of ours.
_DESCRIPTIONS = ("README.md", "report.html", "tokenizer.json", "vocab.txt")

#: A killed build lives on in its workers for a moment.
_LOCK_SECONDS = 2.0


def is_local(path: str) -> bool:
    """Whether a path is on this machine's own file system."""
    return scheme_of(path) is None


@contextlib.contextmanager
def locked(output: str) -> Iterator[None]:
    """Makes the directory, and a context in which no other build on this machine may have it.

    Raises:
      ConfigError: it cannot be made or written to, or another build is at work in it.
    """
    if not is_local(output):
        yield
        return
    if os.path.exists(output) and not os.path.isdir(output):
        raise ConfigError("output", output, "is a file; give a directory")
    make_directory("output", output)
    with contextlib.ExitStack() as stack:
        if not lock_folder(output, stack, seconds=_LOCK_SECONDS):
            raise ConfigError(
                "output", output, "another build is writing to it; wait, or give another directory"
            )
        yield


def prepare_output(
    output: str, *, overwrite: bool, resume: bool, inputs: Sequence[str], shards: Collection[str]
) -> None:
    """Makes sure that nothing of the user's is overwritten, and nothing old becomes part of the new.

    Args:
      output: the directory.
      overwrite: remove what another build wrote.
      resume: remove it but for the shards that may be taken over.
      inputs: the files that will be read.
      shards: the paths of all shards that will be written.

    Raises:
      ConfigError: the directory holds something, and neither flag was given; or something that no
        build wrote and nothing that one did; or what would be removed is the input.
    """
    try:
        paths = _list(output)
    except OSError as error:
        reason = " ".join(str(error).split())
        raise ConfigError("output", output, f"cannot be listed: {reason}") from None
    manifest = MANIFEST_FILE in paths and _is_ours(posixpath.join(output, MANIFEST_FILE))
    ours = [path for path in paths if _is_own_name(path)]
    foreign = [path for path in paths if path not in ours]
    known = manifest or any(path == f"{RESUME_FOLDER}/" or path[-1] != "/" for path in ours)
    if foreign and (not known or (MANIFEST_FILE in paths and not manifest)):
        named = MANIFEST_FILE if MANIFEST_FILE in paths else min(foreign)
        raise ConfigError(
            "output",
            output,
            f"holds files that are no data set's, such as {named!r}; give an empty directory",
        )
    worth_keeping = manifest or any(k.fullmatch(path) for path in ours for k in _KEPT)
    if worth_keeping and not (overwrite or resume):
        state = "a data set" if manifest else "an interrupted build"
        remedy = "--overwrite replaces it" + ("" if manifest else ", --resume goes on")
        raise ConfigError("output", output, f"already holds {state}; {remedy}")
    doomed = [path for path in ours if not (resume and _may_be_kept(path, shards))]
    if manifest:
        doomed += [name for name in _DESCRIPTIONS[:2] if name in paths]
        doomed.insert(0, MANIFEST_FILE)  # first: a directory without it says that it is incomplete
    _refuse_inputs(output, doomed, inputs)
    if is_local(output):
        # Says whose the directory is, as long as nothing else in it does.
        os.makedirs(os.path.join(output, RESUME_FOLDER), exist_ok=True)
    _remove(output, doomed)


def clear_leftovers(output: str) -> None:
    """Removes what a run that did not end well leaves behind: spilled files, temporary names."""
    if not is_local(output):
        with contextlib.suppress(OSError):  # why the run ended is to be said, and not that
            sweep(output, complete=_is_complete(output))
        return
    if not os.path.isdir(output):
        return
    _remove(output, [path for path in _list(output) if _LEFTOVER.fullmatch(path)])
    if os.listdir(output) == [RESUME_FOLDER]:
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(output, RESUME_FOLDER))


def list_rejects(output: str) -> list[str]:
    """The files of refused records."""
    return [posixpath.join(output, path) for path in _list(output) if _REJECTS.fullmatch(path)]


def _is_complete(output: str) -> bool:
    return MANIFEST_FILE in _list(output)


def sweep(output: str, *, complete: bool) -> None:
    """Removes what attempts that are dead have left in the directory, wherever it is.

    An attempt that lives all the same, and is late, fails: what it was to write is there.

    Args:
      complete: the manifest is there; what is for ``--resume`` goes as well.

    Raises:
      OSError: it cannot be listed or removed.
    """
    paths = _list(output)
    _remove(output, [path for path in paths if _TEMPORARY.fullmatch(path)])
    if complete:
        _remove(output, [path for path in paths if _RESUME.fullmatch(path)])
        if is_local(output):
            with contextlib.suppress(OSError):  # something else is in it
                os.rmdir(os.path.join(output, RESUME_FOLDER))


@contextlib.contextmanager
def spill_folder(base: str, *, output: str) -> Iterator[str]:
    """A new folder for the shuffle's files, gone afterwards; those of builds that were killed go as well.

    Args:
      base: where; made if it is missing.
      output: the build's own, which is ``locked``.

    Raises:
      ConfigError: ``base`` cannot be made or written to.
    """
    if not is_local(base):
        raise ConfigError("temp_dir", base, "must be a folder on this machine")
    make_directory("temp_dir", base)
    folder = os.path.join(base, _SPILL_PREFIX + uuid.uuid4().hex)
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as making:
            if not (is_local(output) and os.path.samefile(base, output)):
                lock_folder(base, making, seconds=60)  # nobody takes the new folder for an old one
                _remove_dead_spills(base)
            os.mkdir(folder)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            lock_folder(folder, stack)
        yield folder


def _remove_dead_spills(base: str) -> None:
    for path in _list(base):
        if re.fullmatch(_SPILLED, path):
            with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
                if lock_folder(os.path.join(base, os.path.dirname(path)), stack):
                    _remove(base, [path])


def make_directory(field: str, path: str) -> None:
    """Makes a directory that is missing.

    Raises:
      ConfigError: of this flag: it cannot be made or written to.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise ConfigError(field, path, f"cannot be made: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError(field, path, "cannot be written to")


def lock_folder(directory: str, stack: contextlib.ExitStack, *, seconds: float = 0.0) -> bool:
    """Locks it until the stack is closed or the process has ended; False if another one has it.

    A file system that knows no locks on directories, as NFS, locks nothing.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    stack.callback(os.close, descriptor)
    last = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return True
        else:
            return True
        if time.monotonic() >= last:
            return False
        time.sleep(0.05)


def _is_own_name(path: str) -> bool:
    """Whether only a build writes files, or makes empty folders, of such a name."""
    if path.endswith("/"):
        return bool(_OWN_FOLDER.fullmatch(path[:-1]))
    return any(kind.fullmatch(path) for kind in (*_KEPT, _LEFTOVER))


def _is_ours(path: str) -> bool:
    """Whether a file is a manifest that a build wrote: other programs have manifests too."""
    with open_file(path) as file:
        try:
            data = json.loads(file.read())
            return "schema_version" in data and data["created_by"]["name"] == "bert-data"
        except (ValueError, TypeError, KeyError):
            return False


def _may_be_kept(path: str, shards: Collection[str]) -> bool:
    name = posixpath.basename(path)
    if _RESUME.fullmatch(path):
        return any(shard.replace("/", "-") + ".json" == name for shard in shards)
    return path in shards


def _refuse_inputs(output: str, doomed: Sequence[str], inputs: Sequence[str]) -> None:
    if not is_local(output):
        return
    real = {os.path.realpath(os.path.join(output, path)) for path in doomed}
    for path in inputs:
        if os.path.realpath(path) in real:
            raise ConfigError(
                "input", path, "is in the output directory and would be removed; give another one"
            )


def _list(output: str) -> list[str]:
    """Relative paths of the files there and in folders that a build makes.

    Folders that are empty, or that no build makes, are given themselves, with a ``/`` at the end.
    """
    if not is_local(output):
        return sorted(list_below(output))
    paths = []
    for entry in os.scandir(output) if os.path.isdir(output) else ():
        if not entry.is_dir():
            paths.append(entry.name)
            continue
        inside = os.listdir(entry.path) if _OWN_FOLDER.fullmatch(entry.name) else []
        paths += [f"{entry.name}/{name}" for name in inside] or [f"{entry.name}/"]
    return sorted(paths)


def _remove(output: str, paths: Sequence[str]) -> None:
    """Removes files, and the folders that become empty."""
    if not is_local(output):
        remove([posixpath.join(output, path) for path in paths])
        return
    for path in paths:
        if not path.endswith("/"):
            Path(output, path).unlink(missing_ok=True)
    for folder in {posixpath.dirname(path) for path in paths} - {"", RESUME_FOLDER}:
        with contextlib.suppress(OSError):  # something else is in it
            os.rmdir(os.path.join(output, folder))
