"""``bert-data check``: holds a finished data set to every promise, and to its corpus if that is given."""

from __future__ import annotations

import dataclasses
import logging
import posixpath
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer

from pipeline.check_data_sets import (
    MANIFEST,
    alike_by_right,
    check_folder,
    list_shards,
    why_not_read,
)
from pipeline.check_graph import AuditJob, AuditResult, run_audit
from pipeline.check_manifest import (
    as_configured,
    check_manifest,
    check_tokenizer,
    other_versions,
)
from pipeline.check_passes import check_passes
from pipeline.check_places import scratch_folder
from pipeline.check_rates import check_corpus_counts, check_rates
from pipeline.check_repeats import certain_repeats, same_groups
from pipeline.check_report import describe_data_set, describe_violations
from pipeline.check_setup import prepare_corpus, rules_of
from pipeline.check_shares import equal_passes, far_shares, shares
from pipeline.check_totals import Totals
from pipeline.prepare import Prepared
from pipeline.run import quiet_beam
from pipeline.summary import COMPILING
from pipeline.wording import plural
from runners.interrupts import interruptible
from schemas.errors import ConfigError
from schemas.manifest import (
    MANIFEST_FILE,
    Manifest,
    ManifestError,
    load_manifest,
)
from schemas.stores import open_file, require_folder, require_store
from transforms import has_kernel
from transforms.audit_repeats import Repeats, find_repeats
from transforms.audit_reports import AuditSettings, ShardReport
from transforms.audit_rules import AuditRules, Violation
from transforms.audit_shard import not_a_file

__all__ = ["Findings", "audit", "check"]


_LOGGER = logging.getLogger(__name__)

#: What another version of a library that reads the text may break.
_OF_TEXT = {
    "continues_word",
    "counts",
    "document_missing",
    "half_word",
    "sentence_again",
    "sentence_missing",
    "sentence_span",
    "text",
    "tokens_again",
    "tokens_missing",
}


@dataclasses.dataclass(frozen=True)
class Findings:
    """What an audit found.

    Attributes:
      violations: the first of each rule and place.
      broken: how often which rule does not hold.
      lines: the report.
    """

    violations: tuple[Violation, ...]
    broken: Counter[str]
    lines: tuple[str, ...]


def check(
    directory: str,
    *,
    corpus: Sequence[str] = (),
    max_violations: int = 10,
    num_workers: int | None = None,
    temp_dir: str | None = None,
) -> int:
    """Audits a data set and prints what was found.

    Args:
      directory: with a ``manifest.json``.
      corpus: what it was built from, as INPUT of a build; empty to look at the data set alone.
      max_violations: how many are shown.
      num_workers: processes; None for one a core where there is enough to do.
      temp_dir: for files needed during the audit, those of the corpus' shuffle among them; None for
        the system's.

    Returns:
      The exit code: 0 if all holds, 1 if not.

    Raises:
      ConfigError: no data set, no corpus, another number of files than it was made of, or a corpus
        for a data set without provenance.
    """
    started = time.monotonic()
    if max_violations < 0:
        raise ConfigError("max_violations", max_violations, "must be a whole number, at least 0")
    if num_workers is not None and num_workers < 1:
        raise ConfigError("num_workers", num_workers, "must be a whole number, at least 1")
    require_folder("directory", directory)
    for path in corpus:
        require_store("corpus", path)
    if words := not_a_file(posixpath.join(directory, MANIFEST_FILE)):
        print(f"{MANIFEST}: manifest: {words}\nViolations: 1 manifest", flush=True)
        return 1
    try:
        manifest = load_manifest(directory)
    except ManifestError as error:
        if not _is_there(posixpath.join(directory, MANIFEST_FILE)):
            raise
        print(f"{MANIFEST}: manifest: {error.remedy}\nViolations: 1 manifest", flush=True)
        return 1
    found = audit(
        directory,
        manifest,
        corpus=corpus,
        show=max(1, max_violations),
        num_workers=num_workers,
        temp_dir=temp_dir,
        quiet=False,
    )
    print("\n".join(found.lines), flush=True)
    if found.broken:
        tokenizer = _tokenizer(posixpath.join(directory, manifest.tokenizer.file))
        for line in describe_violations(
            directory,
            manifest,
            found.violations,
            found.broken,
            limit=max_violations,
            tokenizer=tokenizer,
        ):
            print(line, flush=True)
    held = "Not all of it holds" if found.broken else "All of it holds"
    print(f"{held}, checked in {time.monotonic() - started:.1f} s.", flush=True)
    return 1 if found.broken else 0


def _is_there(path: str) -> bool:
    try:
        with open_file(path):
            return True
    except OSError:
        return False


def _tokenizer(path: str) -> Tokenizer | None:
    if not_a_file(path):
        return None
    try:
        with open_file(path) as file:
            return Tokenizer.from_buffer(file.read())
    except (OSError, ValueError):
        return None


