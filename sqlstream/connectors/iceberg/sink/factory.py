"""Both halves of the `iceberg` sink, as the registry wants them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.iceberg.descriptor import DESCRIPTOR
from sqlstream.connectors.iceberg.library import pyiceberg
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from sqlstream.connectors.iceberg.sink.sink import IcebergSink
    from sqlstream.connectors.iceberg.sink.writer import IcebergWriter


class IcebergSinkFactory:
    """Iceberg tables as sinks, to which rows are added."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> IcebergSink:
        """The driver's half. Raises DiagnosticError for a table that can't be written, or without the library."""
        wrong = DESCRIPTOR.wrong_sink(spec)
        if wrong is not None:
            raise DiagnosticError(wrong)
        pyiceberg(TablePlace.of(spec, context.base_dir))
        from sqlstream.connectors.iceberg.sink.sink import IcebergSink

        return IcebergSink(_spelled(spec), context)

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> IcebergWriter:
        """The task's half."""
        from sqlstream.connectors.iceberg.sink.writer import IcebergWriter

        return IcebergWriter(_spelled(spec), context.base_dir)


def _spelled(spec: SinkSpec) -> SinkSpec:
    """The same with the names of partition columns as the columns have them: Iceberg tells cases apart."""
    names = {column.name.lower(): column.name for column in spec.schema}
    return replace(spec, partitioned_by=tuple(names[name.lower()] for name in spec.partitioned_by))
