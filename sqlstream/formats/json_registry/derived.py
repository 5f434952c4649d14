"""The JSON Schema of a table's columns, with the words that Confluent's converters add: `connect.type`, `connect.index`."""

from __future__ import annotations

import json
from typing import Any

from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.types import Kind, SqlType

_NUMBERS = {
    Kind.TINYINT: "int8",
    Kind.SMALLINT: "int16",
    Kind.INTEGER: "int32",
    Kind.BIGINT: "int64",
    Kind.FLOAT: "float32",
    Kind.DOUBLE: "float64",
}
_WHOLE = (Kind.UTINYINT, Kind.USMALLINT, Kind.UINTEGER, Kind.UBIGINT, Kind.HUGEINT)


def derive(columns: Schema) -> str:
    """The schema as JSON text.

    >>> from sqlstream_operators.plan.schema import Column
    >>> from sqlstream_operators.plan.types import BOOLEAN
    >>> derive((Column("a", BOOLEAN, nullable=False),))
    '{"type":"object","title":"Record","properties":{"a":{"type":"boolean","connect.index":0}},"required":["a"]}'
    """
    schema = _object([(c.name, c.type, c.nullable) for c in columns])
    return json.dumps({"type": "object", "title": "Record", **schema}, separators=(",", ":"))


def _object(fields: list[tuple[str, SqlType, bool]]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for index, (name, type_, nullable) in enumerate(fields):
        schema = _type(type_)
        if nullable:
            schema = {"oneOf": [{"type": "null"}, schema]}
        properties[name] = {**schema, "connect.index": index}
    required = [name for name, _, nullable in fields if not nullable]
    return {"properties": properties, **({"required": required} if required else {})}


def _type(type_: SqlType) -> dict[str, Any]:
    match type_.kind:
        case Kind.BOOLEAN:
            return {"type": "boolean"}
        case kind if kind in _NUMBERS:
            whole = kind not in (Kind.FLOAT, Kind.DOUBLE)
            return {"type": "integer" if whole else "number", "connect.type": _NUMBERS[kind]}
        case kind if kind in _WHOLE:
            return {"type": "integer"}
        case Kind.DECIMAL:
            return {"type": "number"}
        case Kind.BLOB:
            return {"type": "string", "connect.type": "bytes"}
        case Kind.JSON:
            return {}
        case Kind.ARRAY:
            assert type_.element is not None
            return {"type": "array", "items": {"oneOf": [{"type": "null"}, _type(type_.element)]}}
        case Kind.MAP:
            assert type_.value is not None
            values = {"oneOf": [{"type": "null"}, _type(type_.value)]}
            return {"type": "object", "connect.type": "map", "additionalProperties": values}
        case Kind.STRUCT | Kind.TUPLE:
            return {"type": "object", **_object([(name, inner, True) for name, inner in type_.fields])}
        case _:
            return {"type": "string"}
