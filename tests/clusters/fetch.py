"""Fetches the runners that tests and benchmarks use into a folder: ``make runners``.

    python tests/clusters/fetch.py .runners

There come ``flink-job-server.jar`` and ``spark-job-server.jar`` (which name the jars beside them),
``flink/`` (the distribution, for a cluster), and ``prism``. Each is made under another name and has a
stamp, which is written last: what is there is left alone, what was interrupted is done again. Needs
Java, Maven and Go, and nothing else than the standard library.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["PIECES", "MissingError", "fetch", "is_complete", "main"]

HERE = Path(__file__).parent

FLINK = "apache-flink-libraries==1.19.3"
PRISM = "github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0"
DRIVERS = {
    "flink": "org.apache.beam.runners.flink.FlinkJobServerDriver",
    "spark": "org.apache.beam.runners.spark.SparkJobServerDriver",
}

#: Programs, and what they come with.
TOOLS = {"java": "Java 11 or newer", "mvn": "Maven", "go": "Go"}


class MissingError(Exception):
    """A line on what could not be fetched."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """Something to fetch.

    Attributes:
      name: of the file or folder that comes of it.
      version: decides whether what is there is the right one.
      make: makes it in an empty folder that it is given, under its name.
    """

    name: str
    version: str
    make: Callable[[Path, Path], None]

    def stamp(self, folder: Path) -> Path:
        """The file that says it is complete."""
        digest = hashlib.sha256(self.version.encode()).hexdigest()[:12]
        return folder / f".stamp-{self.name}-{digest}"


def _job_server(kind: str, folder: Path, log: Path) -> None:
    jars = folder / f"{kind}-jars"
    command = ["mvn", "--batch-mode", "--no-transfer-progress", "--file", str(HERE / f"{kind}.xml")]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    _run([*command, f"-DoutputDirectory={jars}"], log)
    _write_manifest_jar(folder / f"{kind}-job-server.jar", DRIVERS[kind], jars)


def _write_manifest_jar(path: Path, main_class: str, jars: Path) -> None:
    """A jar that holds nothing but the names of others, beside itself."""
    names = " ".join(f"{jars.name}/{jar.name}" for jar in sorted(jars.glob("*.jar")))
    lines = ["Manifest-Version: 1.0", f"Main-Class: {main_class}", f"Class-Path: {names}"]
    # A line may have 72 bytes, and goes on behind a blank.
    text = "".join("\n ".join(re.findall(".{1,70}", line)) + "\n" for line in lines)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", text)


def _flink(folder: Path, log: Path) -> None:
    """The official distribution's jars, as PyFlink's package has them."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
    _run([*command, "--disable-pip-version-check", "--dest", str(folder), FLINK], log)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        wanted = [m for m in tar.getmembers() if re.match(r"[^/]+/deps/(bin|lib)/", m.name)]
        tar.extractall(folder / "unpacked", members=wanted, filter="data")
    archive.unlink()
    (unpacked,) = folder.glob("unpacked/*/deps")
    unpacked.rename(folder / "flink")
    shutil.rmtree(folder / "unpacked")


def _prism(folder: Path, log: Path) -> None:
    # Not read-only: whoever removes a cache of modules would have to change that first.
    settings = {"GOBIN": str(folder), "GOFLAGS": "-modcacherw"}
    _run(["go", "install", PRISM], log, settings)


PIECES = (
    Piece("flink", FLINK, _flink),
    Piece("prism", PRISM, _prism),
    *(
        Piece(
            f"{kind}-job-server.jar",
            (HERE / f"{kind}.xml").read_text() + DRIVERS[kind],
            functools.partial(_job_server, kind),
        )
        for kind in DRIVERS
    ),
)


def is_complete(folder: Path) -> bool:
    """Whether all of it is there."""
    return all(piece.stamp(folder).exists() for piece in PIECES)


def fetch(folder: Path) -> None:
    """Fetches what is not there.

    Raises:
      MissingError: a program is, or something could not be fetched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        wanted = [piece for piece in PIECES if not piece.stamp(folder).exists()]
        if not wanted:
            return
        if missing := [
            f"{what} ({tool})" for tool, what in TOOLS.items() if not shutil.which(tool)
        ]:
            raise MissingError(f"needs {', '.join(missing)}: not installed, or not in the PATH")
        # Maven's repository is for one Maven at a time.
        queues = [[p for p in wanted if "-job-server" in p.name]]
        queues += [[p] for p in wanted if "-job-server" not in p.name]
        with concurrent.futures.ThreadPoolExecutor() as threads:
            running = [threads.submit(_fetch_all, queue, folder) for queue in queues]
            failed = [str(error) for future in running if (error := future.exception())]
    if failed:
        raise MissingError("; ".join(failed))


def _fetch_all(pieces: list[Piece], folder: Path) -> None:
    for piece in pieces:
        _fetch_one(piece, folder)


def _fetch_one(piece: Piece, folder: Path) -> None:
    started = time.monotonic()
    new = folder / f".new-{piece.name}"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for old in folder.glob(f".stamp-{piece.name}-*"):
        old.unlink()
    log = folder / f"{piece.name}.log"
    piece.make(new.resolve(), log)
    for made in new.iterdir():
        place = folder / made.name
        if place.is_dir():
            shutil.rmtree(place)
        made.rename(place)
    new.rmdir()
    piece.stamp(folder).touch()
    log.unlink()
    print(f"{folder / piece.name} ({time.monotonic() - started:.0f} s)", flush=True)


def _run(command: list[str], log: Path, settings: dict[str, str] | None = None) -> None:
    """Runs a command whose output goes to a file.

    Raises:
      MissingError: it failed; with what it said that looks most like the reason.
    """
    with log.open("w") as file:
        environment = {**os.environ, **(settings or {})}
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.STDOUT, env=environment, check=False
        )
    if done.returncode:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        said = [line for line in lines if "ERROR" in line] or lines[-1:] or ["it says nothing"]
        what = f"{Path(command[0]).name} failed with {done.returncode}: {said[0].strip()}"
        raise MissingError(f"{what} (all of it: {log})")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """A context that only one process is in, for each folder."""
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> int:
    """Fetches into the folder that the command line names; 0, or 1 after a line on what went wrong."""
    (folder,) = arguments
    try:
        fetch(Path(folder))
    except MissingError as error:
        print(f"make runners: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
