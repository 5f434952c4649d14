"""How the filesystem sink writes changes: a JSON message for each, with its kind.

Rows come with KIND_COLUMN behind the columns of the table (`sqlstream_operators.duck.row_kinds.to_kinds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyarrow import fs

from sqlstream.connectors.filesystem.writers import Write, copy_rows, json_value, present, write_lines
from sqlstream.connectors.options import flag
from sqlstream_operators.plan.spec import KIND_COLUMN, Column
from sqlstream_operators.plan.types import VARCHAR, quote_identifier

_KIND = Column(KIND_COLUMN, VARCHAR)
_GOES = f"{KIND_COLUMN} IN ('-U', '-D')"


def _write_debezium(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    """`{"before": …, "after": …, "op": …}`; as in Flink an update is two messages, a `d` and a `c`."""
    iso = _iso(options, "debezium-json")
    if flag(options, "debezium-json.encode.ignore-null-fields"):
        fields = ", ".join(present(quote_identifier(c.name), c.name, c.type, iso) for c in columns)
        image = f"concat_ws(',', {fields}) || '}}'"
        line = (
            f'CASE WHEN {_GOES} THEN \'{{"before":{{\' || {image} || \',"op":"d"}}\n\' '
            f'ELSE \'{{"after":{{\' || {image} || \',"op":"c"}}\n\' END'
        )
        write_lines(filesystem, path, table, [*columns, _KIND], line)
        return
    row = _row(columns, iso)
    items = [
        f"CASE WHEN {_GOES} THEN {row} END AS before",
        f"CASE WHEN NOT {_GOES} THEN {row} END AS after",
        f"CASE WHEN {_GOES} THEN 'd' ELSE 'c' END AS op",
    ]
    copy_rows(filesystem, path, table, [*columns, _KIND], items, "FORMAT json")


def _write_changelog(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    """`{"data": {…}, "op": "+I"}`, the kinds as they are."""
    items = [f"{_row(columns, _iso(options, 'changelog-json'))} AS data", f"{KIND_COLUMN} AS op"]
    copy_rows(filesystem, path, table, [*columns, _KIND], items, "FORMAT json")


def _row(columns: Sequence[Column], iso: bool) -> str:
    """SQL of the table's columns as one JSON object."""
    names = [quote_identifier(column.name) for column in columns]
    values = [json_value(name, column.type, iso=iso) for name, column in zip(names, columns, strict=True)]
    return f"struct_pack({', '.join(f'{n} := {v}' for n, v in zip(names, values, strict=True))})"


def _iso(options: Mapping[str, str], format_: str) -> bool:
    return options.get(f"{format_}.timestamp-format.standard", "SQL").upper() == "ISO-8601"


CHANGELOG_WRITERS: Mapping[str, Write] = {
    "debezium-json": _write_debezium,
    "changelog-json": _write_changelog,
}
