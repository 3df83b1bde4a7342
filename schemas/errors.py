"""The three kinds of failure, and the closed list of reasons for which a record is refused.

* :class:`ConfigError`: wrong usage or configuration, raised before anything runs (exit 2).
* :class:`RecordError`: one bad record; caught only where records are parsed, never elsewhere.
* :class:`BuildError` and its kinds: the run as a whole cannot be finished.

Everything else is a bug or a broken machine and crashes.
"""

from __future__ import annotations

import enum

__all__ = [
    "BuildError",
    "ConfigError",
    "MissingColumnError",
    "RecordError",
    "RefusedRecordError",
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

    #: Bytes that are not of the file's encoding, UTF-8 or another.
    UNDECODABLE = "undecodable"
    #: A line that is not a JSON object.
    BROKEN_JSON = "broken_json"
    #: A page of an export that is no well-formed XML.
    BROKEN_XML = "broken_xml"
    #: A record of JSON or a table without the text field.
    MISSING_FIELD = "missing_field"
    #: One whose text (or language) is not a string.
    FIELD_NOT_A_STRING = "field_not_a_string"
    #: A record without any text but white space.
    EMPTY_DOCUMENT = "empty_document"
    #: A record of more than ``max_document_bytes``.
    TOO_LONG = "too_long"
    #: A file that ends too early or is corrupt, or a part of a table; what else there is is kept.
    DAMAGED_STREAM = "damaged_stream"
    #: A record of a web archive whose length, header or encoding of transfer is wrong.
    DAMAGED_RECORD = "damaged_record"
    #: A page nested so deeply, or with so many attributes, that reading it would take for ever.
    TOO_COMPLEX = "too_complex"


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


class RefusedRecordError(BuildError):
    """A record was refused, and the run is strict (exit 3); the text names the record."""


class MissingColumnError(BuildError):
    """A table without the column that a flag names (exit 2)."""


class SingleDocumentError(BuildError):
    """A corpus from which no pairs can be made (exit 2: it is a matter of configuration)."""
