"""The driver's half of an Iceberg table: an epoch is a snapshot that has its number.

It is in the snapshot's summary and in a property of the table, by the same commit. Of two drivers that commit one epoch at
once the catalog refuses the second.

The table is there before tasks write to it, with all columns: their ids are in the files. So it is created, or altered, when
it is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException

from sqlstream.connectors.api import ConnectorContext, TargetEdit
from sqlstream.connectors.iceberg.sink.appended import AppendedFiles
from sqlstream.connectors.iceberg.sink.compaction import IcebergCompaction
from sqlstream.connectors.iceberg.sink.log import TableLog
from sqlstream.connectors.iceberg.sink.merged import MergedChanges
from sqlstream.connectors.iceberg.sink.shape import check_shape
from sqlstream.connectors.iceberg.sink.writer import never_null
from sqlstream.connectors.lakehouse.compaction import compacted_bytes
from sqlstream.connectors.lakehouse.sink import LakeSink
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table


class IcebergSink(LakeSink["Table"]):
    """Gives an Iceberg table an epoch's rows."""

    def __init__(
        self, spec: SinkSpec, context: ConnectorContext, log: TableLog, content: AppendedFiles | MergedChanges
    ) -> None:
        file_bytes = compacted_bytes(spec.options)
        compaction = (
            None if file_bytes is None else IcebergCompaction(spec.name, log, file_bytes, context.tell)
        )
        super().__init__(spec, context, log, content, refused=CommitFailedException, compaction=compaction)
        self._iceberg, self._kind = log, content

    def _has_rows(self, table: Table) -> bool:
        return any(True for _ in table.scan().plan_files())

    def _check_shape(self, table: Table) -> None:
        given = self._iceberg.given.columns()
        check_shape(self._spec, table, self._log.place, edit=self._edit, given=given)

    def _remove(self) -> tuple[str, str]:
        return (
            "drop it, or choose another 'catalog-table'",
            "choose another 'catalog-table'; or delete its rows, or drop it",
        )

    def _make_ready(self, table: Table | None) -> None:
        if table is None:
            self._iceberg.create()
        elif self._edit is TargetEdit.ALTER or self._edit is TargetEdit.REPLACE:
            self._iceberg.alter(table)
        if isinstance(self._kind, MergedChanges):
            self._kind.may_have_no_null(never_null(table) if table is not None else ())

    def _set_up(self) -> None:
        if self._content.owns_all_rows:
            self._iceberg.claim()
