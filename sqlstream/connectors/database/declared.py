"""What is wrong with a table in a database as it is declared, which needs no server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.database.postgres_url import wrong_url
from sqlstream_operators.plan.types import NESTED, Kind
from sqlstream_planner.catalog.descriptor import Settings
from sqlstream_planner.catalog.options import wrong_value
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import CreateTable

#: The table, beside the sink's own, that says which epochs are in it.
EPOCHS_TABLE = "sqlstream_epochs"
#: PostgreSQL cuts longer names off, silently (bytes).
LONGEST_NAME = 63
#: What DuckDB can't make an index over.
NO_DUCKDB_KEY = NESTED | {Kind.INTERVAL}

_PART = r'"(?:[^"]|"")+"|[^".]+'
_NAME = re.compile(rf"(?:({_PART})\.)?({_PART})")


def split_table_name(text: str) -> tuple[str | None, str]:
    """Schema (None: the connection's) and name in `table-name`; parts that have dots are in double quotes.

    >>> split_table_name('"my.schema".orders')
    ('my.schema', 'orders')
    """
    found = _NAME.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    schema, name = found.groups()
    return schema and _plain(schema), _plain(name)


def table_in(options: Mapping[str, str], name: str) -> tuple[str | None, str]:
    """Schema (None: the connection's) and name of a table that is declared as `name`, by `table-name` if that is set.

    >>> table_in({}, "my.orders"), table_in({"table-name": "sales.orders"}, "o")
    ((None, 'my.orders'), ('sales', 'orders'))
    """
    text = options.get("table-name")
    return (None, name) if text is None else split_table_name(text)


def wrong_table_name(text: str) -> str | None:
    """What to write instead of a `table-name` that can't be one; None: it can.

    >>> wrong_table_name("orders"), wrong_table_name("a.b.c")
    (None, "a table's name, or schema.table")
    """
    if _NAME.fullmatch(text.strip()) is None:
        return "a table's name, or schema.table"
    if split_table_name(text)[1].lower() == EPOCHS_TABLE:
        return f"another name: {EPOCHS_TABLE} is where epochs are kept"
    return None


def wrong_path(text: str) -> str | None:
    """What to write instead of a `path` that is no local DuckDB file; None: it is."""
    path = text.removeprefix("file://")
    if not path.strip() or "://" in path or path.startswith(("md:", ":memory:")):
        return "a DuckDB file on the driver's disk"
    return None


def in_duckdb(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """Mistakes of a table on `duckdb`: OPT003, and SQL053 for a key that it can't have."""
    yield from _options(
        table, {"path": wrong_path, "sink.publish-path": wrong_path, "table-name": wrong_table_name}
    )
    key = table.primary_key
    for column in table.columns:
        type_ = getattr(column, "type", None)
        if (
            key is not None
            and column.name in key.columns
            and type_ is not None
            and type_.kind in NO_DUCKDB_KEY
        ):
            yield Diagnostic(
                "SQL053",
                f"DuckDB has no PRIMARY KEY over a column of type {type_} (`{column.name}`)",
                column.span,
                help="CAST it to VARCHAR, or choose another key",
            )


def in_postgres(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """Mistakes of a table on `postgres`: OPT003, and SQL053 for names that are too long."""
    yield from _options(table, {"table-name": _wrong_postgres_name})
    for option in table.options:
        wrong = wrong_url(option.value) if option.key == "url" else None
        if wrong is not None:  # the address is not repeated: a password may be anywhere in it
            yield Diagnostic(
                "OPT003",
                "`url` is no address of a PostgreSQL database",
                option.value_span,
                help=f"write {wrong}",
            )
    named = any(option.key == "table-name" for option in table.options)
    names = [(column.name, column.span) for column in table.columns]
    for name, span in [*([] if named else [(table.name, table.name_span)]), *names]:
        if len(name.encode()) > LONGEST_NAME:
            yield Diagnostic("SQL053", f"PostgreSQL has names of at most {LONGEST_NAME} bytes", span)


def _wrong_postgres_name(text: str) -> str | None:
    wrong = wrong_table_name(text)
    if wrong is None and any(len((part or "").encode()) > LONGEST_NAME for part in split_table_name(text)):
        return f"names of at most {LONGEST_NAME} bytes"
    return wrong


def _options(table: CreateTable, wrong: dict[str, Callable[[str], str | None]]) -> Iterator[Diagnostic]:
    for option in table.options:
        accepted = wrong[option.key](option.value) if option.key in wrong else None
        if accepted is not None:
            yield wrong_value("OPT003", option.key, option.value, accepted, option.value_span)


def _plain(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
