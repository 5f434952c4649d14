"""An epoch's rows between its tasks and the target: staged by `StagingWriter`, read back by `StagedEpoch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.spec import WEIGHT_COLUMN, Column, SinkSpec
from sqlstream_operators.plan.types import BIGINT
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.staged_rows import (
    BATCH_BYTES,
    BATCH_ROWS,
    FOLDER,
    INLINE_BYTES,
    StagedRows,
    batches,
    stage,
)


class StagingWriter:
    """The task's half of a sink: keeps the rows in the checkpoint store, where nobody but the driver looks."""

    def __init__(
        self, spec: SinkSpec, context: ConnectorContext, *, inline_bytes: int = INLINE_BYTES
    ) -> None:
        self._store = context.store
        self._folder = staging_folder(spec.name)
        self._inline_bytes = inline_bytes

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Stage the rows; durable when this returns."""
        folder = f"{self._folder}/{epoch:06d}"
        staged = stage(self._store, folder, task, table, inline_bytes=self._inline_bytes)
        return SinkPart(table.num_rows, staged=staged)


def staging_folder(sink: str) -> str:
    """Where the rows of a sink are staged, a folder per epoch.

    >>> staging_folder("a/b"), staging_folder("..")
    ('staged/sinks/a%2Fb', 'staged/sinks/%2E%2E')
    """
    return f"{FOLDER}/sinks/{quote(sink, safe='').replace('.', '%2E')}"


class StagedEpoch:
    """All rows that an epoch has for a sink, to be read once or several times, never all at once.

    Its columns are the sink's, and WEIGHT_COLUMN where rows are updating. Parts are in no particular order: one may take
    back what another gives.
    """

    def __init__(self, store: CheckpointStore, spec: SinkSpec, parts: Sequence[SinkPart]) -> None:
        self._store, self._spec = store, spec
        self._staged = tuple(_staged(part, spec) for part in parts if part.rows)
        weight = [Column(WEIGHT_COLUMN, BIGINT)] if spec.changelog == "retract" else []
        self.columns: tuple[Column, ...] = (*spec.schema, *weight)
        self.rows = sum(one.rows for one in self._staged)
        self._failure: Exception | None = None
        self._read_rows = self._read_bytes = 0

    @property
    def parts(self) -> int:
        """How many tasks have given rows."""
        return len(self._staged)

    def shares(self, count: int) -> list[StagedEpoch]:
        """The same rows in so many epochs, a task's rows in one of them in their order; by the order of the parts alone."""
        rows = [0] * count
        staged: list[list[StagedRows]] = [[] for _ in range(count)]
        for part in self._staged:
            lightest = rows.index(min(rows))
            rows[lightest] += part.rows
            staged[lightest].append(part)
        return [self._of(share) for share in staged]

    @property
    def batch_rows(self) -> int:
        """How many rows have about `staged_rows.BATCH_BYTES`, by those that were read: for batches made of them."""
        mean = self._read_bytes // max(self._read_rows, 1)
        return min(max(BATCH_BYTES // max(mean, 1), 1), BATCH_ROWS)

    def reader(self) -> pa.RecordBatchReader:
        """The rows from the beginning, in batches of at most `staged_rows.BATCH_ROWS` rows, read when they are asked for.

        What it raises inside another library can be lost there: call `check` when that has failed.
        """
        schema = pa.schema([(column.name, to_arrow(column.type)) for column in self.columns])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def check(self) -> None:
        """Raise what went wrong while a reader was read, such as StateError for a file that is gone."""
        if self._failure is not None:
            raise self._failure

    def _of(self, staged: Sequence[StagedRows]) -> StagedEpoch:
        return StagedEpoch(self._store, self._spec, [SinkPart(one.rows, staged=one) for one in staged])

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        self._failure = None
        try:
            for batch in batches(self._store, self._staged):
                self._read_rows += batch.num_rows
                self._read_bytes += batch.nbytes
                yield _conformed(batch, schema)
        except Exception as error:
            self._failure = error
            raise


def _staged(part: SinkPart, spec: SinkSpec) -> StagedRows:
    if part.staged is None or part.staged.rows != part.rows:
        raise InternalError(f"the rows of a task for sink {spec.name} were not staged")
    return part.staged


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with these columns; what an edit takes back of a former result has NULL in a column that it adds."""
    if batch.schema.equals(schema):
        return batch
    missing = [name for name in schema.names if name not in batch.schema.names]
    if missing and not _only_go(batch):
        raise InternalError(f"staged rows have no columns {missing}, only {batch.schema.names}")
    for name in missing:
        batch = batch.append_column(name, pa.nulls(batch.num_rows, schema.field(name).type))
    return batch.select(schema.names).cast(schema)


def _only_go(batch: pa.RecordBatch) -> bool:
    """Whether each row is taken back."""
    if WEIGHT_COLUMN not in batch.schema.names:
        return False
    highest = pc.max(batch.column(WEIGHT_COLUMN)).as_py()
    return highest is None or highest < 0
