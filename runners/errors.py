"""Turns what a runner says of a failed step back into the error that was raised there.

Beam hands over the text of a worker's traceback, or in this process an error with the step's name
added. The last line names the class and the message: for the classes of ``schemas.errors`` they are
raised again here, and what the operating system refused becomes a ``BuildError``.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator

from schemas import errors

__all__ = ["is_of_a_step", "translated", "worker_error"]

_STEP = re.compile(r" \[while running '(?P<step>[^']*)'\]$")

_OURS = re.compile(
    r"(?:^|[\s:'\"])(?:[a-z_]+\.)*"
    r"(BuildError|MissingColumnError|RefusedRecordError|SingleDocumentError|TooManyRejectsError): "
    r"(?P<text>.+?)"
    r"(?: \[while running '[^']*'\])?$",
    re.MULTILINE,
)

#: What only a step finds out, such as a package that the language of a record needs: a flag, its value,
#: the remedy. Where the step's name is added to the flag, it is in the middle.
_OF_A_FLAG = re.compile(
    r"(?:^|[\s:'\"])(?:[a-z_]+\.)*ConfigError: --(?P<field>\w+)(?: \[while running '[^']*'\])?="
    r"(?P<value>'[^']*'|[^\s:']+): (?P<remedy>.+?)(?: \[while running '[^']*'\])?$",
    re.MULTILINE,
)

#: A full disk, a file that has gone: Beam puts the name of its own error before it, or of two.
_SYSTEMS = re.compile(
    r"(?:RuntimeError: )*[\w.]+: \[Errno \d+\] (?P<what>.+?) \[while running '(?P<step>[^']*)'\]"
)


#: The end of a worker's traceback, wherever in a text it is: the class, the message, the step.
_OF_A_STEP = re.compile(
    r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<text>(?:(?!^Traceback ).)*?))?"
    r" \[while running '(?P<step>[^']*)'\]$",
    re.MULTILINE | re.DOTALL,
)
#: What Python puts between an error and the one that was raised because of it.
_BECAUSE = "\n\nThe above exception was the direct cause of the following exception:\n"
#: How a worker answers whoever asks about a bundle that has failed by then: the reason comes before.
_AFTERWARDS = "RuntimeError: Bundle processing associated with "
_STATE = re.compile(r"^Pipeline \S+ failed in state \w+: ")
_TRACEBACK = "Traceback (most recent call last)"


def is_of_a_step(error: Exception) -> bool:
    """Whether a step's name is in it: it was raised there, in this process or a worker."""
    return "[while running '" in str(error)


def worker_error(text: str) -> str | None:
    """What a worker's step raised, in a line; or what the runner says itself, without Java's stack.

    Args:
      text: what the runner says of a job that failed.

    Returns:
      Class, message and step; None if there is nothing in it.
    """
    text = _without_consequences(text)
    last = text.rpartition(_TRACEBACK)[2]
    if found := list(_OF_A_STEP.finditer(last)):
        kind, message, step = found[-1].group("kind", "text", "step")
        said = ": ".join(filter(None, [kind, message]))
        return f"{' '.join(said.split())} (in {step})"
    lines = [_STATE.sub("", line.strip()) for line in last.splitlines()]
    said_last = [line for line in lines if line and not line.startswith(("at ", "File ", "..."))]
    if not said_last:
        return None
    return said_last[-1 if _TRACEBACK in text else 0]


def _without_consequences(text: str) -> str:
    """What failed, where a runner has asked for it before it was told."""
    before, asked, _ = text.partition(_AFTERWARDS)
    return before.rpartition(_BECAUSE)[0] if asked and _BECAUSE in before else text


@contextlib.contextmanager
def translated(*, go_on: str = "mend that and go on with --resume") -> Iterator[None]:
    """A context in which a runner's ``RuntimeError`` becomes our own error, if it was one.

    Raises:
      BuildError: or one of its kinds.
      ConfigError: it was one.
    """
    try:
        yield
    except errors.ConfigError as error:
        raise errors.ConfigError(_STEP.sub("", error.field), error.value, error.remedy) from error
    except RuntimeError as error:
        if isinstance(error, errors.BuildError):
            # In this process the error itself comes through, with the name of the step added.
            raise type(error)(_STEP.sub("", str(error))) from error
        text = _without_consequences(str(error).strip())
        if found := list(_OURS.finditer(text)):
            kind: type[errors.BuildError] = getattr(errors, found[-1][1])
            raise kind(found[-1]["text"]) from error
        if found := list(_OF_A_FLAG.finditer(text)):
            field, value, remedy = found[-1].groups()
            raise errors.ConfigError(field, ast.literal_eval(value), remedy) from error
        if text and (refused := _SYSTEMS.fullmatch(text.splitlines()[-1])):
            raise errors.BuildError(f"{refused['what']} (in {refused['step']}); {go_on}") from error
        raise
