"""``--exact_reference``: what of a configuration Google's script knows, and its files in its order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from schemas.errors import ConfigError
from transforms.inputs import InputFile, list_in_order
from transforms.reference_groups import FileGroup

if TYPE_CHECKING:
    from pipeline.config import BuildConfig

__all__ = ["as_the_reference", "list_groups", "resolved_otherwise"]

#: The one value of each setting that makes what the script makes.
_SCRIPTS: dict[str, Any] = {
    "format": "text",
    "encoding": "utf-8",
    "min_document_chars": 0,
    "deduplicate": False,
    "sentence_splitter": "none",
    "split_long_sentences": False,
    "dupe_mode": "resegment",
    "objective": "nsp",
    "not_next_share": 0.5,
    "validation_fraction": 0.0,
    "masking": "static",
    "random_tokens": "all",
    "word_segmenter": "none",
    "max_ngram_size": 1,
    "mask_per": "piece",
    "mask_token_share": 0.8,
    "random_token_share": 0.1,
    "kept_token_share": 0.1,
    "layout": "separate",
}


def as_the_reference(config: BuildConfig, *, num_groups: int) -> BuildConfig:
    """The configuration with the script's values where ours were left as they are by default.

    Raises:
      ConfigError: a setting for something that the script does not do.
    """
    values = {}
    for name, scripts in _SCRIPTS.items():
        value = getattr(config, name)
        if value not in (scripts, config.__dataclass_fields__[name].default):
            raise ConfigError(
                name, value, f"cannot go with --exact_reference, which has {scripts}; leave it out"
            )
        values[name] = scripts
    if config.num_shards not in (None, num_groups):
        raise ConfigError(
            "num_shards",
            config.num_shards,
            f"cannot go with --exact_reference, which writes one file for each of its {num_groups:,} "
            f"file groups (--reference_groups={config.reference_groups}); leave it out",
        )
    return dataclasses.replace(config, **values, num_shards=num_groups)


def resolved_otherwise(config: BuildConfig) -> Iterator[str]:
    """A line for each setting that had another default."""
    if config.random_tokens != _SCRIPTS["random_tokens"]:
        yield (
            "--exact_reference: random replacements are drawn from the whole vocabulary "
            "(random_tokens=all), special and [unused] tokens too, as in Google's script"
        )


def list_groups(config: BuildConfig) -> tuple[tuple[InputFile, ...], tuple[FileGroup, ...]]:
    """The files in the script's order, and the invocations of it that read them.

    Raises:
      ConfigError: see ``transforms.inputs.list_inputs``.
    """
    files = list_in_order(config.input)
    invocations = [files] if config.reference_groups == "all" else [(file,) for file in files]
    return files, tuple(FileGroup(i, group) for i, group in enumerate(invocations))
