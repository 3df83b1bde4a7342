"""Fixtures for every test: where text lives, and what a run may not do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Nothing may download in a test.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).resolve().parents[1].parent / "shared"


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
