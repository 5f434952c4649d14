"""SQL types in PostgreSQL."""

from __future__ import annotations

import re

from sqlstream.formats.json.writing import json_value
from sqlstream_operators.plan.types import Kind, SqlType

#: What PostgreSQL has other types of, or none, is written as text.
AS_TEXT = (Kind.ENUM, Kind.BIT, Kind.TIMETZ)
_TYPES: dict[Kind, str] = {
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "smallint",
    Kind.SMALLINT: "smallint",
    Kind.INTEGER: "integer",
    Kind.BIGINT: "bigint",
    Kind.HUGEINT: "numeric(39,0)",
    Kind.UTINYINT: "smallint",
    Kind.USMALLINT: "integer",
    Kind.UINTEGER: "bigint",
    Kind.UBIGINT: "numeric(20,0)",
    Kind.FLOAT: "real",
    Kind.DOUBLE: "double precision",
    Kind.VARCHAR: "text",
    Kind.BLOB: "bytea",
    Kind.DATE: "date",
    Kind.TIME: "time without time zone",
    Kind.TIMESTAMP: "timestamp without time zone",
    Kind.TIMESTAMPTZ: "timestamp with time zone",
    Kind.INTERVAL: "interval",
    Kind.UUID: "uuid",
    Kind.JSON: "jsonb",
    Kind.MAP: "jsonb",
    Kind.STRUCT: "jsonb",
    Kind.TUPLE: "jsonb",
    Kind.NULL: "text",
    **dict.fromkeys(AS_TEXT, "text"),
}
_WIDER: dict[str, tuple[str, ...]] = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "text": ("character varying",),
}
#: Digits that an integer of the type has at most.
_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


def postgres_type(type_: SqlType) -> str:
    """The type of a column, as `format_type` writes it. Raises ValueError for UNKNOWN.

    >>> from sqlstream_operators.plan.types import parse_type
    >>> [postgres_type(parse_type(t)) for t in ("DECIMAL(10,2)", "VARCHAR[]", "INTEGER[][]")]
    ['numeric(10,2)', 'text[]', 'jsonb']
    """
    if type_.kind is Kind.DECIMAL:
        return f"numeric({max(type_.precision or 0, 1)},{type_.scale})"
    if type_.element is not None:
        element = postgres_type(type_.element)
        return "jsonb" if element == "jsonb" or element.endswith("[]") else f"{element}[]"
    if type_.kind not in _TYPES:
        raise ValueError(f"no PostgreSQL type for {type_}")
    return _TYPES[type_.kind]


def holds(found: str, type_: SqlType) -> bool:
    """Whether a column of the PostgreSQL type `found` can hold every value of `type_` as it is.

    >>> from sqlstream_operators.plan.types import parse_type
    >>> holds("bigint", parse_type("INTEGER")), holds("numeric(8,2)", parse_type("DECIMAL(10,2)"))
    (True, False)
    """
    wanted = postgres_type(type_)
    if found == wanted or found in _WIDER.get(wanted, ()):
        return True
    has, needs = _NUMERIC.fullmatch(found), _NUMERIC.fullmatch(wanted)
    if needs is None:
        return False
    if has is None:
        return found == "numeric"
    digits, scale = int(has.group(1)), int(has.group(2))
    return scale >= int(needs.group(2)) and digits - scale >= int(needs.group(1)) - int(needs.group(2))


def is_wider(found: str, wanted: str) -> bool:
    """Whether a column of the type `found` becomes `wanted` with every value as it is.

    >>> is_wider("integer", "bigint"), is_wider("bigint", "integer"), is_wider("numeric(8,2)", "numeric(10,2)")
    (True, False, True)
    """
    if wanted in _WIDER.get(found, ()):
        return True
    has, needs = _NUMERIC.fullmatch(found), _NUMERIC.fullmatch(wanted)
    if needs is None:
        return False
    whole, scale = int(needs.group(1)) - int(needs.group(2)), int(needs.group(2))
    if has is None:
        return whole >= _DIGITS.get(found, 1000)
    return scale >= int(has.group(2)) and whole >= int(has.group(1)) - int(has.group(2))


def as_json(value: str, type_: SqlType) -> str:
    """DuckDB SQL of a value as JSON text; NULL for NULL."""
    if type_.kind is Kind.JSON:
        return f"CAST({value} AS VARCHAR)"
    return f"CASE WHEN {value} IS NOT NULL THEN CAST(to_json({json_value(value, type_)}) AS VARCHAR) END"
