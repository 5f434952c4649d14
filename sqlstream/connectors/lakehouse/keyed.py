"""Rows that are changed by key: an epoch is one change for each key, and its commit a merge of them into the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.database.changes import Mode
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream.connectors.filesystem.written_files import FILE_BYTES
from sqlstream.connectors.lakehouse.changes import Changes
from sqlstream.connectors.lakehouse.times import check_times, has_times
from sqlstream.connectors.lakehouse.waiting import WaitingEpoch
from sqlstream.connectors.options import size_bytes
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.staged_rows import StagedRows, batches, stage


class KeyedContent:
    """The changes of an epoch, staged by tasks in the checkpoint store; how they are merged is the table's kind.

    A key that is there already is written over, and one that should go and is not there is left out: so the same epoch twice
    is the same table, should it come to that.
    """

    merges = True

    def __init__(self, spec: SinkSpec, context: ConnectorContext, changes: Changes) -> None:
        self._spec = spec
        self._store = context.store
        self._changes = changes
        self._file_bytes = size_bytes(spec.options, "sink.rolling-policy.file-size", FILE_BYTES)

    @property
    def owns_all_rows(self) -> bool:
        """Whether rows go; rows that are only written over may stand beside those of others."""
        return Mode.of(self._spec) is Mode.KEYED

    def has_rows(self, parts: Sequence[SinkPart]) -> bool:
        """Whether there are any."""
        return any(part.rows for part in parts)

    def load(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Put them together.

        Raises RefusedRowError for a key that is NULL or has two rows, DataError for a time that the table can't have.
        """
        self._changes.load(epoch, StagedEpoch(self._store, self._spec, parts))
        timed = [column for column in self._changes.columns() if has_times(column.type)]
        if timed:
            for batch in self._changes.rows(pa.schema(timed)):
                check_times(self._spec.name, batch)

    def noted(self, epoch: int, parts: Sequence[SinkPart], store: CheckpointStore, folder: str) -> Any:
        """The changes, one for each key, staged once more: what tasks have staged goes with its manifest."""
        self.load(epoch, parts)
        numbered = enumerate(self._changes.reader())
        staged = [stage(store, folder, f"{n:06d}", pa.Table.from_batches([batch])) for n, batch in numbered]
        return [one.to_json() for one in staged]

    def load_noted(self, notes: Sequence[Any]) -> None:
        """Put them together: of a key the last epoch's change is what counts."""
        staged = [[StagedRows.from_json(one) for one in note] for note in notes]
        self._changes.load_last([batches(self._store, epoch) for epoch in staged])

    def commits(self, waiting: Sequence[WaitingEpoch]) -> Iterator[Sequence[WaitingEpoch]]:
        """All are one."""
        if waiting:
            yield waiting

    def unload(self) -> None:
        """Forget them."""
        self._changes.unload()

    def close(self) -> None:
        """Close the DuckDB that puts them together."""
        self._changes.close()
