"""The manifest of a data set: its shape, and the one way to read it.

Every reader goes by the manifest, never by a glob: it is written last, so a directory without one
is incomplete. Local paths need nothing but the standard library; for others see ``schemas.stores``.
``manifest.schema.json`` says the same in JSON Schema.
"""

from __future__ import annotations

import dataclasses
import json
import os
import posixpath
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas import SCHEMA_VERSION
from schemas.errors import ConfigError
from schemas.stores import local_path, open_file, require_folder

__all__ = [
    "HISTOGRAM_BINS",
    "LABEL_CONVENTIONS",
    "MANIFEST_FILE",
    "Counts",
    "CreatedBy",
    "DataSet",
    "Manifest",
    "ManifestError",
    "Rates",
    "Shard",
    "TokenizerInfo",
    "load_manifest",
    "open_shards",
    "parse_manifest",
    "verify_tokenizer",
]

MANIFEST_FILE = "manifest.json"

#: What the two values of ``next_sentence_label`` mean, by objective; for nsp it is the reference's
#: convention, for sop ALBERT's. Rows of mlm have no label.
LABEL_CONVENTIONS: Mapping[str, Mapping[str, str]] = {
    "nsp": {"0": "IsNext", "1": "NotNext"},
    "sop": {"0": "InOrder", "1": "Swapped"},
    "mlm": {},
}

#: Equal bins of ``num_tokens_histogram``: bin ``(num_tokens - 1) * 16 // max_seq_length``.
HISTOGRAM_BINS = 16


#: Fields that the first manifests of this version did not have; they have defaults.
_ADDED_LATER = frozenset(
    {
        "documents_with_control_characters",
        "documents_with_replacement_characters",
        "language_detector",
        "layout",
        "long_sentences",
        "masking",
        "objective",
        "sentence_splitter",
        "skipped_documents",
        "split_segment",
        "text_readers",
        "word_segmenter",
    }
)


class ManifestError(ConfigError):
    """A directory that cannot be used as a data set. One line: the path and what is wrong."""

    def __init__(self, path: str, remedy: str):
        super().__init__("data", path, remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value, self.remedy)

    def __str__(self) -> str:
        return f"{self.value}: {self.remedy}"


@dataclass(frozen=True, kw_only=True)
class CreatedBy:
    """What wrote the data set, and the libraries on which rows and bytes depend.

    The same bytes are promised for the same pyarrow only, the same rows for the same splitter and
    ``word_segmenter``, ``sentence_splitter`` (what it uses beside sentencex), ``language_detector`` and
    ``text_readers``, which find the text of web pages or guess an encoding (names and versions; None
    where there was none).
    """

    name: str
    version: str
    pyarrow: str
    sentencex: str
    tokenizers: str
    word_segmenter: str | None = None
    sentence_splitter: str | None = None
    language_detector: str | None = None
    text_readers: str | None = None


