"""Fixtures of readers' tests."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Small data sets by objective, masking, layout and settings, each written once."""
    from tests.unit.small_data_sets import write_data_set

    written: dict[Any, Any] = {}

    def get(objective="nsp", masking="static", layout="separate", **settings):
        key = (objective, masking, layout, *sorted(settings.items()))
        if key not in written:
            kind = {"objective": objective, "masking": masking, "layout": layout}
            directory = tmp_path_factory.mktemp("small") / "data"
            written[key] = write_data_set(directory, **kind, **settings)
        return written[key]

    return get
