"""The task's half of a table: it refuses rows that the table can't have while it is known where they come from."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.database.changes import without_key
from sqlstream.connectors.exactly_once.staged import StagingWriter
from sqlstream_operators.plan.spec import WEIGHT_COLUMN, SinkSpec


class KeyedWriter(StagingWriter):
    """Stages rows of a table in a database."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        super().__init__(spec, context)
        self._spec = spec

    def check(self, table: pa.Table) -> None:
        """Raise RefusedRowError for a row without a key. Where rows go, too, that is left to the driver, who sees all."""
        if WEIGHT_COLUMN in table.column_names and pc.any(pc.less(table.column(WEIGHT_COLUMN), 0)).as_py():
            return
        for name in self._spec.primary_key:
            if table.column(name).null_count:
                raise without_key(self._spec, name)
