"""Both halves of the sinks `duckdb` and `postgres`, as the registry wants them."""

from __future__ import annotations

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.database.duckdb_table import DuckTable
from sqlstream.connectors.database.keyed_writer import KeyedWriter
from sqlstream.connectors.database.postgres_table import PostgresTable
from sqlstream.connectors.exactly_once.sink import ExactlyOnceSink
from sqlstream_operators.plan.spec import SinkSpec


class DuckSinkFactory:
    """A table in a DuckDB file."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> ExactlyOnceSink:
        """The driver's half."""
        return ExactlyOnceSink(
            spec, context, DuckTable(spec, context.base_dir, left_columns=context.left_columns)
        )

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> KeyedWriter:
        """The task's half."""
        return KeyedWriter(spec, context)


class PostgresSinkFactory:
    """A table in a PostgreSQL database."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> ExactlyOnceSink:
        """The driver's half."""
        return ExactlyOnceSink(spec, context, PostgresTable(spec, left_columns=context.left_columns))

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> KeyedWriter:
        """The task's half."""
        return KeyedWriter(spec, context)
