"""Both halves of the sinks `duckdb` and `postgres`, as the registry wants them."""

from __future__ import annotations

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.database.duckdb_table import DuckTable
from sqlstream.connectors.database.postgres_table import PostgresTable
from sqlstream.connectors.database.sink import TableSink, TableWriter
from sqlstream_operators.plan.spec import SinkSpec


class DuckSinkFactory:
    """A table in a DuckDB file."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> TableSink:
        """The driver's half."""
        return TableSink(spec, context, DuckTable(spec, context.base_dir))

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> TableWriter:
        """The task's half."""
        return TableWriter()


class PostgresSinkFactory:
    """A table in a PostgreSQL database."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> TableSink:
        """The driver's half."""
        return TableSink(spec, context, PostgresTable(spec))

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> TableWriter:
        """The task's half."""
        return TableWriter()
