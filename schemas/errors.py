"""The three kinds of failure, and the closed list of reasons for which a record is refused.

* :class:`ConfigError`: wrong usage or configuration, raised before anything runs (exit 2).
* :class:`RecordError`: one bad record; caught only where records are parsed, never elsewhere.
* :class:`BuildError` and :class:`TooManyRejectsError`: the run as a whole cannot be finished.

Everything else is a bug or a broken machine and crashes.
"""

from __future__ import annotations

import enum

__all__ = [
    "BuildError",
    "ConfigError",
    "RecordError",
    "RejectReason",
    "SingleDocumentError",
    "TooManyRejectsError",
]


class ConfigError(ValueError):
    """A wrong flag or configuration field. The text is one line: field, value, remedy.

    Attributes:
      field: the flag's name without dashes, e.g. ``"max_seq_length"``.
      value: the value that was refused.
      remedy: what is allowed, or what to do instead.
    """

    def __init__(self, field: str, value: object, remedy: str):
        super().__init__(field, value, remedy)
        self.field = field
        self.value = value
        self.remedy = remedy

    def __str__(self) -> str:
        return f"--{self.field}={self.value!r}: {self.remedy}"


class RejectReason(enum.StrEnum):
    """Why a record was refused. Closed: a new reason is a change of the manifest's schema."""

    #: Bytes that are not UTF-8.
    UNDECODABLE = "undecodable"
    #: A line that is not a JSON object.
    BROKEN_JSON = "broken_json"
    #: A JSON record without the text field.
    MISSING_FIELD = "missing_field"
    #: A JSON record whose text (or language) is not a string.
    FIELD_NOT_A_STRING = "field_not_a_string"
    #: A record without any text but white space.
    EMPTY_DOCUMENT = "empty_document"
    #: A record of more than ``max_document_bytes``.
    TOO_LONG = "too_long"
    #: A compressed file that ends too early or is corrupt; what came before is kept.
    DAMAGED_STREAM = "damaged_stream"


class RecordError(ValueError):
    """One bad record. Caught where records are parsed; it costs that record and nothing else."""

    def __init__(self, reason: RejectReason, detail: str):
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class BuildError(RuntimeError):
    """The run cannot be finished; the text is one line with the remedy (exit 1)."""


class TooManyRejectsError(BuildError):
    """More than ``max_reject_fraction`` of the records were refused (exit 3)."""


class SingleDocumentError(BuildError):
    """A corpus from which no pairs can be made (exit 2: it is a matter of configuration)."""
