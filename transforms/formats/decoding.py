"""Bytes to text, strictly, with errors a person can act on."""

from __future__ import annotations

from schemas.errors import RecordError, RejectReason

__all__ = [
    "beginning_of",
    "decode",
    "encode",
    "excerpt",
    "first_line",
    "printable",
    "require_length",
    "too_long",
]

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
            f"({error.reason}); say what it is in with --encoding NAME or auto",
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


def beginning_of(text: str) -> bytes:
    """What an excerpt needs of a text that is no bytes."""
    return text[:_EXCERPT_CHARACTERS].encode(errors="replace")


def first_line(error: BaseException) -> str:
    """The first line of what a library says, or the name of its error."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def require_length(text: str, *, max_bytes: int, hint: str) -> None:
    """Refuse a text of more than ``max_bytes`` as UTF-8, without encoding most of those that are not.

    Raises:
      RecordError: ``TOO_LONG``.
    """
    if 4 * len(text) <= max_bytes:
        return
    if len(text) > max_bytes or len(text.encode(errors="surrogatepass")) > max_bytes:
        raise too_long(max_bytes, hint)


def printable(text: str) -> str:
    r"""The text with lone surrogates spelled out (``\udc80``), so that it can be encoded."""
    return text.encode(errors="backslashreplace").decode()


def too_long(max_bytes: int, hint: str) -> RecordError:
    """The refusal of a record of more than ``max_bytes``; ``hint``: what may be amiss."""
    return RecordError(
        RejectReason.TOO_LONG, f"more than {max_bytes:,} bytes (--max_document_bytes); {hint}"
    )
