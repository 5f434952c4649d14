"""Rows that are added: an epoch is the files that its tasks have written, and its commit names them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.delta.library import deltalake
from sqlstream.connectors.delta.sink.log import TableLog
from sqlstream.connectors.delta.sink.shape import altered_schema
from sqlstream.connectors.delta.sink.writer import File, files_of
from sqlstream.connectors.lakehouse.waiting import WaitingEpoch
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable


class AppendedFiles:
    """The files of an epoch."""

    merges = False
    owns_all_rows = False

    def __init__(self, spec: SinkSpec, log: TableLog) -> None:
        self._spec, self._log = spec, log
        self._partitions = list(spec.partitioned_by) or None
        self._files: list[File] = []

    def has_rows(self, parts: Sequence[SinkPart]) -> bool:
        """Whether there are any."""
        return any(True for _ in files_of(parts))

    def load(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Take their names."""
        self._files = [*files_of(parts)]

    def noted(self, epoch: int, parts: Sequence[SinkPart], store: CheckpointStore, folder: str) -> Any:
        """Their names."""
        return [*files_of(parts)]

    def load_noted(self, notes: Sequence[Any]) -> None:
        """Take the names of all."""
        self._files = [tuple(file) for note in notes for file in note]

    def commits(self, waiting: Sequence[WaitingEpoch]) -> Iterator[Sequence[WaitingEpoch]]:
        """All are one."""
        if waiting:
            yield waiting

    def write(self, table: DeltaTable, epoch: int) -> bool:
        """Add them to the table."""
        self._commit(table, "append", None, self._log.with_epoch(epoch, rebased=True))
        return True

    def replace(self, table: DeltaTable, epoch: int) -> None:
        """Let them be all files of the table."""
        schema = altered_schema(self._spec, table)
        self._commit(table, "overwrite", schema, self._log.with_epoch(epoch, rebased=False))

    def unload(self) -> None:
        """Forget their names."""
        self._files = []

    def close(self) -> None:
        """Nothing is held."""

    def _commit(
        self, table: DeltaTable, mode: str, schema: pa.Schema | None, commit: CommitProperties
    ) -> None:
        from deltalake.transaction import AddAction, RemoveAction

        now_ms = int(time.time() * 1000)
        added: list[AddAction | RemoveAction] = [
            AddAction(name, size, values, now_ms, True, statistics)
            for name, size, values, statistics in self._files
        ]
        columns = table.schema() if schema is None else deltalake().Schema.from_arrow(schema)
        table.create_write_transaction(added, mode, columns, self._partitions, commit_properties=commit)