def audit(
    directory: str,
    manifest: Manifest,
    *,
    corpus: Sequence[str] = (),
    show: int = 10,
    num_workers: int | None = None,
    temp_dir: str | None = None,
    quiet: bool = True,
) -> Findings:
    """The audit itself; see :func:`check`. ``quiet``: no progress display."""
    if corpus and not manifest.configuration.get("provenance"):
        raise ConfigError(
            "corpus",
            corpus[0],
            "its rows do not say where they come from; build with --provenance to have them proved",
        )
    vocabulary, violations = check_tokenizer(directory, manifest)
    violations = [*check_manifest(manifest), *check_folder(directory, manifest), *violations]
    broken = Counter(violation.rule for violation in violations)
    lines = [_introduction(directory, manifest)]
    configured = as_configured(manifest)
    reason = why_not_read(*configured) if configured else "the configuration is not a valid one"
    if configured is None or reason:
        lines.append(f"The rows were not looked at: {reason}.")
        return Findings(tuple(violations), broken, tuple(lines))
    manifest, prepared, versions = configured[0], None, []
    if corpus and not {"configuration", "fingerprint", "tokenizer"} & set(broken):
        prepared = prepare_corpus(directory, manifest, corpus)
        versions = list(other_versions(manifest))
    elif corpus:
        lines.append("The corpus was not looked at: its tokenizer or configuration is not right.")
    rules = rules_of(manifest, vocabulary)
    with (
        quiet_beam(),
        interruptible() as interrupts,
        scratch_folder(temp_dir) as scratch,
    ):
        for version in versions:
            _LOGGER.warning(version)
        job = _job(directory, manifest, rules, prepared, scratch=scratch, show=show)
        if not quiet and not _is_compiled(manifest, corpus=prepared is not None):
            print(COMPILING, file=sys.stderr, flush=True)
        result = run_audit(job, interrupts=interrupts, num_workers=num_workers, quiet=quiet)
        repeats = _find_repeats(job)
    for report in result.shards:
        violations += report.violations
        broken += report.broken
    more, hidden, about = _judge(directory, manifest, job, result, repeats)
    broken.update(violation.rule for violation in more)
    broken["row_twice"] += hidden
    if versions and _OF_TEXT & set(broken):
        about.append(f"The likely cause of what differs from the corpus: {'; '.join(versions)}")
    rows = sum(d.examples for d in manifest.data_sets)
    if rows and broken["unknown_document"] >= rows:
        about.append("No row's document is in this corpus: is it the one that the data set is of?")
    return Findings((*violations, *more), +broken, (*lines, *about))


def _is_compiled(manifest: Manifest, *, corpus: bool) -> bool:
    """Whether the kernels are there that such an audit alone needs."""
    proves = (
        "audit_streams.find_streams" if manifest.objective == "mlm" else "audit_pairs.find_pairs"
    )
    return has_kernel("audit_masks.check_masks") and (not corpus or has_kernel(proves))


def _find_repeats(job: AuditJob) -> dict[str, Repeats]:
    """Of each data set, once its shards have been looked at."""
    return {
        name: find_repeats(
            job.scratch,
            [task.number for task in job.tasks if task.data_set == name],
            show=job.settings.show,
        )
        for name in job.settings.rules
    }


def _job(
    directory: str,
    manifest: Manifest,
    rules: dict[str, AuditRules],
    prepared: Prepared | None,
    *,
    scratch: str,
    show: int,
) -> AuditJob:
    in_groups = bool(manifest.configuration["exact_reference"])
    settings = AuditSettings(
        root=directory,
        rules=rules,
        hash_dir=scratch,
        show=show,
        # Of file groups no document says where it belongs.
        layout=None if prepared is None or in_groups else prepared.job.layout,
        word_marks=prepared is not None and prepared.job.word_marks,
        deduplicate=bool(manifest.configuration["deduplicate"]),
        marks=None if prepared is None else prepared.job.marks,
    )
    return AuditJob(list_shards(manifest), settings, prepared, scratch)


def _judge(
    directory: str,
    manifest: Manifest,
    job: AuditJob,
    result: AuditResult,
    repeats: Mapping[str, Repeats],
) -> tuple[list[Violation], int, list[str]]:
    """What is wrong with all rows together.

    Returns:
      The violations, how many more rows are there twice, and the report.
    """
    corpus, alike = job.prepared is not None, alike_by_right(manifest)
    more = [] if alike else list(same_groups(result.shards))
    hidden, lines = 0, []
    if corpus:
        counted = result.counts
        more += check_corpus_counts(manifest, counted, result.rejects, result.read)
        lines.append(
            f"Corpus: {plural(counted['documents'], 'document')}, "
            f"{plural(counted['sentences'], 'sentence')}, {counted['tokens']:,} tokens"
        )
    for d in manifest.data_sets:
        name = f"{d.name}/{d.split}"
        if not alike:
            repeated, others = certain_repeats(directory, repeats[name], job.tasks)
            more += repeated
            hidden += others
        own = [report for report in result.shards if report.task.data_set == name]
        if any(_unread(report) for report in own):
            lines.append(f"{name}: not all of its rows could be read")
            continue
        more += check_passes(manifest, own, name)
        totals = Totals.of(own, random_ids=job.settings.rules[name].random_ids)
        found = shares(manifest, d, totals)
        more += check_rates(manifest, d, totals, corpus=corpus)
        more += far_shares(found, name)
        more += equal_passes(totals, name)
        lines += describe_data_set(manifest, d, totals, found, repeats[name], corpus=corpus)
    return more, hidden, lines


def _unread(report: ShardReport) -> bool:
    """Whether its rows are not all known; then rates that differ say nothing new."""
    return bool({"missing", "unreadable", "schema"} & set(report.broken))


def _introduction(directory: str, manifest: Manifest) -> str:
    shards = sum(len(d.shards) for d in manifest.data_sets)
    size = sum(shard.bytes for d in manifest.data_sets for shard in d.shards)
    return (
        f"{directory}: {manifest.objective}, masking {manifest.masking}, "
        f"{manifest.counts.examples:,} rows in {plural(shards, 'shard')}, {size / 1e6:,.1f} MB"
    )
