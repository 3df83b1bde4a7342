"""What a run that cannot write says: a line with the file, the reason and the remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from schemas.errors import BuildError

__all__ = ["saving"]


@contextlib.contextmanager
def saving(path: Path) -> Iterator[None]:
    """Around whatever writes ``path``; ``BuildError`` if that cannot be done, a full disk above all."""
    try:
        yield
    except Exception as error:
        if not (reason := _reason(error)):
            raise
        raise BuildError(
            f"{path} cannot be written: {reason}; make room there, then start again with --resume, "
            "which goes on from the last checkpoint"
        ) from error


def _reason(error: BaseException | None) -> str | None:
    """What the system said; None where the error is of something else.

    torch and safetensors put errors of their own in front of it, the latter without the original.
    """
    while error is not None:
        if isinstance(error, OSError):
            return error.strerror or str(error)
        if isinstance(error, SafetensorError):
            return str(error)
        error = error.__cause__ or error.__context__
    return None
