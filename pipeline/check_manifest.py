"""What a manifest's configuration and tokenizer are held to before a row is looked at."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import posixpath
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from pipeline.check_data_sets import MANIFEST, check_data_sets, differs
from pipeline.config import LATER_OTHERS, LATER_SETTINGS, SETTINGS_BEFORE, BuildConfig
from pipeline.manifest import version_of_segmenter
from schemas.errors import ConfigError
from schemas.manifest import LABEL_CONVENTIONS, Manifest
from schemas.stores import open_file
from transforms.audit_rules import Violation
from transforms.audit_shard import not_a_file
from transforms.languages import version_of_detector
from transforms.splitters import version_of_splitter
from transforms.vocabulary import Vocabulary, load_tokenizer

__all__ = ["as_configured", "check_manifest", "check_tokenizer", "other_versions"]


def check_manifest(manifest: Manifest) -> Iterator[Violation]:
    """What the manifest says in two places is the same."""
    config = manifest.configuration
    if dict(manifest.label_convention) != dict(LABEL_CONVENTIONS.get(manifest.objective, {})):
        yield Violation(
            "label_convention",
            f"label_convention is {dict(manifest.label_convention)}, which is not that of "
            f"{manifest.objective}",
            MANIFEST,
        )
    for name in ("objective", "masking", "layout", "random_seed"):
        if name in config and config[name] != getattr(manifest, name):
            yield differs(name, getattr(manifest, name), config[name])
    try:
        own, unknown = _configuration(manifest)
    except ConfigError as error:
        yield Violation("configuration", f"the configuration is not a valid one: {error}", MANIFEST)
        return
    for name in BuildConfig.__dataclass_fields__:
        if name not in config and name not in LATER_SETTINGS | LATER_OTHERS:
            yield Violation("configuration", f"{name} is missing", MANIFEST)
    for name in unknown:
        words = f"{name} is no setting that this version knows: what it does to rows is not checked"
        yield Violation("configuration", words, MANIFEST)
    if own.num_shards is None:
        yield Violation("configuration", "num_shards is not worked out", MANIFEST)
    else:
        digest = manifest.tokenizer.digest
        if manifest.fingerprint != own.fingerprint(
            tokenizer_digest=digest, num_shards=own.num_shards
        ):
            yield Violation(
                "fingerprint",
                "the fingerprint is not that of configuration and tokenizer",
                MANIFEST,
            )
    yield from check_data_sets(manifest, own)
    yield from _check_counts(manifest)


def _check_counts(manifest: Manifest) -> Iterator[Violation]:
    """What can be told of the counts without the corpus."""
    counts = manifest.counts
    negative = [
        field.name
        for field in dataclasses.fields(counts)
        if isinstance(value := getattr(counts, field.name), int) and value < 0
    ]
    for name in negative:
        yield Violation("counts", f"counts.{name} is less than 0", MANIFEST)
    for part, whole in (
        ("duplicate_documents", "documents"),
        ("documents_without_tokens", "documents"),
        ("one_sentence_documents", "documents"),
        ("one_sentence_documents", "sentences"),
        ("unknown_tokens", "tokens"),
        ("documents_with_control_characters", "documents"),
        ("documents_with_replacement_characters", "documents"),
    ):
        if (getattr(counts, part) or 0) > getattr(counts, whole):
            yield Violation("counts", f"counts.{part} is more than counts.{whole}", MANIFEST)


def _configuration(manifest: Manifest) -> tuple[BuildConfig, dict[str, Any]]:
    """The configuration, and what is in it that this version does not know.

    Raises:
      ConfigError: it is not a valid one.
    """
    known: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    for name, value in manifest.configuration.items():
        (known if name in BuildConfig.__dataclass_fields__ else unknown)[name] = value
    return BuildConfig.from_values(SETTINGS_BEFORE | known), unknown


def as_configured(manifest: Manifest) -> tuple[Manifest, BuildConfig] | None:
    """The manifest with all settings in its configuration, and of the kind that this says.

    None if the configuration is not a valid one.
    """
    try:
        own, _ = _configuration(manifest)
    except ConfigError:
        return None
    resolved = dataclasses.replace(
        manifest,
        configuration=json.loads(own.to_json()),
        objective=own.objective,
        masking=own.masking,
        layout=own.layout,
    )
    return resolved, own


def check_tokenizer(root: str, manifest: Manifest) -> tuple[Vocabulary | None, list[Violation]]:
    """The data set's own tokenizer; None where it is not the one of the manifest."""
    about = manifest.tokenizer
    path = posixpath.join(root, about.file)
    if words := _why_not_used(path, about.file):
        return None, [Violation("tokenizer", words, about.file)]
    try:
        with open_file(path) as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        vocabulary = load_tokenizer(path, do_lower_case=None)
    except (OSError, ConfigError) as error:
        return None, [Violation("tokenizer", f"cannot be used: {error}", about.file)]
    if about.digest not in (digest, vocabulary.digest):
        words = f"has the digest {digest[:12]}..., the manifest says {about.digest[:12]}..."
        return None, [Violation("tokenizer", words, about.file)]
    found = [
        Violation("tokenizer", f"{name} is {getattr(vocabulary, name)} in it", about.file)
        for name in ("vocab_size", "do_lower_case", *_IDS)
        if getattr(vocabulary, name) != getattr(about, name)
    ]
    found += _check_vocabulary(root, vocabulary)
    return (None if found else vocabulary), found


def _why_not_used(path: str, name: str) -> str | None:
    if name.startswith("/") or ".." in name.split("/"):
        return "is outside the data set"
    return not_a_file(path)


def _check_vocabulary(root: str, vocabulary: Vocabulary) -> Iterator[Violation]:
    """``vocab.txt`` has the tokens of the tokenizer."""
    path = posixpath.join(root, "vocab.txt")
    if words := not_a_file(path):
        yield Violation("tokenizer", words, "vocab.txt")
        return
    try:
        with open_file(path) as file:
            same = file.read() == "".join(f"{token}\n" for token in vocabulary.tokens).encode()
    except OSError:
        same = False
    if not same:
        yield Violation("tokenizer", "does not have the tokens of the tokenizer", "vocab.txt")


_IDS = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")


def other_versions(manifest: Manifest) -> Iterator[str]:
    """A line for each library that reads the text and is installed in another version than then."""
    config, then = manifest.configuration, manifest.created_by
    used = [("tokenizers", then.tokenizers, metadata.version("tokenizers"))]
    if config["sentence_splitter"] in ("sentencex", "best"):
        used.append(("sentencex", then.sentencex, metadata.version("sentencex")))
    if now := version_of_segmenter(config["word_segmenter"]):
        used.append(("the word segmenter", then.word_segmenter or "unknown", now))
    if now := version_of_splitter(config["sentence_splitter"]):
        used.append(("the sentence splitter", then.sentence_splitter or "unknown", now))
    if now := version_of_detector(config["language"]):
        used.append(("the language detector", then.language_detector or "unknown", now))
    for each in filter(None, (then.text_readers or "").split(", ")):
        name, _, before = each.partition(" ")
        used.append((name, before, _installed(name)))
    for name, before, now in used:
        if before != now:
            yield f"the data set was made with {name} {before}, installed is {now}"


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
