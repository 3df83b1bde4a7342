"""Record batches of any table to documents: finds the columns, reads strings however they are stored.

A column of another type, and a null, refuse their rows as a JSON line of that kind is refused; a table
without the column at all is not what the flags say, and ends the run.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from schemas.errors import MissingColumnError, RecordError, RejectReason
from transforms.formats.decoding import (
    beginning_of,
    decode,
    printable,
    require_length,
    too_long,
)
from transforms.formats.records import Document
from transforms.formats.sentence_lists import (
    LANGUAGE,
    SENTENCES,
    SOURCE,
    document_of_sentences,
)

__all__ = ["Columns", "Found", "rows_for"]

#: Bytes of text that are looked at at once, about, and the most rows.
_BATCH_BYTES, _BATCH_ROWS = 4 << 20, 1024

_TOO_LONG_HINT = "the limit is for one row"

#: A document or why it is refused, and what to show of it.
Found = tuple[Document | RecordError, bytes]

_Path = tuple[str, ...]


def rows_for(num_bytes: int, *, num_rows: int) -> int:
    """How many rows to take at a time, if so many have so many bytes."""
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * num_rows // max(1, num_bytes)))


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns of a table to read; paths of names, from the outermost struct on.

    ``text`` is None where the table has lists of sentences instead.
    """

    text: _Path | None
    id: _Path | None
    language: _Path | None
    shown: str

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        *,
        path: str,
        text_field: str,
        id_field: str | None,
        language_field: str | None,
    ) -> Columns:
        """Finds the columns; names with dots lead into structs, unless a column is called so.

        Raises:
          MissingColumnError: there is neither text nor sentences.
        """
        text = _find(schema, text_field)
        if text is None and SENTENCES in schema.names:
            return cls(None, _find(schema, SOURCE), _find(schema, LANGUAGE), SENTENCES)
        if text is None:
            names = ", ".join(repr(name[:40]) for name in schema.names[:10])
            near = difflib.get_close_matches(text_field, _all_names(schema), 1)
            meant = f"did you mean {near[0][:80]!r}? Say" if near else "say"
            raise MissingColumnError(
                f"{path} has no column {text_field!r}; there is {names or 'none at all'}; {meant} which "
                "holds the text, with --text_field"
            )
        name = _find(schema, id_field) if id_field else None
        language = _find(schema, language_field) if language_field else None
        return cls(text, name, language, text_field)

    @property
    def names(self) -> list[str]:
        """What to read, dots between the names."""
        wanted = [self.text or (SENTENCES,), self.id, self.language]
        return list(dict.fromkeys(".".join(path) for path in wanted if path))

    def documents(self, batch: pa.RecordBatch, *, max_bytes: int) -> Iterator[Found]:
        """Every row of a batch that has at least the columns."""
        count = batch.num_rows
        ids = _values(batch, self.id) if self.id else [None] * count
        languages = _values(batch, self.language) if self.language else [None] * count
        if self.text is None:
            yield from _lists(batch, ids, languages, max_bytes)
            return
        texts = _utf8(batch, self.text)
        for text, name, language in zip(texts, ids, languages, strict=True):
            if isinstance(text, RejectReason):
                error = self._refusal(text, batch)
                yield error, b""
                continue
            try:
                yield self._document(text, name, language, max_bytes), text
            except RecordError as error:
                yield error, text

    def _document(self, text: bytes, name: object, language: object, max_bytes: int) -> Document:
        if len(text) > max_bytes:
            raise too_long(max_bytes, _TOO_LONG_HINT)
        decoded = decode(text, offset=0)
        if not decoded or decoded.isspace():
            raise RecordError(RejectReason.EMPTY_DOCUMENT, f"{self.shown!r} is blank")
        if not isinstance(language, str | None):
            where = ".".join(self.language or ())
            kind = language if isinstance(language, pa.DataType) else type(language).__name__
            raise RecordError(RejectReason.FIELD_NOT_A_STRING, f"{where!r} is {kind}")
        given = isinstance(name, str | int) and not isinstance(name, bool)
        return Document(decoded, printable(str(name)) if given else None, language)

    def _refusal(self, reason: RejectReason, batch: pa.RecordBatch) -> RecordError:
        assert self.text is not None
        if reason is RejectReason.MISSING_FIELD:
            outer = ".".join(self.text[:-1])
            return RecordError(reason, f"no field {self.shown!r}; {outer!r} is null")
        kind = _column(batch, self.text).type
        return RecordError(reason, f"{self.shown!r} is {'null' if _is_text(kind) else kind}")


def _all_names(schema: pa.Schema) -> list[str]:
    """Of columns, and of fields in structs with dots; the first few, of a table that has very many."""

    def below(name: str, kind: pa.DataType) -> Iterator[str]:
        yield name
        if pa.types.is_struct(kind):
            for field in kind:
                yield from below(f"{name}.{field.name}", field.type)

    found = (below(field.name, field.type) for field in schema)
    return list(itertools.islice(itertools.chain.from_iterable(found), 1000))


