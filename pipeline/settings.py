"""What a field of a configuration may be: kinds of values, and what is said about a field.

A kind checks a value, brings it into its one canonical form, and reads it from a flag's text. It
knows no field; ``pipeline.config`` says which field is of which kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from schemas.errors import ConfigError

__all__ = [
    "Affects",
    "Choice",
    "Kind",
    "Number",
    "Setting",
    "Several",
    "Switch",
    "Text",
    "checked",
    "setting",
    "whole",
]

#: ``rows``: part of the fingerprint. ``documents``: only where the text is and which of it is
#: taken, so part of the set of documents. ``run``: neither.
Affects = Literal["rows", "documents", "run"]


class Kind(Protocol):
    """The values a field may have."""

    @property
    def allowed(self) -> str:
        """Completes "must be ..."."""

    @property
    def metavar(self) -> str:
        """Stands for the value in the help."""

    def check(self, value: Any) -> Any:
        """The value in its one canonical form; ``RefusedError`` when it is not allowed."""

    def parse(self, text: str) -> Any:
        """A flag's text as a value; text that cannot be one is left for ``check`` to refuse."""


class RefusedError(ValueError):
    """A value that a kind does not allow; becomes a ``ConfigError`` with the field's name."""

    def __init__(self, value: object):
        super().__init__(value)
        self.value = value


@dataclass(frozen=True)
class Number:
    """Numbers of exactly one type: True is no number, and nan lies in no range."""

    low: float
    high: float
    allowed: str
    type: type[int] | type[float] = int
    metavar: str = "N"

    def check(self, value: Any) -> Any:
        """See ``Kind``."""
        if type(value) is int and self.type is float and self.low <= value <= self.high:
            value = float(value)
        if type(value) is not self.type or not self.low <= value <= self.high:
            raise RefusedError(value)
        return value + self.type(0)  # -0.0 becomes 0.0: one value, one fingerprint

    def parse(self, text: str) -> Any:
        """See ``Kind``."""
        try:
            return self.type(text)
        except ValueError:
            return text


def whole(low: int, high: int) -> Number:
    """Whole numbers of a closed range."""
    return Number(low, high, f"a whole number from {low} to {high}")


@dataclass(frozen=True)
class Text:
    """Text that a pattern matches; without one, any that is not empty."""

    allowed: str = "text, not empty"
    pattern: str = r".+"
    metavar: str = "TEXT"

    def check(self, value: Any) -> str:
        """See ``Kind``."""
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value, re.DOTALL):
            raise RefusedError(value)
        return value

    def parse(self, text: str) -> str:
        """See ``Kind``."""
        return text


class Choice(Text):
    """One of some words."""

    def __init__(self, *choices: str):
        many = "one of " if len(choices) > 1 else ""
        super().__init__(
            allowed=many + ", ".join(choices),
            pattern="|".join(map(re.escape, choices)),
            metavar="|".join(choices),
        )


@dataclass(frozen=True)
class Switch:
    """True or False."""

    allowed: str = "true or false"
    metavar: str = ""

    def check(self, value: Any) -> bool:
        """See ``Kind``."""
        if not isinstance(value, bool):
            raise RefusedError(value)
        return value

    def parse(self, text: str) -> Any:
        """``True`` and ``false``, as the reference's flags have it, and the like."""
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        return words.get(text.lower(), text)


@dataclass(frozen=True)
class Several:
    """A tuple of values, none twice where ``distinct``; on the command line with commas."""

    item: Kind
    allowed: str
    distinct: bool = False

    @property
    def metavar(self) -> str:
        """See ``Kind``."""
        return f"{self.item.metavar},..."

    def check(self, value: Any) -> tuple[Any, ...]:
        """See ``Kind``; the refused value is the item at fault."""
        if not isinstance(value, tuple | list):
            raise RefusedError(value)
        items = tuple(self.item.check(item) for item in value)
        if not items or (self.distinct and len(set(items)) < len(items)):
            raise RefusedError(value)
        return items

    def parse(self, text: str) -> tuple[Any, ...]:
        """See ``Kind``."""
        return tuple(self.item.parse(part.strip()) for part in text.split(","))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is said about a field, its metadata under ``"setting"``.

    ``default`` says in words what the default means, where the value alone does not.
    """

    group: str
    affects: Affects
    kind: Kind
    help: str
    default: str = ""


def setting(
    default: Any, kind: Kind, group: str, affects: Affects, help: str, /, *, words: str = ""
) -> Any:
    """A dataclass field with a :class:`Setting`; ``words`` become its ``default``."""
    about = Setting(group=group, affects=affects, kind=kind, help=help, default=words)
    return field(default=default, metadata={"setting": about})


def checked(name: str, kind: Kind, value: Any) -> Any:
    """``kind.check(value)``; the ``ConfigError`` of a refused value has the field's name."""
    try:
        return kind.check(value)
    except RefusedError as refused:
        raise ConfigError(name, refused.value, f"must be {kind.allowed}") from None
