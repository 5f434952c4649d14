"""The task's half of a table in PostgreSQL that is read: rows of a copy in the state directory, or of the table as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sqlstream.connectors.api import Split
from sqlstream.connectors.database.copy_reader import CopyReader
from sqlstream.connectors.database.postgres_blocks import blocks, fields_of, table_of
from sqlstream.connectors.database.postgres_catalog import check_columns, look, qualified, types_of
from sqlstream.connectors.database.postgres_connection import PostgresConnection, retried
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import Column, SourceSpec
from sqlstream_operators.plan.types import quote_identifier


class TableReader(CopyReader):
    """Reads splits of one table, whose `schema` None is the connection's."""

    def __init__(self, spec: SourceSpec, schema: str | None, table: str) -> None:
        super().__init__(spec)
        self._schema, self._table = schema, table

    def place(self, split: Split) -> str:
        """Where the rows of a split are."""
        return f"the table {self._table} as it was"

    def connection(self) -> PostgresConnection:
        """A connection, not yet open."""
        return PostgresConnection(self._spec.options, self._table, done="read")

    def rows_of(self, payload: Mapping[str, Any]) -> pa.Table:
        """The rows of a split, as its files have them, or as many as it says (`now`) of the table as it is."""
        if "copy" in payload:
            return super().rows_of(payload)
        return self.connected(lambda connection: self._now(connection, payload["now"]))

    def connected(self, what: Callable[[PostgresConnection], pa.Table]) -> pa.Table:
        """The rows that a connection gives, which is made again, and asked again, if it is lost."""
        connection = self.connection()

        def asked() -> pa.Table:
            connection.connect()
            return what(connection)

        try:
            return retried(asked, connection.location)
        finally:
            connection.close()

    def _now(self, connection: PostgresConnection, most: int | None) -> pa.Table:
        table = qualified(self._schema, self._table)
        there = look(connection, table)
        if there is None:
            raise DataError(f"there is no {connection.location}")
        check_columns(self._spec, there.columns, connection.location)
        types = types_of(self._columns, there.columns)
        names = ", ".join(quote_identifier(column.name) for column in self._columns)
        query = f"SELECT {names} FROM {table}{'' if most is None else f' LIMIT {most}'}"
        found = [
            table_of(fields_of(block, len(self._columns)), self._columns, types)
            for block in blocks(connection.copied(query))
        ]
        return pa.concat_tables([no_rows(self._columns), *found])


def no_rows(columns: Sequence[Column]) -> pa.Table:
    """A table of these columns without rows."""
    return pa.schema([(column.name, to_arrow(column.type)) for column in columns]).empty_table()
