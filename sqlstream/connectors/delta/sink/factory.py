"""Both halves of the `delta` sink, as the registry wants them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.delta.descriptor import DESCRIPTOR
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
        from sqlstream.connectors.delta.sink.merged import MergedChanges
        from sqlstream.connectors.delta.sink.sink import DeltaSink

        wrong = DESCRIPTOR.wrong_sink(spec)
        if wrong is not None:
            raise DiagnosticError(wrong)
        deltalake()
        spec = _spelled(spec)
        content = MergedChanges(spec, context) if spec.primary_key else AppendedFiles(spec)
        return DeltaSink(spec, context, content)

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> SinkWriter:
        """The task's half."""
        spec = _spelled(spec)
        if spec.primary_key:
            from sqlstream.connectors.database.keyed_writer import KeyedWriter

            return KeyedWriter(spec, context)
        from sqlstream.connectors.delta.sink.writer import DeltaWriter

        return DeltaWriter(spec, context.base_dir)


def _spelled(spec: SinkSpec) -> SinkSpec:
    """The same with the names of columns in its key and partitions as the columns have them: Delta tells cases apart."""
    names = {column.name.lower(): column.name for column in spec.schema}
    return replace(
        spec,
        primary_key=tuple(names[name.lower()] for name in spec.primary_key),
        partitioned_by=tuple(names[name.lower()] for name in spec.partitioned_by),
    )
