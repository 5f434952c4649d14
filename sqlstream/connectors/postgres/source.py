"""Both halves of a table in PostgreSQL that is read once: all its rows as they are when the first run begins.

They are copied into the state directory, of one snapshot, and epochs read the copy (`postgres_copies` says why).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlstream.connectors.api import ConnectorContext, Position, Split
from sqlstream.connectors.database.copied_source import CopiedSource, place_in_copy
from sqlstream.connectors.database.copies import Copy
from sqlstream.connectors.database.declared import table_in
from sqlstream.connectors.database.postgres_catalog import (
    ThereTable,
    check_columns,
    look,
    no_table,
    qualified,
    tables_there,
)
from sqlstream.connectors.database.postgres_connection import PostgresConnection, retried
from sqlstream.connectors.database.postgres_copies import make_copy
from sqlstream.connectors.database.postgres_reader import TableReader
from sqlstream_operators.plan.spec import SourceSpec


class PostgresSource(CopiedSource):
    """A table or view, read once."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext) -> None:
        super().__init__(spec, context)
        schema, self._name = table_in(spec.options, spec.name)
        self._table = qualified(schema, self._name)

    def made(self) -> Copy:
        """Copy the table, over several connections that share a snapshot; anew if one of them is lost."""

        def copied() -> Copy:
            with self._connected() as (connection, there):
                connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                ((snapshot,),) = connection.run("SELECT pg_export_snapshot()")
                store, columns = self.context.store, self.spec.physical
                name = str(snapshot)
                return make_copy(store, self.folder, self._table, there, columns, name, self._connection)

        return retried(copied, self._connection().location)

    def seen(self, most: int | None) -> Sequence[Split]:
        """A task reads them: the table is looked at."""

        def looked_at() -> None:
            with self._connected():
                pass

        retried(looked_at, self._connection().location)
        return [Split(self.spec.name, {"now": most})]

    def _connection(self) -> PostgresConnection:
        return PostgresConnection(self.spec.options, self._name, done="read")

    @contextmanager
    def _connected(self) -> Iterator[tuple[PostgresConnection, ThereTable]]:
        """A connection, and the table as it is. Raises DiagnosticError, and LostConnectionError."""
        connection = self._connection()
        try:
            connection.connect()
            there = look(connection, self._table)
            if there is None:
                raise no_table(self.spec, connection.location, tables_there(connection), self._name)
            check_columns(self.spec, there.columns, connection.location)
            yield connection, there
        finally:
            connection.close()


class PostgresSourceFactory:
    """Tables in PostgreSQL as sources."""

    def place_of(self, position: Position) -> str:
        """The row of the copy; see `Placing`."""
        return place_in_copy(position)

    def source(self, spec: SourceSpec, context: ConnectorContext) -> PostgresSource:
        """The driver's half."""
        return PostgresSource(spec, context)

    def reader(self, spec: SourceSpec, base_dir: str) -> TableReader:
        """The task's half."""
        return TableReader(spec, *table_in(spec.options, spec.name))

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> TableReader:
        """The task's half for whole rows."""
        return TableReader(spec, *table_in(spec.options, spec.name))