def _find(schema: pa.Schema, field: str) -> _Path | None:
    if field in schema.names:
        return (field,)
    path = tuple(field.split("."))
    if len(path) == 1 or path[0] not in schema.names:
        return None
    kind = schema.types[schema.names.index(path[0])]
    for name in path[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return path


def _column(batch: pa.RecordBatch, path: _Path) -> pa.Array:
    """The column; null where a struct around it is."""
    column = batch.column(batch.schema.names.index(path[0]))
    return pc.struct_field(column, list(path[1:])) if path[1:] else column


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _values(batch: pa.RecordBatch, path: _Path) -> Sequence[object]:
    """Names and languages: few bytes. Text that is not UTF-8 becomes lone surrogates, refused later.

    Of what is neither text nor a whole number there is the type only: not every date of Arrow's is one of
    Python's.
    """
    column = _column(batch, path)
    if not _is_text(column.type):
        column.validate(full=True)
        if pa.types.is_integer(column.type):
            return column.to_pylist()
        return [None if gone else column.type for gone in column.is_null().to_pylist()]
    values = _decoded(column).to_pylist()
    return [value if value is None else value.decode(errors="surrogateescape") for value in values]


def _decoded(column: pa.Array, rows: pa.Array | None = None) -> pa.Array:
    """Strings of any kind as large_binary, all or some: whether they are UTF-8 is looked at one by one."""
    column.validate()  # buffers that are too short are damage
    if pa.types.is_dictionary(column.type):
        _check_indices(column)
        return _decoded(column.dictionary, column.indices)  # the entries may be damaged, too
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.binary_view())
    else:
        column = column.cast(pa.large_binary())
    column.validate(full=True)  # offsets that point anywhere are damage
    if rows is not None:
        column = column.take(rows)
    return column.cast(pa.large_binary())


def _check_indices(column: pa.DictionaryArray) -> None:
    """Refuses indices of no entry, as Arrow's own checks do, which would look at the entries as well."""
    column.indices.validate()
    ends = pc.min_max(column.indices).as_py()
    if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < len(column.dictionary):
        raise ValueError("an index of no entry of its dictionary")


def _utf8(batch: pa.RecordBatch, path: _Path) -> Iterator[bytes | RejectReason]:
    """The texts; in place of one that is none, why it is refused."""
    column = _column(batch, path)
    if not _is_text(column.type):
        texts: Sequence[bytes | None] = [None] * len(column)
    elif pa.types.is_dictionary(column.type):  # each text once in memory, however often it is there
        _check_indices(column)
        used = column.indices.unique()  # of a dictionary for many more rows than these
        entries = _decoded(column.dictionary, used).to_pylist()
        text_of = dict(zip(used.to_pylist(), entries, strict=True))
        texts = [text_of[i] for i in column.indices.to_pylist()]
    else:
        texts = _decoded(column).to_pylist()
    missing = [False] * len(texts)
    if path[1:]:
        missing = _column(batch, path[:-1]).is_null().to_pylist()
    for text, gone in zip(texts, missing, strict=True):
        if text is not None:
            yield text
        else:
            yield RejectReason.MISSING_FIELD if gone else RejectReason.FIELD_NOT_A_STRING


def _lists(
    batch: pa.RecordBatch, sources: Sequence[object], languages: Sequence[object], max_bytes: int
) -> Iterator[Found]:
    """Documents that are lists of sentences."""
    column = batch.column(batch.schema.names.index(SENTENCES))
    inner = getattr(column.type, "value_type", None) if pa.types.is_nested(column.type) else None
    if inner is None or not _is_text(inner):
        detail = f"{SENTENCES!r} is {column.type}, not an array of strings"
        for _ in column:
            yield RecordError(RejectReason.FIELD_NOT_A_STRING, detail), b""
        return
    for value, source, language in zip(_undecoded(column), sources, languages, strict=True):
        sentences: object = None
        try:
            sentences = value if value is None else _sentences(value)
            document = document_of_sentences(sentences, source=source, language=language)
            require_length(document.text, max_bytes=max_bytes, hint=_TOO_LONG_HINT)
            yield document, beginning_of(document.text)
        except RecordError as error:
            shown = b" ".join(each or b"" for each in value) if value else b""
            yield error, beginning_of(str(shown, "utf-8", "replace"))


def _undecoded(column: pa.Array) -> Iterator[list[bytes | None] | None]:
    """The strings of each list; those that are not UTF-8 are for who wants them."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column.validate()
        make = pa.ListArray if pa.types.is_list(column.type) else pa.LargeListArray
        lists = make.from_arrays(column.offsets, _decoded(column.values))
        lists.validate(full=True)  # offsets that point anywhere are damage
        for value, gone in zip(lists, column.is_null().to_pylist(), strict=True):
            yield None if gone else value.as_py()
        return
    column.validate(full=True)  # of the rare kinds of list all strings have to be right
    for value in column:
        found = value.as_py()
        yield (
            found if found is None else [each if each is None else each.encode() for each in found]
        )


def _sentences(value: Sequence[bytes | None]) -> list[str | None]:
    """Raises RecordError: one is not UTF-8."""
    return [each if each is None else decode(each, offset=0) for each in value]
