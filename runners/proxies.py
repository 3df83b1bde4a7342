"""Connections to this machine itself, which a proxy of the environment must not get."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["no_proxy_for_localhost"]


@contextlib.contextmanager
def no_proxy_for_localhost() -> Iterator[None]:
    """The workers are reached by gRPC, which would go to a proxy of the environment for that."""
    name = "no_grpc_proxy"
    before = os.environ.get(name)
    others = before or os.environ.get("no_proxy")
    os.environ[name] = ",".join(filter(None, [others, "localhost"]))
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
