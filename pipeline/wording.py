"""Words that several commands say."""

from __future__ import annotations

__all__ = ["plural"]


def plural(number: int, noun: str) -> str:
    """A number and a noun."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
