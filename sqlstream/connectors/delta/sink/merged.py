"""Rows that are changed by key: an epoch is one MERGE, which rewrites the files that hold its keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.database.changes import CHANGE_COLUMN, Mode
from sqlstream.connectors.delta.library import deltalake
from sqlstream.connectors.delta.sink.changes import Changes
from sqlstream.connectors.delta.sink.shape import arrow_schema
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream.connectors.filesystem.written_files import FILE_BYTES
from sqlstream.connectors.options import size_bytes
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.staged_rows import StagedRows, batches, stage

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_GOES = f"s.{CHANGE_COLUMN} < 0"
_STAYS = f"s.{CHANGE_COLUMN} >= 0"


class MergedChanges:
    """The changes of an epoch, one for each key, staged by tasks in the checkpoint store.

    A key that is there already is written over, and one that should go and is not there is left out: so the same epoch twice
    is the same table, should it come to that.
    """

    merges = True

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._spec = spec
        self._store = context.store
        self._changes = Changes(spec)
        self._file_bytes = size_bytes(spec.options, "sink.rolling-policy.file-size", FILE_BYTES)

    @property
    def owns_all_rows(self) -> bool:
        """Whether rows go; rows that are only written over may stand beside those of others."""
        return Mode.of(self._spec) is Mode.KEYED

    def has_rows(self, parts: Sequence[SinkPart]) -> bool:
        """Whether there are any."""
        return any(part.rows for part in parts)

    def load(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Put them together. Raises RefusedRowError for a key that is NULL or has two rows."""
        self._changes.load(epoch, StagedEpoch(self._store, self._spec, parts))

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

    def write(self, table: DeltaTable, commit: CommitProperties) -> bool:
        """Merge them into the table. Whether that was a commit: a merge that changes nothing is none."""
        if not self._changes.count:
            return False
        before = table.version()
        names = [column.name for column in self._spec.schema]
        merger = table.merge(
            self._changes.reader(),
            self._matching(),
            source_alias="s",
            target_alias="t",
            commit_properties=commit,
        ).when_matched_delete(_GOES)
        values = _assigned([name for name in names if name not in self._spec.primary_key])
        if values:
            merger = merger.when_matched_update(values, _STAYS)
        _carried_out(merger.when_not_matched_insert(_assigned(names), _STAYS).execute)
        return table.version() > before

    def replace(self, table: DeltaTable, schema: pa.Schema | None, commit: CommitProperties) -> None:
        """Write them as the table's only files."""
        columns = arrow_schema(table) if schema is None else schema
        rows = self._changes.rows(columns)
        partitions = list(self._spec.partitioned_by) or None
        # A table whose columns stay keeps what is said of them.
        mode = None if schema is None else "overwrite"

        def overwrite() -> None:
            deltalake().write_deltalake(
                table,
                rows,
                partition_by=partitions,
                mode="overwrite",
                schema_mode=mode,
                target_file_size=self._file_bytes,
                commit_properties=commit,
            )

        _carried_out(overwrite)

    def unload(self) -> None:
        """Forget them."""
        self._changes.unload()

    def close(self) -> None:
        """Close the DuckDB that puts them together."""
        self._changes.close()

    def _matching(self) -> str:
        """The condition of the merge: equal keys, and the range of those that change, by which files are passed over."""
        equal = [f"t.{quote_identifier(k)} = s.{quote_identifier(k)}" for k in self._spec.primary_key]
        ranges = [
            f"t.{quote_identifier(name)} >= {least} AND t.{quote_identifier(name)} <= {greatest}"
            for name, least, greatest in self._changes.bounds()
        ]
        return " AND ".join([*equal, *ranges])


def _assigned(names: Sequence[str]) -> dict[str, str]:
    return {quote_identifier(name): f"s.{quote_identifier(name)}" for name in names}


def _carried_out(work: Callable[[], object]) -> None:
    """Do it; what Delta's library says as a plain Exception (of the engine below it) is an error of its own."""
    try:
        work()
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise deltalake().exceptions.DeltaError(str(error)) from error
