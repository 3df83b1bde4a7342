"""Schemas of Avro files, made fit for reading what strangers wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any, BinaryIO

import fastavro
from fastavro import _read_py

__all__ = ["RecordReader", "is_recursive", "reader_for", "record_reader", "schema_for_reading"]

#: Of the signature of ``fastavro.schemaless_reader``.
Reader = Callable[..., Any]
#: Gives the next record of a block.
RecordReader = Callable[[BinaryIO], Any]

#: Bytes that are not UTF-8 become lone surrogates, which refuse their own record only.
_KEEP_BYTES = "surrogateescape"
#: The name of records that are a part of another; a name of nobody's type.
_PART = "part_of_a_record_of_bert_data"

#: Types of which a byte can be a value, and a value be many times as large in memory.
_MANY = ("array", "map")


def schema_for_reading(text: str) -> Any:
    """The parsed schema, without logical types.

    Of a date, a decimal or a UUID nothing is needed, and one that is out of bounds would cost its block.

    Raises:
      ValueError: it has arrays of items without a byte, of which a few bytes can claim any number.
      Exception: fastavro's, of what is no schema.
    """
    schema = fastavro.parse_schema(_without_logical_types(json.loads(text)))
    if any(kind["type"] == "array" and _is_empty(kind["items"]) for kind, _ in _types(schema)):
        raise ValueError("its schema has arrays of items that have no bytes")
    return schema


def reader_for(schema: Any) -> Reader:
    """What reads a record.

    The compiled reader goes down a value that is nested in itself until the stack ends, and the process
    with it; fastavro's own in Python, many times as slow, raises RecursionError.
    """
    return _read_py.schemaless_reader if is_recursive(schema) else fastavro.schemaless_reader


def is_recursive(schema: Any) -> bool:
    """Whether a value can be nested in one of its own type."""
    return any(inner in outer for kind, outer in _types(schema) for inner in _names(kind))


def record_reader(schema: Any, *, wanted: Collection[str]) -> RecordReader:
    """What reads a record without the fields with arrays and maps that nobody wants.

    These are gone over and never built: a block of a megabyte may hold an array of 250 million numbers.
    Of what the compiled reader cannot read, see :func:`reader_for`, all is built.

    Args:
      schema: of :func:`schema_for_reading`.
      wanted: names of fields.
    """
    if is_recursive(schema) or not isinstance(schema, dict) or "fields" not in schema:
        return _whole_reader(reader_for(schema), schema)
    runs: list[tuple[bool, list[Any]]] = []
    for field in schema["fields"]:
        skipped = field["name"] not in wanted and _holds_many(schema, field["type"])
        if not runs or runs[-1][0] is not skipped:
            runs.append((skipped, []))
        runs[-1][1].append(field)
    if not any(skipped for skipped, _ in runs):
        return _whole_reader(fastavro.schemaless_reader, schema)
    known = _definitions(schema)
    parts = [
        (_part(fields, known), _part([], known) if skipped else None) for skipped, fields in runs
    ]

    def read(content: BinaryIO) -> dict[str, Any]:
        record: dict[str, Any] = {}
        for written, asked in parts:
            record |= fastavro.schemaless_reader(
                content, written, asked, handle_unicode_errors=_KEEP_BYTES
            )
        return record

    return read


def _whole_reader(read: Reader, schema: Any) -> RecordReader:
    return lambda content: read(content, schema, None, handle_unicode_errors=_KEEP_BYTES)


def _definitions(schema: Any) -> dict[str, Any]:
    """Of every type with a name, by that."""
    return {kind["name"]: kind for kind, _ in _types(schema) if "name" in kind and "type" in kind}


def _holds_many(schema: Any, kind: Any) -> bool:
    """Whether there are arrays or maps in a type of a field, spelled out or named."""
    spelled = _spelled(kind, _definitions(schema), set())
    return any(inner["type"] in _MANY for inner, _ in _types(spelled))


def _part(fields: list[Any], known: dict[str, Any]) -> Any:
    """The schema of some fields of a record, with the types that they name."""
    spelled: set[str] = set()
    kinds = [{**field, "type": _spelled(field["type"], known, spelled)} for field in fields]
    return fastavro.parse_schema({"type": "record", "name": _PART, "fields": kinds})


def _spelled(kind: Any, known: dict[str, Any], spelled: set[str]) -> Any:
    """The type, with named ones spelled out where they come first. ``spelled``: those that have come."""
    if isinstance(kind, list):
        return [_spelled(each, known, spelled) for each in kind]
    if isinstance(kind, str):
        return (
            kind if kind in spelled or kind not in known else _spelled(known[kind], known, spelled)
        )
    name = kind.get("name")
    if name in spelled:
        return name
    if name is not None:
        spelled.add(name)
    # Marks of what was parsed would make it pass unparsed.
    found = {key: value for key, value in kind.items() if not key.startswith("__")}
    if "fields" in kind:
        found["fields"] = [
            {**field, "type": _spelled(field["type"], known, spelled)} for field in kind["fields"]
        ]
    for key in ("items", "values"):
        if key in kind:
            found[key] = _spelled(kind[key], known, spelled)
    return found


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(kind) for kind in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_logical_types(value)
        if key in ("type", "items", "values", "fields")
        else value
        for key, value in schema.items()
        if key != "logicalType"
    }


def _types(
    schema: Any, outer: tuple[str, ...] = ()
) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Every type that is spelled out, with the names of the records that it is in, itself included."""
    if isinstance(schema, list):
        for kind in schema:
            yield from _types(kind, outer)
    if not isinstance(schema, dict):
        return
    if "fields" in schema:
        outer = (*outer, schema["name"])
    yield schema, outer
    for kind in _inner(schema):
        yield from _types(kind, outer)


def _inner(kind: dict[str, Any]) -> list[Any]:
    """The types in a type."""
    inside = [field["type"] for field in kind.get("fields", ())]
    inside += [kind[key] for key in ("items", "values") if key in kind]
    return [*inside, kind["type"]] if isinstance(kind["type"], dict | list) else inside


def _names(kind: dict[str, Any]) -> Iterator[str]:
    """The types that are named in a type, not spelled out."""
    for inner in _inner(kind):
        for each in inner if isinstance(inner, list) else [inner]:
            if isinstance(each, str):
                yield each


def _is_empty(kind: Any) -> bool:
    """Whether every value of a type has no bytes; of a type that is only named that is not known."""
    if isinstance(kind, dict):
        fields = kind.get("fields")
        if fields is not None:
            return all(_is_empty(field["type"]) for field in fields)
        return kind.get("size") == 0 or _is_empty(kind["type"])
    return kind == "null"
