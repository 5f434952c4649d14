"""The tables of a PostgreSQL database, as a catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlstream.connectors.catalog_reading import away, location_of
from sqlstream.connectors.database.declared import EPOCHS_TABLE
from sqlstream.connectors.database.postgres_catalog import look, qualified
from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.exactly_once.target import LostConnectionError
from sqlstream_planner.catalog.foreign.descriptor import CatalogDef, FoundColumn, FoundTable

_T = TypeVar("_T")
#: Ordinary and partitioned tables, views, materialized views, foreign tables.
_KINDS = ("r", "p", "v", "m", "f")
_OF_TABLES = ("url", "username", "password")


class PostgresCatalog:
    """Schemas are databases. The connection is open while something is asked."""

    def __init__(self, catalog: CatalogDef, base_dir: str) -> None:
        self._catalog = catalog
        self._options = {key: value for key, value in catalog.given.items() if key in _OF_TABLES}

    def databases(self) -> list[str]:
        """The schemas that are no system's own; see `CatalogReader`."""
        return self._asked(
            lambda one: [
                str(name)
                for (name,) in one.run(
                    "SELECT nspname::text FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' "
                    "ORDER BY 1"
                )
            ]
        )

    def tables(self, database: str) -> list[str]:
        """The tables and views of a schema; see `CatalogReader`."""
        return self._asked(
            lambda one: [
                str(name)
                for (name,) in one.run(
                    "SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                    "WHERE nspname = %s AND relkind::text = ANY(%s) AND relname <> %s ORDER BY 1",
                    [database, list(_KINDS), EPOCHS_TABLE],
                )
            ]
        )

    def describe(self, database: str, table: str) -> FoundTable | None:
        """See `CatalogReader`."""
        if table == EPOCHS_TABLE:
            return None
        return self._asked(lambda one: self._described(one, database, table))

    def _described(self, connection: PostgresConnection, database: str, table: str) -> FoundTable | None:
        there = look(connection, qualified(database, table))
        if there is None or there.kind not in _KINDS:
            return None
        never_null = {
            str(name)
            for (name,) in connection.run(
                "SELECT attname::text FROM pg_attribute WHERE attrelid = %s AND attnotnull AND attnum > 0",
                [there.oid],
            )
        }
        key = connection.run(
            "SELECT a.attname::text FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place) "
            "JOIN pg_attribute a ON a.attnum = k.number WHERE i.indrelid = %s AND a.attrelid = i.indrelid "
            "AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY k.place",
            [there.oid],
        )
        return FoundTable(
            database,
            table,
            "postgres",
            {**self._options, "table-name": f"{_part(database)}.{_part(table)}"},
            tuple(
                FoundColumn(
                    column.name,
                    None if column.read is None else column.read.type,
                    column.name not in never_null,
                    column.sql,
                )
                for column in there.columns
            ),
            tuple(str(name) for (name,) in key),
        )

    def _asked(self, ask: Callable[[PostgresConnection], _T]) -> _T:
        connection = PostgresConnection(self._options, "", done="read")
        connection.location = location_of(self._catalog.name, connection.location.partition(" in ")[2])
        try:
            connection.connect()
            return ask(connection)
        except LostConnectionError as error:
            raise away(connection.location, str(error)) from None
        finally:
            connection.close()


def _part(name: str) -> str:
    """A part of `table-name`.

    >>> _part("orders"), _part("a.b")
    ('orders', '"a.b"')
    """
    plain = name.strip() == name and not {".", '"'} & set(name)
    return name if plain else '"' + name.replace('"', '""') + '"'
