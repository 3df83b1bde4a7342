"""The audit of one file of rows, alone or beside the documents of its block."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import posixpath
import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.arrow import example_schema
from schemas.stores import local_path, open_file
from transforms.audit_columns import RowGroup
from transforms.audit_corpus import (
    CorpusBlock,
    Coverage,
    count_without_partner,
    find_gaps,
    find_rows,
)
from transforms.audit_repeats import keep_hashes
from transforms.audit_reports import AuditSettings, ShardReport, ShardTask
from transforms.audit_rows import RowFindings, check_rows
from transforms.audit_rules import RULES, AuditRules, Rule
from transforms.blocks import assign_blocks
from transforms.keys import key_array

__all__ = ["audit_shard", "not_a_file"]

_READ_BYTES = 1 << 20

#: What pyarrow raises for a file that is not what it says: besides its own errors, OSError.
_DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError)


def audit_shard(
    task: ShardTask, settings: AuditSettings, *, block: CorpusBlock | None = None
) -> ShardReport:
    """Holds a file and its rows to the manifest, to every rule, and to the corpus if it is there.

    What is wrong with the file is in the report: nothing is raised for it.
    """
    rules, report = settings.rules[task.data_set], ShardReport.of(task)
    path, show = posixpath.join(settings.root, task.path), settings.show
    coverage = None
    if block is not None:
        passes = 1 if rules.layout == "shared" else rules.dupe_factor
        coverage = Coverage.of(block, passes=passes, pairs=rules.settings.pairs)
    if words := not_a_file(path):
        report.add("missing", words, show=show)
        return report
    with contextlib.ExitStack() as stack:
        try:
            local = stack.enter_context(_checked(path, report, settings))
        except OSError as error:
            words = error.strerror or _one_line(error)
            report.add("missing", f"cannot be read: {words}", show=show)
            return report
        try:
            found = list(_audit_groups(local, report, settings, block, coverage))
        except _DAMAGE as error:
            report.add("unreadable", f"cannot be read as Parquet: {_one_line(error)}", show=show)
            return report
    if found:
        keep_hashes(
            settings.hash_dir,
            task.number,
            hashes=np.concatenate([each.hashes for each in found]),
            certain=np.concatenate([each.certain for each in found]),
            origins=np.concatenate([each.origins for each in found]),
        )
    if coverage is not None and block is not None and "schema" not in report.broken:
        report.covered, report.tokens = coverage.covered(block), len(block.ids)
        report.without_partner = count_without_partner(block, coverage, rules)
        for gap in find_gaps(block, coverage, rules):
            report.add(gap.rule, gap.words, show=show)
    return report


def not_a_file(path: str) -> str | None:
    """Why there can be no file to read, in words: a pipe would be waited for without end."""
    if "\0" in path:
        return "has a NUL character in its name"
    local = local_path(path)
    if local is not None and os.path.exists(local) and not os.path.isfile(local):
        return "is not a regular file"
    return None


@dataclasses.dataclass(frozen=True)
class _Group:
    """What :func:`audit_shard` keeps of a row group; see ``audit_rows.RowFindings``."""

    hashes: np.ndarray
    certain: np.ndarray
    origins: np.ndarray


def _audit_groups(
    path: str,
    report: ShardReport,
    settings: AuditSettings,
    block: CorpusBlock | None,
    coverage: Coverage | None,
) -> Iterator[_Group]:
    """Reads a file, a row group at a time; fills the report, and the coverage."""
    rules, task, show = settings.rules[report.task.data_set], report.task, settings.show
    with pq.ParquetFile(path) as parquet:
        _check_header(parquet, rules, report, show=show)
        if "schema" in report.broken:
            return
        first = 0
        for number in range(parquet.num_row_groups):
            group = RowGroup.of(parquet.read_row_group(number, use_threads=False))
            found = check_rows(group, rules)
            if coverage is not None and block is not None:
                documents = find_rows(group, found, block, rules, coverage)
                _tell_blocks_apart(group, found.flags, documents, settings, task)
            _collect(found.flags, first, report, show=show)
            report.counts += found.counts
            _add_sums(found, report)
            report.histogram += found.histogram
            digest = hashlib.blake2b(found.hashes.data, digest_size=16).digest()
            report.groups.append((group.rows, digest))
            yield _Group(found.hashes, found.certain, found.origins)
            first += group.rows


def _add_sums(found: RowFindings, report: ShardReport) -> None:
    sums = report.sums or (0,) * len(found.sums)
    report.sums = tuple((a + int(b)) % 2**64 for a, b in zip(sums, found.sums, strict=True))
    report.drawn = report.drawn[0] + float(found.drawn[0]), report.drawn[1] + float(found.drawn[1])


@contextlib.contextmanager
def _checked(path: str, report: ShardReport, settings: AuditSettings) -> Iterator[str]:
    """A context with a local path of the file, whose size and checksum have been looked at.

    A remote file is read once: a copy is there as long as the context.

    Raises:
      OSError: it cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with contextlib.ExitStack() as stack:
        local, copy = local_path(path), None
        if local is None:
            copy = stack.enter_context(tempfile.NamedTemporaryFile(dir=settings.hash_dir))
            local = copy.name
        for chunk in _chunks(path):
            digest.update(chunk)
            size += len(chunk)
            if copy is not None:
                copy.write(chunk)
        if copy is not None:
            copy.flush()
        if size != report.task.bytes:
            words = f"has {size:,} bytes, not {report.task.bytes:,}"
            report.add("size", words, show=settings.show)
        if digest.hexdigest() != report.task.sha256:
            words = "has another sha256 than the manifest says"
            report.add("sha256", words, show=settings.show)
        yield local


