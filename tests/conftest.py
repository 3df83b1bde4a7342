"""Fixtures for every test: where text lives, and what a run may not do."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.clusters.fetch import is_complete

# Nothing may download in a test.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Test processes share the cores, and torch's threads wait for each other busily.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A runner's Java lives for seconds: compiling thoroughly, and threads that collect garbage beside it, take
# longer than what they help.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

DATA = Path(__file__).parent / "data"
RUNNERS = Path(__file__).resolve().parents[1] / ".runners"
SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def pytest_configure():
    """A shell in which it runs behind ``&`` has Ctrl-C ignored, which tests send."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val, argname):
    """Bytes have no part in a test's name: gzip's hold the second in which they were made."""
    return argname if isinstance(val, bytes) else None


#: They share a Flink cluster.
_ON_A_CLUSTER = tuple(
    f"tests/clusters/test_{n}.py" for n in ("flink", "flink_faults", "runner_docs")
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """``--dist loadfile``, but for files that share more than modules do.

    Its own ``loadgroup`` does nothing since pytest 9.2, in which nodes have no ``_nodeid`` any more.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = super()._split_scope(nodeid)
            return _ON_A_CLUSTER[0] if path in _ON_A_CLUSTER else path

    if config.getvalue("dist") != "loadfile":
        return None
    # By their names, not by how many tests they have: those of clusters are few, slow, and begin.
    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def data() -> Path:
    """The sample text written for this project."""
    return DATA


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real corpora, vocabularies and the reference's output; not part of a user's clone."""
    if not (SHARED / "data").is_dir():
        pytest.skip("needs the real corpora of ../shared, which are not part of the project")
    return SHARED


def without(says: str) -> NoReturn:
    """Ends a test for which something is not there: skipped, but failed in CI, which has everything."""
    if os.environ.get("BERT_DATA_REQUIRE_RUNNERS"):
        pytest.fail(says)
    pytest.skip(says)


@pytest.fixture(scope="session")
def commands():
    """Starts ``bert-data`` commands, in processes of their own."""
    if sys.platform != "linux":
        pytest.skip("needs /proc and fork")
    from tests.end_to_end.commands import server_of

    return server_of("bert-data")


@pytest.fixture(scope="session")
def runners() -> Path:
    """The folder with Flink, Spark and Prism that ``make runners`` fetches."""
    if not is_complete(RUNNERS):
        without(f"needs Flink, Spark and Prism in {RUNNERS.name}/: run make runners")
    return RUNNERS
