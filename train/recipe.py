"""Settings from a JSON file: one of the published recipes that come with the trainer, or your own."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from train.config import TrainConfig

__all__ = ["RECIPES", "convert", "load_recipe", "suggest"]

_FOLDER = Path(__file__).parent / "recipes"

#: Those that come with the trainer, by name.
RECIPES = {path.stem: path for path in sorted(_FOLDER.glob("*.json"))}

#: A key for people.
_ABOUT = "about"

#: What only the command line says.
_OF_A_RUN = frozenset({"data", "output", "resume"})


def load_recipe(config: str) -> dict[str, Any]:
    """The settings in a file, or in the recipe of that name, as :class:`TrainConfig` takes them.

    Raises:
      ConfigError: no such file or name, no JSON object, a setting that there is not, a wrong type.
    """
    path = RECIPES.get(config, Path(config))
    try:
        values = json.loads(path.read_text(encoding="utf8"))
    except OSError:
        raise ConfigError(
            "config", config, f"no such file; it may also be one of {', '.join(RECIPES)}"
        ) from None
    except ValueError as error:
        raise ConfigError("config", config, f"is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError("config", config, "must be a JSON object of settings")
    fields = {f.name: f for f in dataclasses.fields(TrainConfig) if f.name not in _OF_A_RUN}
    settings = {}
    for name, value in values.items():
        if name == _ABOUT:
            continue
        if name not in fields:
            raise ConfigError(
                "config", config, f"there is no setting {name!r}{suggest(name, [*fields])}"
            )
        try:
            settings[name] = _read(value, str(fields[name].type))
        except (TypeError, ValueError):
            raise ConfigError("config", config, f"{name}={value!r} is of the wrong type") from None
    return settings


def convert(text: str, annotation: str) -> Any:
    """The value of a flag, by the annotation of its field; ``ValueError`` if it is none."""
    if annotation.startswith("tuple"):
        return tuple(int(part) for part in text.split(","))
    return {"str": str, "float": float, "int": int}[annotation.partition(" ")[0]](text)


def suggest(name: str, known: Sequence[str]) -> str:
    """What may have been meant, to be put after a message; empty if nothing is like it."""
    close = difflib.get_close_matches(name, known, 1, 0.7)
    return f"; did you mean {close[0]}?" if close else ""


def _read(value: Any, annotation: str) -> Any:
    if annotation == "bool":
        if not isinstance(value, bool):
            raise TypeError
        return value
    if isinstance(value, bool) or (annotation.startswith("str") != isinstance(value, str)):
        raise TypeError
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return convert(str(value), annotation)
