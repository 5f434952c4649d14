"""How values are written as JSON, as SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlstream.formats.instants import instant_text
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import ROWS, Kind, SqlType, quote_identifier, quote_literal


def object_text(columns: Sequence[Column], *, iso: bool, without_nulls: bool) -> str:
    """SQL of the text of a JSON object that has these columns; `iso` as for `json_value`."""
    if without_nulls:
        fields = ", ".join(present(quote_identifier(c.name), c.name, c.type, iso) for c in columns)
        return f"'{{' || concat_ws(',', {fields}) || '}}'"
    return f"CAST(to_json({object_value(columns, iso=iso)}) AS VARCHAR)"


def object_value(columns: Sequence[Column], *, iso: bool) -> str:
    """SQL of a struct that JSON shows as an object of these columns."""
    names = [quote_identifier(column.name) for column in columns]
    values = [json_value(name, column.type, iso=iso) for name, column in zip(names, columns, strict=True)]
    return f"struct_pack({', '.join(f'{n} := {v}' for n, v in zip(names, values, strict=True))})"


def present(value: str, name: str, type_: SqlType, iso: bool, depth: int = 0) -> str:
    """SQL of `"name":value` as JSON text, NULL if the value is; fields of rows that are NULL are left out
    too.
    """
    return f"{quote_literal(json.dumps(name, ensure_ascii=False) + ':')} || {_json_text(value, type_, iso, depth)}"


def _json_text(value: str, type_: SqlType, iso: bool, depth: int) -> str:
    match type_.kind:
        case Kind.STRUCT:
            fields = ", ".join(
                present(f"struct_extract({value}, {quote_literal(name)})", name, field, iso, depth)
                for name, field in type_.fields
            )
            return f"CASE WHEN {value} IS NOT NULL THEN '{{' || concat_ws(',', {fields}) || '}}' END"
        case Kind.TUPLE:
            values = ", ".join(
                f"coalesce({_json_text(f'{value}[{n}]', field, iso, depth)}, 'null')"
                for n, (_, field) in enumerate(type_.fields, 1)
            )
            return f"CASE WHEN {value} IS NOT NULL THEN '[' || concat_ws(',', {values}) || ']' END"
        case Kind.ARRAY if type_.element is not None and type_.element.kind in (*ROWS, Kind.ARRAY):
            inner = _json_text(f"e{depth}", type_.element, iso, depth + 1)
            made = f"list_transform({value}, lambda e{depth}: coalesce({inner}, 'null'))"
            return f"'[' || array_to_string({made}, ',') || ']'"
    made = json_value(value, type_, iso=iso, depth=depth)
    return f"CASE WHEN {value} IS NOT NULL THEN CAST(to_json({made}) AS VARCHAR) END"


def json_value(value: str, type_: SqlType, *, iso: bool = False, depth: int = 0) -> str:
    """SQL of what a value is in JSON: bytes in base64 and numbers that are not finite as texts ("NaN", "Infinity",
    "-Infinity") as Flink has them; instants with `Z` (`2024-01-01 00:00:00.5Z`), and with `iso` timestamps as ISO 8601
    (`2024-01-01T00:00:00.5`, with `Z` for instants); FLOAT with the digits that it has (0.1), where DuckDB shows the
    double next to it (0.10000000149011612). Everything else as DuckDB writes it.
    """

    def each(values: str, inner: SqlType) -> str:
        made = json_value(f"e{depth}", inner, iso=iso, depth=depth + 1)
        return values if made == f"e{depth}" else f"list_transform({values}, lambda e{depth}: {made})"

    match type_.kind:
        case Kind.TIMESTAMPTZ:
            return f"replace({instant_text(value)}, ' ', 'T')" if iso else instant_text(value)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NS if iso:
            return f"replace(CAST({value} AS VARCHAR), ' ', 'T')"
        case Kind.BLOB:
            return f"to_base64({value})"
        case Kind.FLOAT | Kind.DOUBLE:
            number = (
                f"CAST(CAST({value} AS VARCHAR) AS JSON)" if type_.kind is Kind.FLOAT else f"to_json({value})"
            )
            return (
                f"CASE WHEN isnan({value}) THEN JSON '\"NaN\"' WHEN {value} = 'inf' THEN JSON '\"Infinity\"' "
                f"WHEN {value} = '-inf' THEN JSON '\"-Infinity\"' ELSE {number} END"
            )
        case Kind.STRUCT:
            parts = [(name, f"struct_extract({value}, {quote_literal(name)})", t) for name, t in type_.fields]
            made = [(name, part, json_value(part, t, iso=iso, depth=depth)) for name, part, t in parts]
            if all(part == text for _, part, text in made):
                return value
            fields = ", ".join(f"{quote_identifier(name)} := {text}" for name, _, text in made)
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({fields}) END"
        case Kind.TUPLE:
            given = [(f"{value}[{n}]", t) for n, (_, t) in enumerate(type_.fields, 1)]
            texts = [json_value(part, t, iso=iso, depth=depth) for part, t in given]
            if texts == [part for part, _ in given]:
                return value
            return f"CASE WHEN {value} IS NOT NULL THEN row({', '.join(texts)}) END"
        case Kind.ARRAY if type_.element is not None:
            return each(value, type_.element)
        case Kind.MAP if type_.key is not None and type_.value is not None:
            keys, values = f"map_keys({value})", f"map_values({value})"
            made_keys, made_values = keys, each(values, type_.value)
            if type_.key.kind not in (Kind.FLOAT, Kind.DOUBLE):  # a key is a text as it is
                made_keys = each(keys, type_.key)
            if (made_keys, made_values) == (keys, values):
                return value
            return f"CASE WHEN {value} IS NOT NULL THEN map({made_keys}, {made_values}) END"
    return value
