"""JSON lines: one object a line, read by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlstream.formats.beside import Beside
from sqlstream.formats.values import column_map, file_list, from_text, text_item, text_type
from sqlstream_operators.plan.spec import Schema
from sqlstream_operators.plan.types import JSON, VARCHAR, Kind, SqlType, quote_literal

_LARGEST_LINE = 64 << 20
#: Values of these are texts in JSON, and not every text is one.
_AS_TEXT = (Kind.BIT, Kind.ENUM, Kind.TIMETZ, Kind.TIMESTAMP_NS)
#: A key that no object has: something must be read to count lines.
NO_KEY = "\x01"


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A line is a row; see `LineFormat`."""

    columns: Schema
    fail_on_missing: bool = False

    @property
    def types(self) -> list[SqlType]:
        """The types of the columns that are read."""
        return [column.type for column in self.columns]

    def select(self, paths: Sequence[str], beside: Beside) -> str:
        """A SELECT over the files in order; it fails when it is run if any line can't be read."""
        read = {column.name: text_type(column.type, json=True) for column in self.columns}
        items = [*(text_item(column, json=True) for column in self.columns), *beside.items]
        lines = read_json(paths, read or {NO_KEY: VARCHAR})
        if any(name != sql for name, sql in beside.carried.items()):
            lines = f"(SELECT *{beside.carrying} FROM {lines})"
        return f"SELECT {', '.join(items) or '1 AS one'} FROM {lines}"

    @property
    def asks_each_line(self) -> bool:
        """Whether `cases` refuses lines that `select` would read."""
        return self.fail_on_missing

    def cases(self) -> list[str]:
        """Why a line can't be read."""
        cases = ["WHEN json_type(t) NOT IN ('OBJECT', 'NULL') THEN 'not a JSON object but ' || json_type(t)"]
        for column in self.columns:
            cases.append(
                f"WHEN {repeated('t', column.name)} THEN {quote_literal(f'key {column.name} twice')}"
            )
            if self.fail_on_missing:
                missing = quote_literal(f"key {column.name} is missing")
                cases.append(f"WHEN NOT json_exists(t, {quote_literal(pointer(column.name))}) THEN {missing}")
            cases += unacceptable("t", column.name, column.type)
        return cases


def read_json(paths: Sequence[str], columns: Mapping[str, SqlType]) -> str:
    """The table function that reads these keys of a JSON object per line."""
    return (
        f"read_json({file_list(paths)}, format = 'newline_delimited', records = true, "
        f"columns = {column_map(columns)}, maximum_object_size = {_LARGEST_LINE}, hive_partitioning = false)"
    )


def json_objects(paths: Sequence[str]) -> str:
    """The table function that reads a JSON value a line, as the column `json`."""
    return (
        f"read_ndjson_objects({file_list(paths)}, maximum_object_size = {_LARGEST_LINE}, "
        f"hive_partitioning = false)"
    )


def unacceptable(row: str, name: str, type_: SqlType, where: str = "") -> list[str]:
    """The WHEN branch for a value of a JSON object that is not of its column's type, if there can be one."""
    value = f"json_extract({row}, {quote_literal(pointer(name))})"
    check = acceptable(value, type_)
    if check is None:
        return []
    shown = quote_literal(f"{where}column {name}: not {_article(type_)}: ")
    return [f"WHEN NOT coalesce(TRY({check}), false) THEN {shown} || left({value}::VARCHAR, 200)"]


def acceptable(value: str, type_: SqlType, depth: int = 0) -> str | None:
    """SQL that is TRUE where read_json can make `type_` of the JSON `value`; None where it always can.

    read_json stops at the first line that it can't read, so which lines those are is found in this way.
    """
    absent = f"coalesce(json_type({value}), 'NULL') = 'NULL'"
    match type_.kind:
        case Kind.VARCHAR | Kind.JSON:
            return None
        case Kind.ARRAY:
            assert type_.element is not None
            inner = acceptable(f"e{depth}", type_.element, depth + 1)
            check = f"json_type({value}) = 'ARRAY'"
            if inner is not None:
                check += f" AND {_every(f'TRY(CAST({value} AS JSON[]))', depth, inner)}"
        case Kind.MAP:
            assert type_.key is not None
            assert type_.value is not None
            values = f"map_values(TRY(CAST({value} AS MAP(VARCHAR, JSON))))"
            inner = acceptable(f"e{depth}", type_.value, depth + 1)
            keys = f"json_keys({value})"
            check = f"json_type({value}) = 'OBJECT' AND len({keys}) = len(list_distinct({keys}))"
            if type_.key.kind is not Kind.VARCHAR:
                key = type_.key if type_.key.kind in _AS_TEXT else text_type(type_.key, json=True)
                made = f"TRY(CAST(CAST({keys} AS VARCHAR[]) AS {key}[]))"
                check += f" AND {made} IS NOT NULL AND len(list_distinct({made})) = len({keys})"
            if inner is not None:
                check += f" AND {_every(values, depth, inner)}"
        case Kind.STRUCT:
            check = f"json_type({value}) = 'OBJECT'"
            for name, field in type_.fields:
                check += f" AND NOT ({repeated(value, name)})"
                inner = acceptable(f"json_extract({value}, {quote_literal(pointer(name))})", field, depth)
                if inner is not None:
                    check += f" AND ({inner})"
        case Kind.BLOB:
            check = f"TRY(from_base64({value} ->> '$')) IS NOT NULL"
        case kind if kind in _AS_TEXT:
            check = f"TRY(CAST({value} ->> '$' AS {type_})) IS NOT NULL"
        case Kind.DECIMAL if text_type(type_, json=True) == JSON:
            check = f"TRY({from_text(f'CAST({value} AS JSON)', type_, json=True)}) IS NOT NULL"
        case _:
            check = f"TRY(CAST({value} AS {text_type(type_)})) IS NOT NULL"
    return f"{absent} OR ({check})"


def _every(values: str, depth: int, condition: str) -> str:
    return f"coalesce(list_bool_and(list_transform({values}, lambda e{depth}: {condition})), true)"


def repeated(value: str, key: str) -> str:
    """SQL: whether an object has a key more than once, which read_json refuses."""
    return f"len(list_filter(json_keys({value}), lambda k: k = {quote_literal(key)})) > 1"


def pointer(name: str) -> str:
    """The JSON pointer of a key."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _article(type_: SqlType) -> str:
    text = str(type_)
    return f"an {text}" if text[0] in "AEIOU" else f"a {text}"
