"""Bytes to text, strictly, with errors a person can act on."""

from __future__ import annotations

from schemas.errors import RecordError, RejectReason

__all__ = ["decode", "encode", "excerpt", "printable"]

_EXCERPT_CHARACTERS = 200


def decode(data: bytes | memoryview, *, offset: int) -> str:
    """The UTF-8 text of a record that begins at ``offset`` of its file.

    Raises:
      RecordError: ``UNDECODABLE``, with where.
    """
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(
            RejectReason.UNDECODABLE,
            f"not UTF-8: 0x{data[error.start]:02x} at byte {offset + error.start:,} of the content "
            f"({error.reason}); convert the file, with iconv for example",
        ) from error


def encode(text: str) -> bytes:
    """The text as UTF-8.

    Raises:
      RecordError: ``UNDECODABLE``; JSON can spell half a character, a lone surrogate.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise RecordError(
            RejectReason.UNDECODABLE, f"lone surrogate U+{code:04X} at character {error.start:,}"
        ) from error


def excerpt(data: bytes | memoryview) -> str:
    """The beginning of a record: at most 200 characters, U+FFFD for what is not UTF-8."""
    return str(data[: 4 * _EXCERPT_CHARACTERS], "utf-8", "replace")[:_EXCERPT_CHARACTERS]


def printable(text: str) -> str:
    r"""The text with lone surrogates spelled out (``\udc80``), so that it can be encoded."""
    return text.encode(errors="backslashreplace").decode()
