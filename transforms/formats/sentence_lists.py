"""Documents that are lists of sentences: what ``bert-data documents`` writes (``schemas/document.avsc``).

Each sentence has the white space after it, so that joined they are the document's text, and its key is that
of the text they were cut from. A record is one of these if it has no text field but the sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.errors import RecordError, RejectReason
from transforms.formats.decoding import printable
from transforms.formats.records import Document

__all__ = ["LANGUAGE", "SENTENCES", "SOURCE", "cut_after", "document_of_sentences"]

#: The fields of the schema.
SOURCE, LANGUAGE, SENTENCES = "source", "language", "sentences"


def document_of_sentences(value: object, *, source: object, language: object) -> Document:
    """The document of a record's fields.

    Raises:
      RecordError: ``FIELD_NOT_A_STRING`` or ``EMPTY_DOCUMENT``.
    """
    if not isinstance(value, list):
        kind = "null" if value is None else type(value).__name__
        raise RecordError(
            RejectReason.FIELD_NOT_A_STRING, f"{SENTENCES!r} is {kind}, not an array of strings"
        )
    for n, sentence in enumerate(value):
        if not isinstance(sentence, str):
            kind = "null" if sentence is None else type(sentence).__name__
            raise RecordError(RejectReason.FIELD_NOT_A_STRING, f"{SENTENCES}[{n}] is {kind}")
    text = "".join(value)
    if not text or text.isspace():
        raise RecordError(RejectReason.EMPTY_DOCUMENT, f"{SENTENCES!r} holds no text")
    return Document(
        text,
        printable(source) if isinstance(source, str) else None,
        language if isinstance(language, str) else None,
        tuple(value),
    )


def cut_after(text: str, sentences: Sequence[str]) -> list[str]:
    """The text cut before every sentence but the first: each sentence with what follows it.

    Args:
      text: canonical.
      sentences: stripped, in order: together all of the text that is not white space.

    Raises:
      RuntimeError: they are not.
    """
    starts: list[int] = []
    end = 0
    for sentence in sentences:
        start = text.find(sentence, end)
        if start < 0 or not (start == end or text[end:start].isspace()):
            raise RuntimeError(f"sentence {len(starts)} is not at character {end} of its document")
        starts.append(start)
        end = start + len(sentence)
    if end != len(text):
        raise RuntimeError(f"the sentences end at character {end} of {len(text)}")
    return [text[a:b] for a, b in zip(starts, [*starts[1:], end], strict=True)]