def _chunks(path: str) -> Iterator[bytes]:
    """The bytes of a file.

    Raises:
      OSError: it cannot be read.
    """
    with open_file(path) as file:
        while chunk := file.read(_READ_BYTES):
            yield chunk


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _check_header(
    parquet: pq.ParquetFile, rules: AuditRules, report: ShardReport, *, show: int
) -> None:
    rows = parquet.metadata.num_rows
    if rows != report.task.rows:
        report.add("rows", f"has {rows:,} rows, not {report.task.rows:,}", show=show)
    wanted = example_schema(
        rules.settings.vocab_size,
        provenance=rules.provenance,
        objective=rules.objective,
        masking=rules.masking,
        layout=rules.layout,
    )
    schema = parquet.schema_arrow
    if not _same_columns(schema, wanted):
        theirs = ", ".join(f"{field.name} {field.type}" for field in schema)
        report.add("schema", f"has other columns than it should: {theirs}", show=show)
        return
    metadata = {k.decode(): v.decode() for k, v in (schema.metadata or {}).items()}
    for name, value in rules.metadata.items():
        if metadata.get(name) != value:
            words = f"says of itself {name}={metadata.get(name)}, the manifest {value}"
            report.add("metadata", words, show=show)


def _same_columns(schema: pa.Schema, wanted: pa.Schema) -> bool:
    """Names, order, types and nullability; what the items of a list are called does not count."""

    def described(kind: pa.DataType) -> object:
        if pa.types.is_list(kind):
            return "list", described(kind.value_type), kind.value_field.nullable
        return kind

    return [(f.name, described(f.type), f.nullable) for f in schema] == [
        (f.name, described(f.type), f.nullable) for f in wanted
    ]


def _tell_blocks_apart(
    group: RowGroup,
    flags: np.ndarray,
    documents: np.ndarray,
    settings: AuditSettings,
    task: ShardTask,
) -> None:
    """A document that the block does not have may be one of another block: says which it is."""
    spans, layout = group.spans, settings.layout
    missing = np.flatnonzero(documents < 0)
    if spans is None or layout is None or not len(missing):
        return
    blocks = assign_blocks(key_array(spans.low[missing], spans.high[missing]), layout)
    rows = np.searchsorted(spans.offsets, missing, side="right") - 1
    flags[rows[blocks != task.block]] |= 1 << Rule.WRONG_BLOCK


def _collect(flags: np.ndarray, first: int, report: ShardReport, *, show: int) -> None:
    every = np.bitwise_or.reduce(flags) if len(flags) else 0
    for rule in Rule:
        if not every >> rule & 1:
            continue
        rows = np.flatnonzero(flags >> rule & 1)
        for row in rows[:show]:
            report.add(rule.name.lower(), RULES[rule], row=first + int(row), show=show)
        report.broken[rule.name.lower()] += max(0, len(rows) - show)
