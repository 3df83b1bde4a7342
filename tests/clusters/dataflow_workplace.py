"""What the stand-in for Dataflow works with: Prism, the bucket, environments with what was staged.

A fresh virtual environment sees the third-party packages of the tests' own and nothing of this checkout.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.portability.api import beam_job_api_pb2_grpc
from google.cloud import storage  # type: ignore[attr-defined]

from tests.kernels import lend_kernels

_SECONDS = 600.0
#: Of environments of other versions of the sources, which nobody will ask for again.
_OLD = 24 * 3600.0


class Workplace:
    """What jobs run with: a folder, Prism, the bucket, an environment for each set of packages."""

    def __init__(self, folder: Path, *, prism: Path, storage: str):
        self.folder = folder
        self._kept = prism.parent / "dataflow"
        self.storage = storage
        self._port = _free_port()
        self._prism: subprocess.Popen[bytes] | None = None
        self._binary = prism
        self._lock = threading.Lock()

    def jobs(self) -> Any:
        """A stub of Prism's job service, which is started by the first job."""
        with self._lock:
            if self._prism is None:
                command = [str(self._binary), f"--job_port={self._port}", "--serve_http=false"]
                with open(self.folder / "prism.log", "wb") as log:
                    self._prism = subprocess.Popen(
                        command, env=self.environment(), cwd=self.folder, stdout=log, stderr=log
                    )
        channel = grpc.insecure_channel(f"localhost:{self._port}")
        grpc.channel_ready_future(channel).result(timeout=_SECONDS)
        return beam_job_api_pb2_grpc.JobServiceStub(channel)

    def environment(self) -> dict[str, str]:
        """Of processes: nothing that leads to the checkout."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "STORAGE_EMULATOR_HOST": self.storage,
            "NO_GCE_CHECK": "true",
            "no_proxy": "localhost",
        }

    def bucket(self, url: str) -> Any:
        """The blob of a ``gs://`` URL."""
        name, _, path = url.removeprefix("gs://").partition("/")
        client = storage.Client.create_anonymous_client()
        return client.bucket(name).blob(path)

    def python(self, packages: list[Path]) -> Path:
        """The Python of an environment with these packages, as Beam's boot program installs them.

        That of a wheel is kept from run to run, since its name says what is in it.
        """
        name = "-".join(["venv", *(package.name for package in packages)])
        kept = bool(packages) and all(package.suffix == ".whl" for package in packages)
        base = self._kept if kept else self.folder
        base.mkdir(parents=True, exist_ok=True)
        root = base / name
        python = root / "bin" / "python"
        with open(base / "venv.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (root / "complete").exists():
                return python
            for old in base.glob("venv-*") if kept else ():
                if old.stat().st_mtime < time.time() - _OLD:
                    shutil.rmtree(old)
            venv.create(root, with_pip=False, symlinks=True)
            inside = root / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
            # The folder alone: what .pth files in it add, such as this checkout, is not.
            (inside / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
            for package in packages:
                command = [str(python), "-m", "pip", "install", "--quiet", "--no-index"]
                command += ["--disable-pip-version-check", "--no-build-isolation", str(package)]
                done = subprocess.run(
                    command, env=self.environment(), cwd=root, capture_output=True, text=True
                )
                if done.returncode:
                    raise RuntimeError(f"pip install {package.name}: {done.stderr}")
            transforms = inside / "transforms"
            if transforms.is_dir():
                lend_kernels(transforms, transforms / "__pycache__")
            (root / "complete").touch()
        return python

    def close(self) -> None:
        if self._prism:
            self._prism.kill()
            self._prism.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port: int = found.getsockname()[1]
        return port
