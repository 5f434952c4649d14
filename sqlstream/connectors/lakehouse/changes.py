"""The changes of an epoch, one for each key, in a DuckDB that spills to disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sqlstream.connectors.database.changes import CHANGE_COLUMN, consolidate, restored
from sqlstream.connectors.database.spilling import SpillingDuck
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.arrow_values import for_arrow
from sqlstream_operators.duck.session import DUCKDB_ERRORS, DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.spec import Column, SinkSpec
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_operators.state.staged_rows import BATCH_ROWS

_ROWS = "sqlstream_rows"
#: The table with the changes.
CHANGES = "temp.sqlstream_changes"
_EPOCH = "__sq_epoch"
#: What is loaded if it is several epochs.
_SEVERAL = -1


class Changes:
    """What an epoch does to each key: CHANGE_COLUMN is negative for one that goes; see `database.changes`.

    `count` is how many keys it changes.
    """

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec
        self._duck = SpillingDuck()
        self._epoch: int | None = None
        self.count = 0

    def load(self, epoch: int, rows: StagedEpoch) -> None:
        """Put the rows of an epoch together, if that isn't done.

        Raises RefusedRowError if a key has two rows or is NULL; MemoryExhaustedError.
        """
        if self._epoch == epoch:
            return
        self.unload()
        connection = self._duck.session.connection
        connection.register(_ROWS, rows.reader())
        try:
            counts = consolidate(self.run, self._spec, restored(_ROWS, rows.columns), CHANGES)
        except Exception:
            rows.check()
            raise
        finally:
            connection.unregister(_ROWS)
        self._epoch, self.count = epoch, counts.go + counts.change + counts.come

    def load_last(self, epochs: Sequence[Iterator[pa.RecordBatch]]) -> None:
        """Put the changes of several epochs together, as `reader` gave them: the last one of each key."""
        self.unload()
        schema = pa.schema([*self._schema(), pa.field(_EPOCH, pa.int64())])
        numbered = _Numbered(epochs, schema)
        rows = pa.RecordBatchReader.from_batches(schema, numbered.batches())
        connection = self._duck.session.connection
        connection.register(_ROWS, rows)
        key = ", ".join(quote_identifier(name) for name in self._spec.primary_key)
        columns = [*self._spec.schema, Column(CHANGE_COLUMN, BIGINT), Column(_EPOCH, BIGINT)]
        try:
            self.run(
                f"CREATE OR REPLACE TEMP TABLE {CHANGES} AS SELECT * EXCLUDE ({_EPOCH}) FROM "
                f"{restored(_ROWS, columns)} QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {_EPOCH} DESC) = 1"
            )
        except Exception:
            numbered.check()
            raise
        finally:
            connection.unregister(_ROWS)
        ((self.count,),) = self.run(f"SELECT count(*) FROM {CHANGES}")
        self._epoch = _SEVERAL

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query over `CHANGES`, or what else is there."""
        return self._duck.run(sql)

    def arrow(self, sql: str) -> pa.Table:
        """The same as Arrow."""
        session = self._duck.session
        try:
            found: pa.Table = session.connection.sql(sql).to_arrow_table()
        except DUCKDB_ERRORS as error:
            raise session.error(error, sql) from error
        return found

    @property
    def session(self) -> DuckSession:
        """The DuckDB that has them."""
        return self._duck.session

    def unload(self) -> None:
        """Forget the epoch."""
        if self._duck.is_open:
            self.run(f"DROP TABLE IF EXISTS {CHANGES}")
        self._epoch = None

    def close(self) -> None:
        """Close DuckDB, and remove what it has spilled."""
        self._duck.close()
        self._epoch = None

    def reader(self) -> pa.RecordBatchReader:
        """All changes, with CHANGE_COLUMN."""
        schema = self._schema()
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema, ""))

    def rows(self, schema: pa.Schema) -> pa.RecordBatchReader:
        """The rows that come, with the columns of a table; those that the sink has not are NULL."""
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema, f"WHERE {CHANGE_COLUMN} >= 0"))

    def _schema(self) -> pa.Schema:
        return pa.schema([*self.columns(), pa.field(CHANGE_COLUMN, pa.int64())])

    def columns(self) -> list[pa.Field]:
        """The columns that they have, without CHANGE_COLUMN."""
        return [pa.field(column.name, to_arrow(column.type)) for column in self._spec.schema]

    def _batches(self, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
        if self._epoch is None:
            raise InternalError("no epoch is loaded")
        own = [c for c in self._spec.schema if c.name in schema.names]
        items = for_arrow([c.name for c in own], [c.type for c in own]) or ", ".join(
            quote_identifier(c.name) for c in own
        )
        changes = f", {CHANGE_COLUMN}" if CHANGE_COLUMN in schema.names else ""
        made = self._duck.session.connection.sql(f"SELECT {items}{changes} FROM {CHANGES} {where}")
        for batch in made.to_arrow_reader(BATCH_ROWS):
            given = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
            yield pa.RecordBatch.from_arrays(
                [
                    given[field.name].cast(field.type)
                    if field.name in given
                    else pa.nulls(batch.num_rows, field.type)
                    for field in schema
                ],
                schema=schema,
            )


class _Numbered:
    """The batches of several epochs, with a column that says in which order those were."""

    def __init__(self, epochs: Sequence[Iterator[pa.RecordBatch]], schema: pa.Schema) -> None:
        self._epochs, self._schema = epochs, schema
        self._failure: Exception | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All, as they are asked for."""
        try:
            for number, batches in enumerate(self._epochs):
                for batch in batches:
                    order = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
                    made = pa.RecordBatch.from_arrays([*batch.columns, order], names=self._schema.names)
                    yield made.cast(self._schema)
        except Exception as error:
            self._failure = error
            raise

    def check(self) -> None:
        """Raise what went wrong inside, which DuckDB makes an error of its own."""
        if self._failure is not None:
            raise self._failure
