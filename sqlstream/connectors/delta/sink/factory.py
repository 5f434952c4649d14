"""Both halves of the `delta` sink, as the registry wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.delta.descriptor import DESCRIPTOR
from sqlstream.connectors.lakehouse.spelling import spelled
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from sqlstream.connectors.api import SinkWriter
    from sqlstream.connectors.delta.sink.sink import DeltaSink


class DeltaSinkFactory:
    """Delta tables as sinks: with a PRIMARY KEY their rows are changed by it, without one rows are added."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> DeltaSink:
        """The driver's half. Raises DiagnosticError for a table that can't be written, or without the library."""
        from sqlstream.connectors.delta.library import deltalake
        from sqlstream.connectors.delta.sink.appended import AppendedFiles
        from sqlstream.connectors.delta.sink.log import TableLog
        from sqlstream.connectors.delta.sink.merged import MergedChanges
        from sqlstream.connectors.delta.sink.sink import DeltaSink

        wrong = DESCRIPTOR.wrong_sink(spec)
        if wrong is not None:
            raise DiagnosticError(wrong)
        deltalake()
        spec = spelled(spec)
        log = TableLog(spec, context)
        content = MergedChanges(spec, context, log) if spec.primary_key else AppendedFiles(spec, log)
        return DeltaSink(spec, context, log, content)

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> SinkWriter:
        """The task's half."""
        spec = spelled(spec)
        if spec.primary_key:
            from sqlstream.connectors.database.keyed_writer import KeyedWriter

            return KeyedWriter(spec, context)
        from sqlstream.connectors.delta.sink.writer import DeltaWriter

        return DeltaWriter(spec, context.base_dir)