@dataclass(frozen=True, kw_only=True)
class TokenizerInfo:
    """The tokenizer that made the ids. ``file`` is relative to the data set.

    ``do_lower_case`` is null where the tokenizer has no such switch.
    """

    file: str
    digest: str
    vocab_size: int
    do_lower_case: bool | None
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Totals of the run. ``documents`` were read and accepted, duplicates among them.

    Of the duplicates all are in the data set, or with ``deduplicate`` none. ``skipped_documents``,
    not among ``documents``, were shorter than ``min_document_chars``. A control character is one that
    is no white space, a replacement character is U+FFFD. These three are None where they were not counted.

    ``sentences`` and ``tokens`` count the corpus once, not once per dupe pass; ``examples`` counts
    the rows of all data sets; ``rejects_by_reason`` has the names of ``RejectReason`` that occur.
    """

    documents: int
    duplicate_documents: int
    documents_without_tokens: int
    one_sentence_documents: int
    sentences: int
    tokens: int
    unknown_tokens: int
    examples: int
    rejects: int
    rejects_by_reason: Mapping[str, int]
    skipped_documents: int | None = None
    documents_with_control_characters: int | None = None
    documents_with_replacement_characters: int | None = None


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Realised shares over the rows of one data set; None where there is nothing to divide by.

    Attributes:
      mean_num_tokens: tokens a row, special tokens counted.
      padding: share of ``max_seq_length`` that a padded row would waste.
      masked: masked positions among all tokens of the rows.
      mask_token: share of the masked positions that hold the mask token.
      random_token: share of the masked positions that hold a random token.
      kept_token: share of the masked positions that keep their token.
      not_next: share of rows labelled 1: NotNext, or swapped for sop; None for mlm.
      short: share of rows made for a target length below the longest.
      unknown: share of tokens that are the unknown token.
      uncovered_tokens: share of the corpus' tokens that are in no row.
      single_segment_not_next: share of rows that are NotNext because a chunk had one sentence; None
        for sop and mlm.
      split_segment: share of rows whose A and B are two parts of one sentence; None but for sop.
    """

    mean_num_tokens: float | None
    padding: float | None
    masked: float | None
    mask_token: float | None
    random_token: float | None
    kept_token: float | None
    not_next: float | None
    short: float | None
    unknown: float | None
    uncovered_tokens: float | None
    single_segment_not_next: float | None
    split_segment: float | None = None


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One file of rows. ``path`` is relative to the data set; ``sha256`` is of the whole file."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """The rows of one length and one split (``train`` or ``validation``); shards in order.

    ``chunks_without_partner`` counts chunks of one sentence that made no row: for nsp since their
    block holds no other document to draw B from, for sop since there is no order in them.
    ``long_sentences`` counts sentences of the split, once, that are longer than a row; with
    ``split_long_sentences`` they were split. None: not counted, in older data sets.
    """

    name: str
    max_seq_length: int
    max_predictions_per_seq: int
    split: str
    examples: int
    chunks_without_partner: int
    rates: Rates
    num_tokens_histogram: tuple[int, ...]
    shards: tuple[Shard, ...]
    long_sentences: int | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything about a finished data set.

    ``configuration`` is ``BuildConfig.to_json()`` as a dict, fully resolved; beside ``created_by``
    it is the only part that may differ between two runs with the same rows. ``objective``,
    ``masking`` and ``layout`` decide which columns there are, see ``schemas.arrow.example_schema``.
    """

    created_by: CreatedBy
    configuration: Mapping[str, Any]
    fingerprint: str
    random_seed: int
    tokenizer: TokenizerInfo
    counts: Counts
    data_sets: tuple[DataSet, ...]
    label_convention: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: dict(LABEL_CONVENTIONS["nsp"])
    )
    objective: str = "nsp"
    masking: str = "static"
    layout: str = "separate"
    schema_version: int = SCHEMA_VERSION

    def data_set(self, *, name: str, split: str) -> DataSet:
        """That of a name (``seq128``) and split; ``ConfigError`` when there is none."""
        for candidate in self.data_sets:
            if (candidate.name, candidate.split) == (name, split):
                return candidate
        there = ", ".join(f"{d.name}/{d.split}" for d in self.data_sets) or "none"
        raise ConfigError("data_set", f"{name}/{split}", f"not in this data set; it has {there}")

    def to_json(self) -> str:
        """Byte-stable text: keys sorted, two spaces, a newline last; ``ValueError`` for nan."""
        data = dataclasses.asdict(self)
        return json.dumps(data, indent=2, sort_keys=True, allow_nan=False) + "\n"


def load_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """Read ``DIRECTORY/manifest.json``.

    Raises:
      ManifestError: there is none, it is damaged, or a newer version wrote it. It is a
        ``ConfigError``, and its text one line that starts with the path.
      ConfigError: it is in a store that needs a package which is not installed, or has a name that
        pyarrow cannot be given.
    """
    root = os.fspath(directory)
    require_folder("directory", root)
    path = posixpath.join(root, MANIFEST_FILE)
    try:
        with open_file(path) as file:
            text = file.read()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise ManifestError(
            root,
            f"incomplete or not a data set: it has no {MANIFEST_FILE}, which a build writes last; "
            "finish the build or name the directory that --output named",
        ) from None
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise ManifestError(path, f"cannot be read: {reason}") from None
    return parse_manifest(text, path=path)


