"""Data sets of the ``datasets`` library: saved folders, and those that it has in its cache, as files.

A folder that ``save_to_disk`` wrote says in small JSON files what it holds; its rows are in Arrow streams.
Nothing here opens one of these.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from schemas.errors import ConfigError
from transforms.formats.decoding import first_line
from transforms.streams import open_raw

__all__ = ["HUB_PREFIX", "hub_files", "is_saved", "saved_files"]

#: Of an input that is the name of a data set on the hub: hf:NAME, hf:NAME:CONFIG, hf:NAME:CONFIG:SPLIT.
HUB_PREFIX = "hf:"

_SPLITS, _STATE, _INFO = "dataset_dict.json", "state.json", "dataset_info.json"


def is_saved(names: Collection[str]) -> bool:
    """Whether a folder with files of these names was written by ``save_to_disk``."""
    return _SPLITS in names or (_STATE in names and _INFO in names)


def saved_files(
    folder: str, sizes: Mapping[str, int], *, split: str | None
) -> Iterator[tuple[str, int]]:
    """The Arrow streams of a saved data set: paths and sizes.

    Args:
      folder: a local path or a URL, where :func:`is_saved` is true.
      sizes: of the files in it and in the folders below, by path relative to it.
      split: which, of a ``DatasetDict``; None if there is one only.

    Raises:
      ConfigError: no such split, a file that is missing, or rows that are not those of the files.
    """
    inner = ""
    if _SPLITS in sizes:
        names = _list_of(_read(folder, _SPLITS), "splits")
        inner = _choose(folder, [str(name) for name in names], split) + "/"
    # By the listing, which knows of nothing outside of the folder: a split may be called "..".
    if inner + _STATE not in sizes:
        raise ConfigError("input", folder, f"is not complete: {inner}{_STATE} is missing")
    state = _read(folder, inner + _STATE)
    own = state.get("_split")
    if split is not None and not inner and own is not None and own != split:
        raise ConfigError("split", split, f"{folder} holds the split {own!r} only")
    if any(state.get(key) for key in ("_indices_files", "_indices_data_files")):
        raise ConfigError(
            "input",
            folder,
            "was saved with the choice and order of its rows beside them, which cannot be read; load "
            "it with a newer version of datasets and save it again",
        )
    for entry in _list_of(state, "_data_files"):
        name = inner + str(entry.get("filename") if isinstance(entry, dict) else entry)
        if name not in sizes:
            raise ConfigError("input", folder, f"is not complete: {name} is missing")
        yield posixpath.join(folder, name), sizes[name]


def _read(folder: str, name: str) -> dict[str, Any]:
    path = posixpath.join(folder, name)
    try:
        with open_raw(path) as file:
            value = json.loads(file.read())
    except (OSError, ValueError) as error:
        raise ConfigError("input", path, f"cannot be read: {error}") from error
    return value if isinstance(value, dict) else {}


def _list_of(value: dict[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []


def _choose(source: str, splits: list[str], split: str | None) -> str:
    """The split to read.

    Raises:
      ConfigError: there are others, or it is not among them.
    """
    listed = ", ".join(splits) or "none"
    if split is None and len(splits) == 1:
        return splits[0]
    if split is None:
        raise ConfigError("input", source, f"has the splits {listed}; choose one with --split")
    if split not in splits:
        raise ConfigError("split", split, f"is no split of {source}; there is {listed}")
    return split


def hub_files(name: str, *, split: str | None) -> Iterator[tuple[str, int]]:
    """The Arrow streams of a data set that ``datasets`` finds: in its cache, or fetched into it.

    Args:
      name: ``hf:NAME[:CONFIG][:SPLIT]``.
      split: as in :func:`saved_files`.

    Raises:
      ConfigError: the package is missing, there is no such data set, no network, no such split.
    """
    load = _loader(name)
    parts = name.removeprefix(HUB_PREFIX).split(":")
    if len(parts) > 3 or not parts[0]:
        raise ConfigError("input", name, "must be hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT")
    config, own = (part or None for part in (*parts[1:], "", "")[:2])
    if own and split and own != split:
        raise ConfigError("split", split, f"but {name} names another one; leave it out")
    try:
        with _quiet("datasets", "huggingface_hub"):  # every attempt is announced, of five
            found = load(parts[0], config)
    except Exception as error:  # of a dozen classes, of three libraries
        raise ConfigError("input", name, f"cannot be loaded: {first_line(error)}") from error
    data = found[_choose(name, list(found), own or split)]
    files = [file["filename"] for file in data.cache_files]
    if not files:
        raise ConfigError(
            "input", name, "is in no files; save it with save_to_disk, give the folder"
        )
    for path in files:
        yield path, os.path.getsize(path)


@contextlib.contextmanager
def _quiet(*loggers: str) -> Iterator[None]:
    before = [(logger, logger.level) for logger in map(logging.getLogger, loggers)]
    for logger, _ in before:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in before:
            logger.setLevel(level)


def _loader(name: str) -> Callable[..., Any]:
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(
            "input", name, 'needs the package datasets: pip install "bert-data[hub]"'
        ) from error
    datasets.disable_progress_bars()
    load: Callable[..., Any] = datasets.load_dataset
    return load
