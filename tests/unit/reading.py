"""Reads files as a build does, for tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import ReadOptions, read_task

__all__ = ["read_rows"]


def read_rows(
    *paths: Path,
    format: str = "auto",
    encoding: str = "utf-8",
    stripes: int = 1,
    range_bytes: int | None = None,
    counts: Counter[str] | None = None,
    **options: Any,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Documents and rejects over all tasks, each a row; every batch is held to its schema."""
    files = list_inputs([str(path) for path in paths], format=format, encoding=encoding)
    tasks = plan_reads(
        files,
        num_stripes=stripes,
        range_bytes=range_bytes,
        document_separator=options.get("document_separator"),
    )
    found: dict[str, list[dict[str, Any]]] = {"documents": [], "rejects": []}
    for task in tasks:
        for output, batch in read_task(task, options=ReadOptions(**options), counts=counts):
            batch.validate(full=True)
            found[output] += batch.to_pylist()
    return found["documents"], found["rejects"]
