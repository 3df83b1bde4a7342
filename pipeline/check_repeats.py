"""Rows and row groups that are in a data set more than once."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from pipeline.check_rows import read_row
from transforms.audit_repeats import Repeats
from transforms.audit_reports import ShardReport, ShardTask
from transforms.audit_rules import Violation

__all__ = ["certain_repeats", "same_groups"]

#: Row groups of fewer rows than this may be equal by chance.
_MANY_ROWS = 8


def same_groups(reports: Sequence[ShardReport]) -> Iterator[Violation]:
    """Row groups whose rows are all there again in the same order: shuffles never agree so."""
    seen: dict[tuple[str, bytes], str] = {}
    for report in reports:
        for number, (rows, digest) in enumerate(report.groups):
            if rows < _MANY_ROWS:
                continue
            key = report.task.data_set, digest
            if key in seen:
                words = f"row group {number} has the same rows as {seen[key]}"
                yield Violation("same_rows", words, report.task.path)
            seen.setdefault(key, f"row group {number} of {report.task.path}")


def certain_repeats(
    directory: str, repeats: Repeats, tasks: Sequence[ShardTask]
) -> tuple[list[Violation], int]:
    """Rows that are there twice and cannot be so by chance: hashes that agree are looked at again.

    Returns:
      A violation for the first of them, and how many more there are.
    """
    paths = {task.number: task.path for task in tasks}
    found = []
    refuted = 0
    for here, before in repeats.examples:
        rows = [
            _contents(read_row(posixpath.join(directory, paths[place.shard]), place.row))
            for place in (here, before)
        ]
        if rows[0] != rows[1]:
            refuted += 1
            continue
        words = f"the row is there already, as row {before.row} of {paths[before.shard]}"
        found.append(Violation("row_twice", words, paths[here.shard], here.row))
    return found, max(0, repeats.certain - refuted - len(found)) if found else 0


def _contents(columns: dict[str, object] | None) -> dict[str, object]:
    """Of a row, what the hash is made of: all but where it comes from."""
    names = (
        "input_ids",
        "masked_lm_positions",
        "masked_lm_ids",
        "replacement_ids",
        "next_sentence_label",
    )
    return {name: value for name, value in (columns or {}).items() if name in names}