def parse_manifest(text: str | bytes, *, path: str = MANIFEST_FILE) -> Manifest:
    """The manifest in ``text``; ``path`` is named in the errors (see :func:`load_manifest`)."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:  # broken JSON, or bytes that are no text
        raise ManifestError(path, f"damaged, it is not JSON: {error}") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int or version < 1:
        raise ManifestError(path, "damaged, it has no schema_version")
    if version > SCHEMA_VERSION:
        raise ManifestError(
            path,
            f"has schema_version {version}, this program reads up to {SCHEMA_VERSION}; "
            "install the version that wrote it or a newer one",
        )
    try:
        manifest: Manifest = _parse(Manifest, data, "")
        _check_sums(manifest)
    except _DamagedError as error:
        raise ManifestError(path, f"damaged, {error}") from None
    return manifest


def verify_tokenizer(manifest: Manifest, digest: str) -> None:
    """Refuse, with ``ConfigError``, to use the data set with another tokenizer than made it."""
    if digest != manifest.tokenizer.digest:
        raise ConfigError(
            "vocab_file",
            digest,
            f"another tokenizer than the data set's ({manifest.tokenizer.digest}); "
            f"use the {manifest.tokenizer.file} in its directory",
        )


def open_shards(
    manifest: Manifest, directory: str | os.PathLike[str], *, name: str, split: str
) -> list[str]:
    """Paths of the shards of one data set, in order; those of a local directory are looked at.

    Raises:
      ConfigError: no such data set.
      ManifestError: a local shard is missing or has another size than the manifest says.
    """
    root = os.fspath(directory)
    paths = []
    for shard in manifest.data_set(name=name, split=split).shards:
        path = posixpath.join(root, shard.path)
        local = local_path(path)
        if local is not None:
            size = os.stat(local).st_size if os.path.exists(local) else None
            if size != shard.bytes:
                found = "it is missing" if size is None else f"it has {size:,} bytes"
                raise ManifestError(
                    path, f"the manifest says {shard.bytes:,} bytes, {found}; build or copy again"
                )
        paths.append(path)
    return paths


class _DamagedError(ValueError):
    """What is wrong inside a manifest; becomes a ``ManifestError`` with the path."""


def _parse(kind: Any, value: Any, where: str) -> Any:
    """``value`` as ``kind`` (an annotation of a field above); keys not known here are left out."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        later = {f.name for f in dataclasses.fields(kind) if f.name in _ADDED_LATER}
        if missing := [key for key in hints if key not in value and key not in later]:
            raise _DamagedError(f"{where + '.' if where else ''}{missing[0]} is missing")
        make: Any = kind
        return make(
            **{
                k: _parse(hint, value[k], f"{where}.{k}".lstrip("."))
                for k, hint in hints.items()
                if k in value
            }
        )
    if origin is tuple and isinstance(value, list):
        return tuple(_parse(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        return {key: _parse(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is types.UnionType:
        return None if value is None else _parse(arguments[0], value, where)
    if kind is Any or type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise _DamagedError(
        f"{where} is {json.dumps(value)[:60]}, not {getattr(kind, '__name__', kind)}"
    )


def _check_sums(manifest: Manifest) -> None:
    """The parts add up and stay inside the directory, else ``_DamagedError``."""
    for d in manifest.data_sets:
        label = f"{d.name}/{d.split}"
        if sum(shard.rows for shard in d.shards) != d.examples:
            raise _DamagedError(
                f"the rows of the shards of {label} are not its {d.examples} examples"
            )
        if (len(d.num_tokens_histogram), sum(d.num_tokens_histogram)) != (
            HISTOGRAM_BINS,
            d.examples,
        ):
            raise _DamagedError(
                f"num_tokens_histogram of {label} does not fit {d.examples} examples"
            )
        for shard in d.shards:
            if shard.path.startswith("/") or ".." in shard.path.split("/"):
                raise _DamagedError(f"the shard {shard.path!r} is outside the data set")
    if sum(d.examples for d in manifest.data_sets) != manifest.counts.examples:
        raise _DamagedError("counts.examples is not the sum of the data sets")
    if sum(manifest.counts.rejects_by_reason.values()) != manifest.counts.rejects:
        raise _DamagedError("counts.rejects is not the sum of rejects_by_reason")
