"""Proves rows against the corpus: every segment is where provenance says, and no sentence is left out.

The documents of one block are all that its shards can be made of, so that a block at a time is enough.
Copies of a document share a key, and a row may be of any of them: one that explains it is enough.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from transforms.audit_block import CorpusBlock, Coverage, find_documents
from transforms.audit_columns import RowGroup
from transforms.audit_pairs import find_pairs
from transforms.audit_rows import RowFindings
from transforms.audit_rules import AuditRules
from transforms.audit_streams import find_streams
from transforms.audit_words import check_marks

__all__ = [
    "CorpusBlock",
    "Coverage",
    "Gap",
    "count_without_partner",
    "find_gaps",
    "find_rows",
]


def find_rows(
    group: RowGroup, found: RowFindings, block: CorpusBlock, rules: AuditRules, coverage: Coverage
) -> np.ndarray:
    """Looks up every part of every row where provenance says it is.

    Flags are added to ``found``, what is covered to ``coverage``.

    Returns:
      int64[parts]: the documents of the parts, -1 for those that the block does not have.
    """
    spans = group.spans
    assert spans is not None
    documents = find_documents(block, spans.low, spans.high)
    marks = np.zeros(len(found.text), np.uint8)
    known = np.zeros(group.rows, np.bool_)
    fitting = (group.dupe_pass >= 0) & (group.dupe_pass < _passes(coverage))
    arguments = (
        found.text,
        group.offsets,
        found.separators,
        group.labels,
        np.where(fitting, group.dupe_pass, 0),
        spans.offsets,
        documents,
        spans.first,
        spans.end,
        block.ids,
        block.sentence_offsets,
        block.first_sentence,
        block.end_sentence,
        block.end_copy,
        block.alike,
        rules.settings,
        found.flags,
        coverage.least,
        coverage.most,
        coverage.sentences if rules.settings.pairs else coverage.tokens,
        coverage.used,
        block.continues,
        marks,
        known,
    )
    (find_pairs if rules.settings.pairs else find_streams)(*arguments)
    if len(block.continues) and not rules.settings.words_known:
        check_marks(group, found, rules, marks, known)
    return documents


def _passes(coverage: Coverage) -> int:
    return max(len(coverage.sentences), coverage.tokens.shape[1])


@dataclasses.dataclass(frozen=True)
class Gap:
    """A document of which some pass does not hold what it should: what is wrong, in words."""

    rule: str
    words: str


def find_gaps(block: CorpusBlock, coverage: Coverage, rules: AuditRules) -> list[Gap]:
    """Documents that are not in every pass exactly as often as in the corpus.

    Every pass takes each document apart into chunks, of which each makes one row: the chunks of a pass
    are all of its sentences, once. For mlm likewise with its tokens. Allowed to be missing: what the
    settings drop, chunks without a partner, sentences of one token that sop cannot cut.
    """
    if rules.settings.pairs:
        return _gaps_in_sentences(block, coverage, rules)
    gaps = []
    sizes = (
        block.sentence_offsets[block.end_sentence] - block.sentence_offsets[block.first_sentence]
    )
    wanted = np.where(_firsts(block), sizes * (block.end_copy - block.first_copy), 0)
    too_many = coverage.tokens[0] > wanted
    too_few = coverage.tokens[1] < (wanted if rules.complete else 0)
    for dupe_pass, d in np.argwhere((too_many | too_few) & block.alike):
        many = too_many[dupe_pass, d]
        rule = "tokens_again" if many else "tokens_missing"
        seen = coverage.tokens[1 - int(many), dupe_pass, d]
        gaps.append(
            Gap(
                rule if many or coverage.used[d] else "document_missing",
                f"pass {dupe_pass} holds {seen:,} tokens of document {block.key(d)}, "
                f"which has {wanted[d]:,}",
            )
        )
    return gaps


def _firsts(block: CorpusBlock) -> np.ndarray:
    return np.asarray(block.first_copy == np.arange(len(block.low)))


def _depths(block: CorpusBlock, coverage: Coverage) -> tuple[np.ndarray, ...]:
    """Of each sentence: its document, the chunks it is in, int64[passes, sentences], and should be in."""
    counts = block.end_sentence - block.first_sentence
    order = np.argsort(block.first_sentence)
    document = np.repeat(order, counts[order])  # sentences lie in order of delivery
    wanted = np.where(_firsts(block), block.end_copy - block.first_copy, 0)[document]
    return document, np.cumsum(coverage.sentences[:, :-1], axis=1), wanted


def _may_be_missing(block: CorpusBlock, rules: AuditRules) -> np.ndarray:
    """bool[sentences]: alone in a chunk, this sentence makes no row."""
    sentences = len(block.sentence_offsets) - 1
    alone = len(block.low) > 0 and block.end_copy[0] == len(block.low)
    if not rules.complete or (alone and not rules.settings.sop):
        return np.ones(sentences, bool)
    if rules.settings.sop:
        return np.asarray(np.diff(block.sentence_offsets) <= 1)
    return np.zeros(sentences, bool)


def count_without_partner(block: CorpusBlock, coverage: Coverage, rules: AuditRules) -> int | None:
    """Chunks of one sentence that made no row, as they may; None where copies make it unclear."""
    if not rules.settings.pairs:
        return 0
    if not block.alike.all():
        return None
    _, depth, wanted = _depths(block, coverage)
    return int(np.maximum(wanted - depth, 0)[:, _may_be_missing(block, rules)].sum())


def _gaps_in_sentences(block: CorpusBlock, coverage: Coverage, rules: AuditRules) -> list[Gap]:
    document, depth, wanted = _depths(block, coverage)
    too_many = depth > wanted
    too_few = (depth < wanted) & ~_may_be_missing(block, rules)
    gaps = []
    told: set[tuple[int, int, bool]] = set()
    for dupe_pass, sentence in np.argwhere((too_many | too_few) & block.alike[document]):
        d, many = int(document[sentence]), bool(too_many[dupe_pass, sentence])
        if (dupe_pass, d, many) in told:
            continue
        told.add((int(dupe_pass), d, many))
        rule = "sentence_again" if many else "sentence_missing"
        gaps.append(
            Gap(
                rule if coverage.used[d] else "document_missing",
                f"sentence {sentence - block.first_sentence[d]} of document {block.key(d)} is in "
                f"{depth[dupe_pass, sentence]} chunks of pass {dupe_pass}, not {wanted[sentence]}",
            )
        )
    return gaps
