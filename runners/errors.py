"""Turns what a runner says of a failed step back into the error that was raised there.

Beam hands over the text of a worker's traceback, or in this process an error with the step's name
added. The last line names the class and the message: for the classes of ``schemas.errors`` they are
raised again here, and what the operating system refused becomes a ``BuildError``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from schemas import errors

__all__ = ["translated"]

_STEP = re.compile(r" \[while running '(?P<step>[^']*)'\]$")

_OURS = re.compile(
    r"(?:^|[\s:'\"])(?:[a-z_]+\.)*(BuildError|TooManyRejectsError|SingleDocumentError): (?P<text>.+?)"
    r"(?: \[while running '[^']*'\])?$",
    re.MULTILINE,
)

#: A full disk, a file that has gone: Beam puts the name of its own error before it, or of two.
_SYSTEMS = re.compile(
    r"(?:RuntimeError: )*[\w.]+: \[Errno \d+\] (?P<what>.+?) \[while running '(?P<step>[^']*)'\]"
)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """A context in which a runner's ``RuntimeError`` becomes our own error, if it was one.

    Raises:
      BuildError: or one of its kinds.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, errors.BuildError):
            # In this process the error itself comes through, with the name of the step added.
            raise type(error)(_STEP.sub("", str(error))) from error
        text = str(error).strip()
        if found := list(_OURS.finditer(text)):
            kind: type[errors.BuildError] = getattr(errors, found[-1][1])
            raise kind(found[-1]["text"]) from error
        if text and (refused := _SYSTEMS.fullmatch(text.splitlines()[-1])):
            raise errors.BuildError(
                f"{refused['what']} (in {refused['step']}); mend that and go on with --resume"
            ) from error
        raise
