"""Both halves of the `iceberg` sink, as the registry wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.iceberg.descriptor import DESCRIPTOR
from sqlstream.connectors.iceberg.library import pyiceberg
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream.connectors.lakehouse.spelling import spelled
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from sqlstream.connectors.api import SinkWriter
    from sqlstream.connectors.iceberg.sink.sink import IcebergSink


class IcebergSinkFactory:
    """Iceberg tables as sinks: with a PRIMARY KEY their rows are changed by it, without one rows are added."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> IcebergSink:
        """The driver's half. Raises DiagnosticError for a table that can't be written, or without the library."""
        wrong = DESCRIPTOR.wrong_sink(spec)
        if wrong is not None:
            raise DiagnosticError(wrong)
        pyiceberg(TablePlace.of(spec, context.base_dir))
        from sqlstream.connectors.iceberg.sink.appended import AppendedFiles
        from sqlstream.connectors.iceberg.sink.log import TableLog
        from sqlstream.connectors.iceberg.sink.merged import MergedChanges
        from sqlstream.connectors.iceberg.sink.sink import IcebergSink

        spec = spelled(spec)
        log = TableLog(spec, context)
        content = MergedChanges(spec, context, log) if spec.primary_key else AppendedFiles(spec, log)
        return IcebergSink(spec, context, log, content)

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> SinkWriter:
        """The task's half."""
        spec = spelled(spec)
        if spec.primary_key:
            from sqlstream.connectors.database.keyed_writer import KeyedWriter

            return KeyedWriter(spec, context)
        from sqlstream.connectors.iceberg.sink.writer import IcebergWriter

        return IcebergWriter(spec, context.base_dir)
