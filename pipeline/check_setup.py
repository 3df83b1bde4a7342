"""What an audit needs before it can look at rows: the rules, and how the corpus was read."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

import numpy as np

from pipeline.config import SETTINGS_BEFORE, BuildConfig
from pipeline.prepare import Prepared, prepare
from pipeline.wording import plural
from schemas.errors import ConfigError
from schemas.manifest import Manifest
from transforms.audit_rules import AuditRules, table_of_kinds
from transforms.vocabulary import Vocabulary

__all__ = ["prepare_corpus", "rules_of"]


def rules_of(manifest: Manifest, vocabulary: Vocabulary | None) -> dict[str, AuditRules]:
    """The rules of each data set; without its own tokenizer nothing is said of words."""
    about = manifest.tokenizer
    nothing = np.zeros(0, np.int64)
    kinds = table_of_kinds(
        vocab_size=max(1, about.vocab_size),
        special={about.pad_id, about.cls_id, about.sep_id, about.mask_id},
        is_subword=nothing.astype(bool) if vocabulary is None else vocabulary.is_subword,
        regular_ids=nothing if vocabulary is None else vocabulary.regular_ids,
    )
    known = vocabulary is not None
    words_known = vocabulary is not None and not vocabulary.word_marks.marks_first
    return {
        f"{d.name}/{d.split}": AuditRules.of(
            manifest, d, kinds, tokens_known=known, words_known=words_known
        )
        for d in manifest.data_sets
    }


def prepare_corpus(directory: str, manifest: Manifest, corpus: Sequence[str]) -> Prepared:
    """How the corpus was read, by the configuration of the data set.

    Raises:
      ConfigError: no such corpus.
    """
    values = (
        SETTINGS_BEFORE
        | dict(manifest.configuration)
        | {
            "input": tuple(corpus),
            "vocab_file": posixpath.join(directory, manifest.tokenizer.file),
            "output": directory,
            "overwrite": False,
            "resume": False,
            "strict": False,  # what is refused is counted
        }
    )
    groups = values["num_shards"]
    if values["exact_reference"]:
        values["num_shards"] = None  # as many as there are files, or one
    try:
        prepared = prepare(BuildConfig.from_values(values))
    except ConfigError as error:
        field = "corpus" if error.field == "input" else error.field
        raise ConfigError(field, error.value, error.remedy) from None
    if prepared.job.layout.num_shards != groups:
        raise ConfigError(
            "corpus",
            ",".join(corpus),
            f"has {plural(len(prepared.files), 'file')}, the data set was made of {groups:,}, "
            "each for itself; give all of them",
        )
    return prepared
