"""How values that a format has as text, or as a type of its own, become values of the declared types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import (
    JSON,
    TIMESTAMPTZ,
    VARCHAR,
    Kind,
    SqlType,
    quote_identifier,
    quote_literal,
)

#: How many decimal digits a double always keeps.
EXACT_DIGITS = 15


def text_type(type_: SqlType, *, json: bool = False) -> SqlType:
    """The type as which text is read so that `from_text` gives `type_`.

    TIMESTAMP is read as TIMESTAMP WITH TIME ZONE: DuckDB's cast from text to TIMESTAMP drops a zone offset
    silently, and this one applies it (the session's zone is UTC); TIMESTAMP_NS is read as text for the same. In JSON
    (`json`) BLOB is base64, and what JSON has no values of is text.
    """
    match type_.kind:
        case Kind.TIMESTAMP:
            return TIMESTAMPTZ
        case Kind.TIMESTAMP_NS:
            return VARCHAR
        case Kind.BLOB | Kind.BIT | Kind.ENUM | Kind.TIMETZ if json:
            return VARCHAR
        case Kind.DECIMAL if json and (type_.precision or 0) > EXACT_DIGITS:
            return JSON
        case Kind.ARRAY if type_.element is not None:
            return replace(type_, element=text_type(type_.element, json=json))
        case Kind.MAP if type_.key is not None and type_.value is not None:
            key, value = (text_type(part, json=json) for part in (type_.key, type_.value))
            return replace(type_, key=key, value=value)
        case Kind.STRUCT:
            fields = ((name, text_type(field, json=json)) for name, field in type_.fields)
            return replace(type_, fields=tuple(fields))
    return type_


def from_text(value: str, type_: SqlType, *, json: bool = False, depth: int = 0) -> str:
    """SQL that makes `type_` of a value of `text_type(type_)`.

    Not by CAST: DuckDB pushes a cast into its CSV reader, which then reads a TIMESTAMP from the text; and
    make_timestamp is 18 times as fast. The cast is left for infinity, which has no µs.
    """
    if text_type(type_, json=json) == type_:
        return value

    def each(values: str, inner: SqlType) -> str:
        made = from_text(f"e{depth}", inner, json=json, depth=depth + 1)
        return values if made == f"e{depth}" else f"list_transform({values}, lambda e{depth}: {made})"

    match type_.kind:
        case Kind.TIMESTAMP:
            return f"coalesce(make_timestamp(epoch_us({value})), CAST({value} AS TIMESTAMP))"
        case Kind.TIMESTAMP_NS:
            offset = f"epoch_us(CAST({value} AS TIMESTAMP)) - epoch_us(CAST({value} AS TIMESTAMPTZ))"
            local = f"CAST({value} AS TIMESTAMP_NS)"
            return f"coalesce(make_timestamp_ns(epoch_ns({local}) - 1000 * ({offset})), {local})"
        case Kind.BIT | Kind.ENUM | Kind.TIMETZ:
            return f"CAST({value} AS {type_})"
        case Kind.BLOB:
            return f"from_base64({value})"
        case Kind.DECIMAL:
            return _exact_decimal(value, type_)
        case Kind.STRUCT:
            fields = []
            for name, field in type_.fields:
                part = f"struct_extract({value}, {quote_literal(name)})"
                fields.append(f"{quote_identifier(name)} := {from_text(part, field, json=json, depth=depth)}")
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
        case Kind.ARRAY if type_.element is not None:
            return each(value, type_.element)
        case Kind.MAP if type_.key is not None and type_.value is not None:
            keys, values = each(f"map_keys({value})", type_.key), each(f"map_values({value})", type_.value)
            return f"CASE WHEN {value} IS NOT NULL THEN map({keys}, {values}) END"
    raise InternalError(f"{type_} is read as it is")


def _exact_decimal(value: str, type_: SqlType) -> str:
    """SQL of a DECIMAL from a JSON value; it fails for a number whose digits DuckDB's JSON reader has lost.

    The reader makes a double of every number with a point or an exponent. Its shortest text is what was
    written as long as that has at most 15 digits; strings and whole numbers are exact.
    """
    text = f"CAST({value} AS VARCHAR)"
    digits = f"regexp_replace(regexp_replace(split_part({text}, 'e', 1), '^-?[0.]*', ''), '[^0-9]', '', 'g')"
    inexact = (
        f"((length({text}) > {EXACT_DIGITS} AND contains({text}, '.')) OR contains({text}, 'e')) AND "
        f"(length({digits}) > {EXACT_DIGITS} OR abs(CAST({text} AS DOUBLE)) >= 1e{EXACT_DIGITS})"
    )
    return (
        f"CASE WHEN starts_with({text}, '\"') THEN CAST({value} ->> '$' AS {type_}) "
        f"WHEN {inexact} THEN CAST('inexact: ' || {text} AS {type_}) "
        f"ELSE CAST({text} AS {type_}) END"
    )


def text_item(column: Column, *, json: bool = False) -> str:
    """The SELECT item of a declared column that was read as `text_type` of it."""
    name = quote_identifier(column.name)
    value = from_text(name, column.type, json=json)
    return name if value == name else f"{value} AS {name}"


def column_map(columns: Mapping[str, SqlType]) -> str:
    """The `columns` argument of read_json and read_csv."""
    return "{" + ", ".join(f"{quote_literal(n)}: {quote_literal(str(t))}" for n, t in columns.items()) + "}"


def cast_from(source: SqlType | None, expression: str, target: SqlType) -> str:
    """SQL that makes `target` of an expression of type `source` (None: a type that has no name here)."""
    if source == target:
        return expression
    if source == VARCHAR and text_type(target) != target:
        return from_text(f"CAST({expression} AS {text_type(target)})", target)
    if source == TIMESTAMPTZ and target.kind is Kind.TIMESTAMP:
        return from_text(expression, target)
    return f"CAST({expression} AS {target})"


def file_list(paths: Sequence[str]) -> str:
    """A list of files for DuckDB's readers, which take some characters for a glob.

    >>> file_list(["/a/b[1].json"])
    "['/a/b[[]1].json']"
    """
    escaped = (p.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]") for p in paths)
    return "[" + ", ".join(quote_literal(p) for p in escaped) + "]"
