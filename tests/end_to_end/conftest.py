"""Fixtures of whole builds."""

from __future__ import annotations

import contextlib

import pytest

from tests.builds import DATA, build_here
from tests.stores import Store, running_store


@pytest.fixture(scope="session")
def servers():
    """Object stores that were asked for, by scheme; each is started once."""
    with contextlib.ExitStack() as stack:
        running: dict[str, Store] = {}

        def start(scheme: str) -> Store:
            if scheme not in running:
                running[scheme] = stack.enter_context(running_store(scheme))
            return running[scheme]

        yield start


@pytest.fixture(scope="session", params=["gs", "s3"])
def store(request, servers) -> Store:
    """Each kind of object store in turn."""
    return servers(request.param)


@pytest.fixture(scope="session")
def train_data(tmp_path_factory):
    """Two lengths, without masks, which change from epoch to epoch; two shards, held-out rows."""
    output = tmp_path_factory.mktemp("train") / "data"
    settings = {"max_seq_length": (32, 64), "masking": "none", "dupe_factor": 1, "num_shards": 2}
    build_here(DATA / "documents.jsonl", output=output, validation_fraction=0.1, **settings)
    return output


@pytest.fixture(scope="session")
def trained_model(train_data, tmp_path_factory):
    """The output of a run of 4 steps on ``train_data``."""
    from tests.end_to_end.train_runs import configure
    from train.train import train

    output = tmp_path_factory.mktemp("trained") / "model"
    train(configure(train_data, output))
    return output
