"""The changes of an epoch, one for each key, in a DuckDB that spills to disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from sqlstream.connectors.database.changes import (
    CHANGE_COLUMN,
    consolidate,
    restored,
    short,
)
from sqlstream.connectors.database.spilling import SpillingDuck
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.arrow_values import for_arrow
from sqlstream_operators.errors import InternalError, RefusedRowError
from sqlstream_operators.plan.spec import Column, SinkSpec
from sqlstream_operators.plan.types import BIGINT, Kind, quote_identifier, quote_literal
from sqlstream_operators.state.staged_rows import BATCH_ROWS

_ROWS, _CHANGES = "sqlstream_rows", "temp.sqlstream_changes"
_EPOCH = "__sq_epoch"
#: What is loaded if it is several epochs.
_SEVERAL = -1
#: Keys whose range lets files be passed over: of others the log's bounds may be cut off, or have no order that is ours.
_INTEGERS = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT})
_TIMES = {Kind.TIMESTAMP: "None", Kind.TIMESTAMPTZ: 'Some("UTC")'}
#: A date or time that Delta's library reads.
_READABLE = re.compile(r"(?!0000)\d{4}-\d\d-\d\d( .*)?")
_NOT_TEXTS = frozenset(
    {Kind.BOOLEAN, *_INTEGERS, Kind.HUGEINT, Kind.DECIMAL, Kind.DATE, *_TIMES, Kind.FLOAT, Kind.DOUBLE}
)
#: How long a folder's name may be: 255 bytes on most disks, of which Delta's library takes a few.
_LONGEST = 240


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

        Raises RefusedRowError if a key has two rows or is NULL, or if a row has no partition; MemoryExhaustedError.
        """
        if self._epoch == epoch:
            return
        self.unload()
        connection = self._duck.session.connection
        connection.register(_ROWS, rows.reader())
        try:
            counts = consolidate(self._duck.run, self._spec, restored(_ROWS, rows.columns), _CHANGES)
        except Exception:
            rows.check()
            raise
        finally:
            connection.unregister(_ROWS)
        self._check_partitions()
        self._epoch, self.count = epoch, counts.go + counts.change + counts.come

    def load_last(self, epochs: Sequence[Iterator[pa.RecordBatch]]) -> None:
        """Put the changes of several epochs together, as `reader` gave them: the last one of each key."""
        self.unload()
        schema = pa.schema([*self._schema(), pa.field(_EPOCH, pa.int64())])
        rows = pa.RecordBatchReader.from_batches(schema, _numbered(epochs, schema))
        connection = self._duck.session.connection
        connection.register(_ROWS, rows)
        key = ", ".join(quote_identifier(name) for name in self._spec.primary_key)
        columns = [*self._spec.schema, Column(CHANGE_COLUMN, BIGINT), Column(_EPOCH, BIGINT)]
        try:
            self._duck.run(
                f"CREATE OR REPLACE TEMP TABLE {_CHANGES} AS SELECT * EXCLUDE ({_EPOCH}) FROM "
                f"{restored(_ROWS, columns)} QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {_EPOCH} DESC) = 1"
            )
        finally:
            connection.unregister(_ROWS)
        ((self.count,),) = self._duck.run(f"SELECT count(*) FROM {_CHANGES}")
        self._epoch = _SEVERAL

    def unload(self) -> None:
        """Forget the epoch."""
        if self._duck.is_open:
            self._duck.run(f"DROP TABLE IF EXISTS {_CHANGES}")
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

    def bounds(self) -> Iterator[tuple[str, str, str]]:
        """Columns of the key, and SQL of Delta's library for a value that none is below, and one that none is above."""
        kinds = {column.name: column.type.kind for column in self._spec.schema}
        for name in self._spec.primary_key:
            kind, column = kinds[name], quote_identifier(name)
            if kind in _INTEGERS:
                ((least, greatest),) = self._duck.run(f"SELECT min({column}), max({column}) FROM {_CHANGES}")
                yield name, str(least), str(greatest)
            elif kind is Kind.DATE or kind in _TIMES:
                yield from self._of_days(name, kind)

    def _of_days(self, name: str, kind: Kind) -> Iterator[tuple[str, str, str]]:
        column = quote_identifier(name)
        value = f"{column} AT TIME ZONE 'UTC'" if kind is Kind.TIMESTAMPTZ else column
        # Some writers cut the log's times to ms.
        slack = "INTERVAL 0 DAY" if kind is Kind.DATE else "INTERVAL 1 MILLISECOND"
        form = "%Y-%m-%d" if kind is Kind.DATE else "%Y-%m-%d %H:%M:%S.%f"
        finite = f"FROM (SELECT min({value}) AS l, max({value}) AS g FROM {_CHANGES}) WHERE isfinite(l) AND isfinite(g)"
        found = self._duck.run(
            f"SELECT strftime(l - {slack}, '{form}'), strftime(g + {slack}, '{form}') {finite} "
            "AND year(l) BETWEEN 2 AND 9998 AND year(g) BETWEEN 2 AND 9998"
        )
        for least, greatest in found:
            if not (_READABLE.fullmatch(least) and _READABLE.fullmatch(greatest)):
                raise InternalError(f"a time is written {least} or {greatest}")
            if kind is Kind.DATE:
                yield name, f"CAST('{least}' AS DATE)", f"CAST('{greatest}' AS DATE)"
            else:
                type_ = f"Timestamp(Microsecond, {_TIMES[kind]})"
                yield name, f"arrow_cast('{least}', '{type_}')", f"arrow_cast('{greatest}', '{type_}')"

    def _schema(self) -> pa.Schema:
        return pa.schema([*self._columns(), pa.field(CHANGE_COLUMN, pa.int64())])

    def _columns(self) -> list[pa.Field]:
        return [pa.field(column.name, to_arrow(column.type)) for column in self._spec.schema]

    def _batches(self, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
        if self._epoch is None:
            raise InternalError("no epoch is loaded")
        own = [c for c in self._spec.schema if c.name in schema.names]
        items = for_arrow([c.name for c in own], [c.type for c in own]) or ", ".join(
            quote_identifier(c.name) for c in own
        )
        changes = f", {CHANGE_COLUMN}" if CHANGE_COLUMN in schema.names else ""
        made = self._duck.session.connection.sql(f"SELECT {items}{changes} FROM {_CHANGES} {where}")
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

    def _check_partitions(self) -> None:
        """Raises RefusedRowError for a text that Delta's library can't make a partition of."""
        kinds = {column.name: column.type.kind for column in self._spec.schema}
        for name in self._spec.partitioned_by:
            if kinds[name] in _NOT_TEXTS:
                continue
            column, come = quote_identifier(name), f"FROM {_CHANGES} WHERE {CHANGE_COLUMN} >= 0"
            if self._duck.run(f"SELECT 1 {come} AND CAST({column} AS VARCHAR) = '' LIMIT 1"):
                raise RefusedRowError(
                    f"a partition value of `{self._spec.name}` is an empty text, which a Delta table can't tell from NULL",
                    f"write NULLIF({name}, ''), or leave the column out of PARTITIONED BY",
                )
            size = (
                f"length(url_encode({quote_literal(name)})) + length(url_encode(CAST({column} AS VARCHAR)))"
            )
            long = self._duck.run(f"SELECT CAST({column} AS VARCHAR) {come} AND {size} > {_LONGEST} LIMIT 1")
            if long:
                raise RefusedRowError(
                    f"a partition value of `{self._spec.name}` is too long for the name of a folder: {short(long[0][0])}",
                    f"shorten {name}, or leave the column out of PARTITIONED BY",
                )


def _numbered(epochs: Sequence[Iterator[pa.RecordBatch]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of all epochs, with a column that says in which order they were."""
    for number, batches in enumerate(epochs):
        for batch in batches:
            order = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, order], names=schema.names).cast(schema)
