"""Object stores for tests: servers on this machine that speak Google's and Amazon's protocols."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.stores import list_below, open_file, remove, use_store_options
from transforms.atomic import atomic_write

__all__ = ["CountingProxy", "Store", "running_store"]

_BUCKET = "bert-data"
_PATIENCE = 60

#: What starts a server at a port, and the environment that leads there; nothing is looked up elsewhere.
_SERVERS = {
    "gs": (
        ["-m", "gcp_storage_emulator", "start", "--host=127.0.0.1", "--in-memory", "--quiet"],
        {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:{port}"},
    ),
    "s3": (
        ["-m", "moto.server", "--host=127.0.0.1"],
        {
            "AWS_ENDPOINT_URL": "http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        },
    ),
}


@dataclasses.dataclass(frozen=True)
class Store:
    """A bucket on a server of this machine.

    Attributes:
      root: its URL.
      environment: with which every client finds the server.
      port: of the server.
    """

    root: str
    environment: dict[str, str]
    port: int

    def put(self, name: str, content: bytes) -> str:
        """Writes an object, by the way that is tested elsewhere; its URL."""
        path = f"{self.root}/{name}"
        with atomic_write(path) as file:
            file.write(content)
        return path

    def put_file(self, file: Path, name: str) -> str:
        return self.put(name, file.read_bytes())

    def read(self, name: str) -> bytes:
        with open_file(f"{self.root}/{name}") as file:
            return file.read()

    def names(self, folder: str) -> set[str]:
        """What is in a folder, as relative paths."""
        return set(list_below(f"{self.root}/{folder}"))

    def clear(self, folder: str) -> None:
        remove([f"{self.root}/{folder}/{name}" for name in self.names(folder)])


@contextlib.contextmanager
def running_store(scheme: str) -> Iterator[Store]:
    """A server with an empty bucket, and an environment that leads there; both go afterwards."""
    pytest.importorskip({"gs": "gcp_storage_emulator", "s3": "moto.server"}[scheme])
    command, environment = _SERVERS[scheme]
    port = _free_port()
    environment = {name: text.format(port=port) for name, text in environment.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        server = subprocess.Popen(
            [sys.executable, *command, f"--port={port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(server, port)
            use_store_options()
            _make_bucket(scheme)
            yield Store(f"{scheme}://{_BUCKET}", environment, port)
        finally:
            server.kill()
            server.wait(_PATIENCE)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    last = time.monotonic() + _PATIENCE
    while True:
        assert server.poll() is None, "the server did not start"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < last, "the server does not answer"
        time.sleep(0.05)


def _make_bucket(scheme: str) -> None:
    if scheme == "gs":
        from google.cloud import storage  # type: ignore[attr-defined]

        storage.Client.create_anonymous_client().create_bucket(_BUCKET)
    else:
        import boto3

        boto3.client("s3").create_bucket(Bucket=_BUCKET)


class CountingProxy:
    """Between a client and a server: counts the bytes that the server sends.

    Args:
      port: of the server; the proxy's own is the attribute ``port``.
    """

    def __init__(self, port: int):
        self.sent = 0
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for source, target, counted in ((client, server, False), (server, client, True)):
                    threading.Thread(
                        target=self._pass, args=(source, target, counted), daemon=True
                    ).start()

    def _pass(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
                if counted:
                    self.sent += len(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
