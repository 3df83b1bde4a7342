"""What a manifest says of the rows, checked and as reading needs it."""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from schemas.arrow import id_dtype
from schemas.errors import ConfigError
from schemas.manifest import LABEL_CONVENTIONS, DataSet, Manifest, ManifestError
from schemas.stores import open_file
from transforms.masking import MaskSettings

__all__ = [
    "check_labels",
    "choose_data_set",
    "mask_settings",
    "masks_depend_on",
    "read_tokenizer",
    "regular_ids",
]

_UNUSED = re.compile(r"\[unused\d+\]")

#: The kinds of rows that are known here, by field of the manifest.
_KNOWN = {
    "objective": tuple(LABEL_CONVENTIONS),
    "masking": ("static", "none"),
    "layout": ("separate", "shared"),
}

#: What :func:`mask_settings` takes from the configuration, and how words are marked in the rows.
_OF_MASKS = (
    *("masked_lm_prob", "max_ngram_size", "mask_per", "mask_token_share", "random_token_share"),
    *("random_tokens", "do_whole_word_mask"),
)


def check_labels(manifest: Manifest, directory: str) -> None:
    """The rows are of a known kind and their labels mean what they mean here, else ``ManifestError``."""
    for field, known in _KNOWN.items():
        if (value := getattr(manifest, field)) not in known:
            raise ManifestError(
                directory, f"its {field} is {value!r}, this program reads {', '.join(known)}"
            )
    expected = LABEL_CONVENTIONS[manifest.objective]
    if dict(manifest.label_convention) != expected:
        raise ManifestError(
            directory, f"its labels mean {dict(manifest.label_convention)}, not {dict(expected)}"
        )


def read_tokenizer(manifest: Manifest, directory: str) -> bytes:
    """The data set's ``tokenizer.json``; ``ManifestError`` if it is not the one that made the ids."""
    path = posixpath.join(directory, manifest.tokenizer.file)
    try:
        with open_file(path) as file:
            text = file.read()
    except FileNotFoundError:
        raise ManifestError(path, "it is missing; build or copy again") from None
    if hashlib.sha256(text).hexdigest() != manifest.tokenizer.digest:
        raise ManifestError(
            path, "another tokenizer than the one that made this data set; build or copy again"
        )
    return text


def choose_data_set(manifest: Manifest, *, max_seq_length: int | None, split: str) -> DataSet:
    """That of a split and length, None for the shortest; ``ConfigError`` if it has no rows."""
    fitting = [
        d
        for d in manifest.data_sets
        if d.split == split and max_seq_length in (None, d.max_seq_length) and d.examples
    ]
    if not fitting:
        there = ", ".join(f"{d.max_seq_length} {d.split}" for d in manifest.data_sets if d.examples)
        field, value = (
            ("split", split) if max_seq_length is None else ("max_seq_length", max_seq_length)
        )
        raise ConfigError(field, value, f"no such examples; there are {there or 'none'}")
    return min(fitting, key=lambda d: d.max_seq_length)


def mask_settings(
    manifest: Manifest, *, max_predictions_per_seq: int, tokenizer: bytes
) -> MaskSettings:
    """How rows without masks are masked as they are loaded: as the build was told to.

    Args:
      manifest: of masking ``none``.
      max_predictions_per_seq: of the data set that is read.
      tokenizer: its ``tokenizer.json``.
    """
    configuration, about = manifest.configuration, manifest.tokenizer
    random_ids = (
        np.arange(about.vocab_size)
        if configuration["random_tokens"] == "all"
        else regular_ids(tokenizer, manifest)
    )
    return MaskSettings(
        masked_lm_prob=float(configuration["masked_lm_prob"]),
        max_predictions_per_seq=max_predictions_per_seq,
        max_ngram_size=configuration["max_ngram_size"],
        mask_per=configuration["mask_per"],
        mask_token_share=float(configuration["mask_token_share"]),
        random_token_share=float(configuration["random_token_share"]),
        mask_id=about.mask_id,
        cls_id=about.cls_id,
        sep_id=about.sep_id,
        random_ids=random_ids.astype(id_dtype(about.vocab_size)),
    )


def masks_depend_on(manifest: Manifest) -> dict[str, Any]:
    """Settings of the build that decide the masks of rows which were built without; else none.

    Stored masks are rows, and the shards' sums have them.
    """
    if manifest.masking != "none":
        return {}
    return {name: manifest.configuration.get(name) for name in _OF_MASKS}


def regular_ids(tokenizer: bytes, manifest: Manifest) -> np.ndarray:
    """Int64, sorted: the ids that text can have, which random replacements are drawn from.

    Those of ``Vocabulary.regular_ids``: not special, not ``[unusedN]``.
    """
    about = manifest.tokenizer
    read = Tokenizer.from_buffer(tokenizer)
    special = {i for i, token in read.get_added_tokens_decoder().items() if token.special}
    special |= {about.pad_id, about.unk_id, about.cls_id, about.sep_id, about.mask_id}
    vocabulary = read.get_vocab(with_added_tokens=True)
    return np.array(
        sorted(
            i
            for token, i in vocabulary.items()
            if token and i not in special and not _UNUSED.fullmatch(token)
        ),
        np.int64,
    )
