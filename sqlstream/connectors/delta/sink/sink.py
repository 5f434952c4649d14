"""The driver's half: an epoch is one commit of the table's log, with the epoch as the version of an application.

That is `txn` in Delta's protocol. Of two drivers that commit one epoch at once Delta refuses the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.delta.library import deltalake, place_and_options
from sqlstream.connectors.delta.sink.compaction import DeltaCompaction
from sqlstream.connectors.delta.sink.log import TableLog
from sqlstream.connectors.delta.sink.shape import check_shape, missing_columns, wanted_columns
from sqlstream.connectors.lakehouse.compaction import compacted_bytes
from sqlstream.connectors.lakehouse.content import Content
from sqlstream.connectors.lakehouse.sink import LakeSink
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable


class DeltaSink(LakeSink["DeltaTable"]):
    """Gives a Delta table an epoch's rows."""

    def __init__(
        self, spec: SinkSpec, context: ConnectorContext, log: TableLog, content: Content[DeltaTable]
    ) -> None:
        file_bytes = compacted_bytes(spec.options)
        compaction = (
            None if file_bytes is None else DeltaCompaction(spec.name, log.location, file_bytes, context.tell)
        )
        super().__init__(
            spec,
            context,
            log,
            content,
            refused=deltalake().exceptions.CommitFailedError,
            compaction=compaction,
        )
        self._delta = log

    def _has_rows(self, table: DeltaTable) -> bool:
        return bool(table.file_uris())

    def _check_shape(self, table: DeltaTable) -> None:
        given = self._delta.columns_given()
        check_shape(
            self._spec, table, self._log.place, edit=self._edit, merges=self._content.merges, given=given
        )

    def _remove(self) -> tuple[str, str]:
        return (
            "delete its folder, or choose another 'table-path'",
            "choose another 'table-path'; or delete its rows, or its folder",
        )

    def _set_up(self) -> None:
        place, options = place_and_options(self._delta.location)
        deltalake().DeltaTable.create(
            place,
            pa.schema([*wanted_columns(self._spec).items()]),
            mode="ignore",
            partition_by=list(self._spec.partitioned_by) or None,
            storage_options=options,
        )
        if self._content.owns_all_rows:
            self._delta.claim()

    def _alter(self, table: DeltaTable) -> None:
        new = missing_columns(self._spec, table)
        if new:
            # A commit before the epoch's: columns that are NULL everywhere harm nobody, and are not added twice.
            table.alter.add_columns(list(deltalake().Schema.from_arrow(pa.schema(new)).fields))
