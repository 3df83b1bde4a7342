"""Fixtures of whole builds."""

from __future__ import annotations

import sys

import pytest

from tests.end_to_end.commands import CommandServer


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    """Starts ``bert-data`` commands, in processes of their own."""
    if sys.platform != "linux":
        pytest.skip("needs /proc and fork")
    server = CommandServer(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()
