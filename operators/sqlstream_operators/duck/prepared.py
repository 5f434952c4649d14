"""Queries over few rows: planned once, and run again over other rows.

Of a query over ten rows DuckDB computes 0.3 ms and plans 2 to 5, and operators ask the same ones in each epoch. A
prepared query has a connection of its own, on which its relations stay registered: where one comes or goes, DuckDB plans
anew. They are streams, of which it does not know how many rows they have. So the plan, and with it the order of the
result, is the same for all rows, whether it was kept or not.
"""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.types import SqlType, quote_identifier

from .arrow_values import for_arrow, normalize, sql_type

#: What a query reads by name: rows, or the SQL of a view.
Relation: TypeAlias = pa.Table | str
#: Rows with the names and types of their columns.
Result: TypeAlias = tuple[pa.Table, tuple[SqlType, ...]]

#: Beyond so many rows, or bytes, in its relations a query is planned for their number: what planning costs counts no longer.
MOST_ROWS = 4_096
MOST_BYTES = 4 << 20
#: How many are kept. One takes 0.3 MB.
MOST_QUERIES = 128

_SETTINGS = (
    "memory_limit = '64MB'",  # what needs more goes to the session's own database, which may spill
    # A plan that is kept would not see that a file is another one: here nothing can be read but what is registered.
    "enable_external_access = false",
    # Where it expects one row, DuckDB would compare each row with each.
    "nested_loop_join_threshold = 0",
    "merge_join_threshold = 0",
)
#: The one setting that each connection needs for itself.
NO_PROGRESS_BAR = "enable_progress_bar = false"
#: What SQL reads beside its relations: it is a constant of the plan.
_VARIABLE = "getvariable"
_RUN = "EXECUTE prepared"

# The copy that it warns of is one of few rows.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning, re.escape(__name__))


class PreparedQueries:
    """The prepared queries of one session, in a database of their own; the least recently used ones are forgotten.

    `settings` (`name = value`) are those of the session's own connection, without which a query would give something else.
    """

    def __init__(self, settings: Sequence[str], most: int = MOST_QUERIES) -> None:
        self._settings = tuple(settings)
        self._most = most
        self._database: duckdb.DuckDBPyConnection | None = None
        self._kept: OrderedDict[tuple[str, ...], _Prepared] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def run(self, sql: str, relations: Mapping[str, Relation]) -> Result | None:
        """The rows of one SELECT over the relations that it reads, of which each may read those before it.

        None where a query is not for here: it reads the epoch or anything else that is no relation, it has many rows or
        none of its own, or it fails. The session says then how.
        """
        tables = {name: found for name, found in relations.items() if isinstance(found, pa.Table)}
        views = [found for found in relations.values() if isinstance(found, str)]
        if (
            not tables
            or any(_VARIABLE in text.lower() for text in (sql, *views))
            or not _are_few(tables.values())
        ):
            return None
        key = (sql, *(part for name, found in relations.items() for part in (name, _shape(found))))
        prepared = self._kept.get(key)
        try:
            if prepared is None:
                prepared = _Prepared(self._connection(), sql, relations)
                self._keep(key, prepared)
            else:
                self._kept.move_to_end(key)
            return prepared.run(tables)
        except (duckdb.Error, UnicodeDecodeError):
            failed = self._kept.pop(key, None)
            if failed is not None:
                failed.close()
            return None

    def close(self) -> None:
        """Forget them all."""
        while self._kept:
            self._kept.popitem()[1].close()
        if self._database is not None:
            self._database.close()
            self._database = None

    def _keep(self, key: tuple[str, ...], prepared: _Prepared) -> None:
        self._kept[key] = prepared
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)[1].close()

    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._database is None:
            self._database = duckdb.connect(":memory:", config={"threads": 1})
            # For all connections at once: to set each takes 2 ms, which is as much as to prepare a query.
            for setting in (*self._settings, *_SETTINGS):
                self._database.execute(f"SET GLOBAL {setting}")
        connection = self._database.cursor()
        connection.execute(f"SET {NO_PROGRESS_BAR}")
        return connection


class _Prepared:
    """One query with a connection of its own, which it closes."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, sql: str, relations: Mapping[str, Relation]
    ) -> None:
        self._connection = connection
        self._sql = sql
        self._types: tuple[SqlType, ...] | None = None
        self._rows: dict[str, _Rows] = {}
        try:
            for name, found in relations.items():
                if isinstance(found, str):
                    connection.execute(f"CREATE TEMP VIEW {quote_identifier(name)} AS {found}")
                else:
                    self._rows[name] = _Rows(found.schema)
                    connection.register(name, self._rows[name])
            connection.execute(f"PREPARE prepared AS {sql}")
        except BaseException:
            connection.close()
            raise

    def run(self, tables: Mapping[str, pa.Table]) -> Result:
        """The result over these rows. What DuckDB raises goes through."""
        for name, table in tables.items():
            self._rows[name].table = table
        try:
            self._connection.execute(_RUN)
            if self._types is None:
                self._types = self._described()
            return normalize(self._connection.to_arrow_table()), self._types
        finally:
            for rows in self._rows.values():
                rows.table = None

    def _described(self) -> tuple[SqlType, ...]:
        """The types of the columns; afterwards they come as Arrow can have them."""
        names = [str(column[0]) for column in self._connection.description]
        types = tuple(sql_type(str(column[1])) for column in self._connection.description)
        listed = for_arrow(names, types)
        if listed is not None:
            self._connection.execute(f"PREPARE prepared AS SELECT {listed} FROM (\n{self._sql}\n)")
            self._connection.execute(_RUN)
        return types

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class _Rows:
    """A relation whose rows are others from run to run; they can be read several times in one."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.table: pa.Table | None = None

    def __arrow_c_schema__(self) -> Any:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        if self.table is None:
            raise InternalError("a prepared query reads rows while it is not run")
        return self.table.__arrow_c_stream__(requested_schema)


def _are_few(tables: Iterable[pa.Table]) -> bool:
    rows = size = 0
    for table in tables:
        rows += table.num_rows
        if rows > MOST_ROWS:
            return False
        size += table.nbytes
    return size <= MOST_BYTES


def _shape(relation: Relation) -> str:
    """What a plan depends on of a relation."""
    return relation if isinstance(relation, str) else relation.schema.to_string(show_schema_metadata=False)
