"""Reads rows of a data set again, to compare or to show them."""

from __future__ import annotations

from typing import Any

from pipeline.row_text import read_rows
from schemas.stores import open_file
from transforms.audit_shard import not_a_file

__all__ = ["read_row"]


def read_row(path: str, row: int) -> dict[str, Any] | None:
    """A row's columns; None where the file cannot be read any more."""
    if not_a_file(path):
        return None
    try:
        with open_file(path) as file:
            return next((columns for _, columns in read_rows(file, [row])), None)
    except (OSError, ValueError):
        return None
