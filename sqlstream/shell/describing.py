"""DESCRIBE and SHOW: what the tables of a session are, as rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlstream.planning import with_functions
from sqlstream_operators.plan.schema import Column
from sqlstream_planner.aggregates import registry
from sqlstream_planner.catalog.job_options import JOB_OPTIONS
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.catalog.tables import Catalog, TableDef
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.translate.table import THEMES
from sqlstream_planner.sql.dialect import duckdb_sql
from sqlstream_planner.sql.statements import ComputedColumn, MetadataColumn
from sqlstream_planner.text.masking import shown_options

DESCRIBED = ("name", "type", "null", "key", "extras", "watermark")
LISTED = ("name", "kind", "connector")

Rows = Iterator[tuple[str | None, ...]]


def table_rows(table: TableDef, types: Mapping[str, str]) -> Rows:
    """The columns of a table; `types` are those of columns that are computed, by their names."""
    key = () if table.primary_key is None else tuple(name.lower() for name in table.primary_key.columns)
    mark = table.watermark
    for column in table.columns:
        extras = None
        if isinstance(column, ComputedColumn):
            type_, nullable = types.get(column.name, "?"), True
            extras = f"AS {duckdb_sql(column.expression)}"
        else:
            type_, nullable = str(column.type), column.nullable
            if isinstance(column, MetadataColumn):
                extras = f"METADATA FROM '{column.key}'{' VIRTUAL' if column.virtual else ''}"
        timed = mark is not None and mark.column[0].lower() == column.name.lower()
        name = column.name.lower()
        yield (
            column.name,
            type_,
            "true" if nullable and name not in key else "false",
            f"PRI({', '.join(table.primary_key.columns)})" if table.primary_key and name in key else None,
            extras,
            duckdb_sql(mark.expression) if mark is not None and timed else None,
        )
    for left in table.left_out:
        yield left.name, None, None, None, f"left out: {left.why}", None


def column_rows(columns: Sequence[Column]) -> Rows:
    """The columns of a view or a query."""
    for column in columns:
        yield column.name, str(column.type), "true" if column.nullable else "false", None, None, None


def listed(catalog: Catalog, state: Sequence[str], written: Sequence[str]) -> Rows:
    """All tables and views, and the tables of the state; `written` are the sinks of the file, in lower case."""
    for table in catalog.tables.values():
        if "." in table.name:
            continue  # of another catalog
        yield table.name, _kind(table, written), _connector(table)
    for view in catalog.views.values():
        yield view.name, "view", None
    for name in state:
        yield name, "state", None


def _kind(table: TableDef, written: Sequence[str]) -> str:
    if table.name.lower() in written or Role.SOURCE not in table.roles:
        return "sink" if table.name.lower() in written or not table.is_dimension else "lookup table"
    return "source"


def _connector(table: TableDef) -> str:
    chosen = table.descriptor.row_format(table.settings)
    return table.connector if chosen is None else f"{table.connector}, {chosen.name}"


def functions() -> Iterator[tuple[str, str, str]]:
    """The functions that can be called: name, kind, and whose they are."""
    with_functions()
    runnable = set(registry.names())
    found = {
        name: (name, "aggregate" if catalogue.is_aggregate(name) else "scalar", "DuckDB")
        for name in catalogue.names()
        if name in runnable or not catalogue.is_aggregate(name)
    }
    for _, translations in THEMES:
        for one in translations:
            found[one.name.lower()] = (one.name.lower(), "scalar", str(one.system))
    for name in WINDOWS:
        found[name.lower()] = (name.lower(), "window", "Flink")
    return iter([found[name] for name in sorted(found)])


#: The windows of FROM TABLE(…).
WINDOWS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")


def like(pattern: str) -> re.Pattern[str]:
    """A pattern of LIKE, ignoring case.

    >>> [bool(like("DATE_T%").fullmatch(name)) for name in ("date_trunc", "dated")]
    [True, False]
    """
    parts = {"%": ".*", "_": "."}
    return re.compile("".join(parts.get(c, re.escape(c)) for c in pattern), re.IGNORECASE | re.DOTALL)


def settings(given: Mapping[str, str]) -> Rows:
    """The settings of a run: name, value (as set, else the default), and what it does."""
    for option in JOB_OPTIONS:
        value = given.get(option.name)
        yield (
            option.name,
            option.default if value is None else shown_options({option.name: value})[option.name],
            option.description,
        )
