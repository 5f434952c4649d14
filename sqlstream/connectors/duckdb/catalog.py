"""The tables of a DuckDB file, as a catalog."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from sqlstream.connectors.catalog_reading import away, location_of
from sqlstream.connectors.database.declared import EPOCHS_TABLE
from sqlstream.connectors.database.duckdb_table import PATIENCE_S, database_file
from sqlstream_operators.plan.types import SqlType, parse_type, quote_literal
from sqlstream_planner.catalog.foreign.descriptor import CatalogDef, FoundColumn, FoundTable

_DATABASE, _MAIN = "catalog_file", "main"
_LOOK_S = 0.1


class DuckDbCatalog:
    """Schemas are databases. The file is open while something is asked, so that others can write it."""

    def __init__(self, catalog: CatalogDef, base_dir: str) -> None:
        self._path = database_file(catalog.given, base_dir)
        self._location = location_of(catalog.name, f"'{self._path}'")
        self._written = catalog.given["path"]

    def databases(self) -> list[str]:
        """The schemas of the file; see `CatalogReader`."""
        with self._open() as file:
            found = file.execute(
                "SELECT schema_name FROM duckdb_schemas() WHERE database_name = $1 AND NOT internal "
                "UNION SELECT $2 ORDER BY 1",
                [_DATABASE, _MAIN],
            ).fetchall()
        return [str(name) for (name,) in found]

    def tables(self, database: str) -> list[str]:
        """The tables and views of a schema; see `CatalogReader`."""
        with self._open() as file:
            found = file.execute(
                "SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = $1 AND schema_name = $2 "
                "AND lower(table_name) <> $3 ORDER BY 1",
                [_DATABASE, database, EPOCHS_TABLE],
            ).fetchall()
        return [str(name) for (name,) in found]

    def describe(self, database: str, table: str) -> FoundTable | None:
        """See `CatalogReader`."""
        if table.lower() == EPOCHS_TABLE:
            return None
        with self._open() as file:
            place = [_DATABASE, database, table]
            columns = file.execute(
                "SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE database_name = $1 "
                "AND schema_name = $2 AND table_name = $3 ORDER BY column_index",
                place,
            ).fetchall()
            key = file.execute(
                "SELECT constraint_column_names FROM duckdb_constraints() WHERE database_name = $1 "
                "AND schema_name = $2 AND table_name = $3 AND constraint_type = 'PRIMARY KEY'",
                place,
            ).fetchall()
        if not columns:
            return None
        named = _part(table) if database == _MAIN else f"{_part(database)}.{_part(table)}"
        return FoundTable(
            database,
            table,
            "duckdb",
            {"path": self._written, "table-name": named},
            tuple(FoundColumn(str(n), _type(str(t)), bool(nullable), str(t)) for n, t, nullable in columns),
            tuple(map(str, key[0][0])) if key else (),
        )

    @contextmanager
    def _open(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if not self._path.exists():
            raise away(self._location, "there is no such file")
        connection = duckdb.connect(":memory:")
        try:
            self._attach(connection)
            yield connection
        finally:
            connection.close()

    def _attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                connection.execute(f"ATTACH {quote_literal(str(self._path))} AS {_DATABASE} (READ_ONLY)")
                return
            except duckdb.Error as error:
                if "lock" not in str(error) or time.monotonic() > end:
                    raise away(self._location, str(error)) from None
            time.sleep(_LOOK_S)


def _type(text: str) -> SqlType | None:
    """A type as DuckDB writes it; None: there is none like it here."""
    try:
        found = parse_type(text)
    except ValueError:
        return None
    return found if found.is_known else None


def _part(name: str) -> str:
    plain = name.strip() == name and not {".", '"'} & set(name)
    return name if plain else '"' + name.replace('"', '""') + '"'
