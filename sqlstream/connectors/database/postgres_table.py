"""A table in a PostgreSQL database.

Appended rows are copied to the table as they are read. Changes are consolidated by DuckDB, which spills to disk, then copied
to a temporary table of the connection and applied by a few statements over all of them. That table has the types of the
target's columns, so both compare alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sqlstream.connectors.database import postgres_shape
from sqlstream.connectors.database.changes import (
    CHANGE_COLUMN,
    Counts,
    consolidate,
    restored,
)
from sqlstream.connectors.database.declared import EPOCHS_TABLE, LONGEST_NAME
from sqlstream.connectors.database.names import (
    keyless,
    not_there,
    shape_error,
)
from sqlstream.connectors.database.postgres_binary import Field, encoded, field_of
from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.database.postgres_types import holds, postgres_type
from sqlstream.connectors.database.spilling import SpillingDuck
from sqlstream.connectors.database.statements import columns_of
from sqlstream.connectors.database.table import DatabaseTable
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream.connectors.exactly_once.target import Record, unusable
from sqlstream.connectors.options import bad_option
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InternalError
from sqlstream_operators.plan.spec import Column, SinkSpec
from sqlstream_operators.plan.types import BIGINT, SqlType, quote_identifier

_CHANGES = "pg_temp.sqlstream_changes"
_ROWS, _CONSOLIDATED = "sqlstream_rows", "temp.sqlstream_changes"


class PostgresTable(DatabaseTable):
    """The table of a `postgres` sink."""

    _changes = _CHANGES

    def __init__(self, spec: SinkSpec, *, left_columns: Sequence[str] = ()) -> None:
        super().__init__(spec, left_columns)
        for name in (self._name, *(column.name for column in spec.schema)):
            if len(name.encode()) > LONGEST_NAME:
                raise bad_option("table-name", name, f"names of at most {LONGEST_NAME} bytes in PostgreSQL")
        self._connection = PostgresConnection(spec.options, self._name)
        self._duck = SpillingDuck()

    @property
    def may_be_committed_often(self) -> bool:
        """A server takes hundreds of transactions per second, beside its readers."""
        return True

    @property
    def location(self) -> str:
        """The table and its database."""
        return self._connection.location

    # ----------------------------------------------------------------------------------- transactions

    def open(self, *, create: bool) -> bool:
        """Connect, if that is needed, and begin a transaction. A database is never created."""
        self.release()
        self._connection.connect()
        # What another driver committed while this one waited for a lock must be seen.
        self._connection.run("BEGIN ISOLATION LEVEL READ COMMITTED")
        if self._schema is None:
            found = self._connection.run("SELECT current_schema()")[0][0]
            if found is None:
                raise unusable(
                    self.location, "its search_path names no schema", "write 'table-name' as schema.table"
                )
            self._schema = str(found)
        return True

    def commit(self) -> None:
        """Commit the transaction; the connection stays."""
        done = self._connection.status("COMMIT")
        if done != "COMMIT":
            raise InternalError(f"{self.location}: the server did a {done} instead of a COMMIT")

    def release(self) -> None:
        """Roll back the transaction, if there is one."""
        self._connection.roll_back()

    def close(self) -> None:
        """Roll back, and close the connection."""
        self._connection.close()
        self._duck.close()

    # ---------------------------------------------------------------------------------------- tables

    def _is_table(self, name: str) -> bool:
        found = self._connection.run(
            "SELECT c.relkind::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
            [self._schema, name],
        )
        if found and found[0][0] != "r":
            raise unusable(self.location, f"{name} is no ordinary table", "choose another 'table-name'")
        return bool(found)

    def record(self, *, lock: bool) -> Record | None:
        """What EPOCHS_TABLE says of the table.

        A table that is new has no row there to be locked: with `lock` it is claimed by its name before anything is read.
        """
        if lock:
            self._connection.run(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                [f"sqlstream {self._schema!r} {self._name!r}"],
            )
        if not self._is_table(EPOCHS_TABLE):
            return None
        found = self._connection.run(
            f"SELECT job, sink, epoch FROM {_percent(self._epochs)} WHERE table_name = %s"
            f"{' FOR UPDATE' if lock else ''}",
            [self._name],
        )
        return Record(*found[0]) if found else None

    def check_shape(self) -> None:
        """Raises DataError if the table has other columns, or no key where the sink declares one."""
        rows = self._connection.run(
            "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), "
            "a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' FROM pg_catalog.pg_attribute a "
            "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [self._table],
        )
        there = {str(name): str(type_) for name, type_, _ in rows}
        names = {column.name for column in self._spec.schema}
        fits = all(c.name in there and holds(there[c.name], c.type) for c in self._spec.schema)
        if not fits or any(needed and name not in names for name, _, needed in rows):
            raise shape_error(
                self.location,
                self._spec,
                [f"{name} {type_}" for name, type_ in there.items()],
                [f"{column.name} {postgres_type(column.type)}" for column in self._spec.schema],
            )
        if self._spec.primary_key:
            keys = self._connection.run(
                "SELECT array_agg(a.attname::text ORDER BY a.attname::text) FROM pg_catalog.pg_index i "
                "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid "
                "AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) "
                "WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indimmediate AND i.indisvalid "
                "AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid",
                [self._table],
            )
            if sorted(self._spec.primary_key) not in [sorted(key) for (key,) in keys]:
                raise keyless(self.location, self._spec)

    def create_record_store(self) -> None:
        """Create EPOCHS_TABLE if it is not there."""
        if not self._is_table(EPOCHS_TABLE):
            # Two sinks may find it missing at the same time; the second waits here and then finds it.
            self._connection.run("SELECT pg_advisory_xact_lock(hashtext('sqlstream_epochs'))")
            self._connection.run(
                f"CREATE TABLE IF NOT EXISTS {self._epochs} (table_name text PRIMARY KEY, sink text NOT NULL, "
                f"job text NOT NULL, epoch bigint NOT NULL)"
            )

    def _column_type(self, type_: SqlType) -> str:
        return postgres_type(type_)

    def reshape(self, *, keep_rows: bool) -> None:
        """Give the table the columns, types and key of the sink. Raises DataError for what can't be done exactly."""
        postgres_shape.reshape(
            self._connection.run, self._spec, self._table, self.location, keep_rows=keep_rows
        )

    def write_record(self, record: Record, *, over: Record | None) -> bool:
        """Write the row of EPOCHS_TABLE, if what is there is still `over`."""
        epochs = _percent(self._epochs)
        if over is None:
            written = self._connection.run(
                f"INSERT INTO {epochs} (table_name, sink, job, epoch) VALUES (%s, %s, %s, %s) "
                f"ON CONFLICT (table_name) DO NOTHING RETURNING epoch",
                [self._name, record.sink, record.job, record.epoch],
            )
        else:
            written = self._connection.run(
                f"UPDATE {epochs} SET sink = %s, job = %s, epoch = %s "
                f"WHERE table_name = %s AND sink = %s AND job = %s AND epoch = %s RETURNING epoch",
                [record.sink, record.job, record.epoch, self._name, over.sink, over.job, over.epoch],
            )
        return len(written) == 1

    # --------------------------------------------------------------------------------------- changes

    def _rows_of(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.run(sql)

    def _changed(self, sql: str) -> int:
        return self._connection.changed(sql)

    def _with(self, rows: StagedEpoch, work: Callable[[DuckSession, StagedEpoch], None]) -> None:
        try:
            work(self._duck.session, rows)
        except Exception:
            rows.check()
            raise
        # What is checked at the end of a transaction is checked while the epoch can still be given up.
        self._connection.run("SET CONSTRAINTS ALL IMMEDIATE")

    def _append(self, rows: StagedEpoch) -> None:
        self._with(rows, self._copy)

    def _copy(self, duck: DuckSession, rows: StagedEpoch) -> None:
        fields = self._fields(self._table, self._spec.schema)
        columns = ", ".join(field.sql for field in fields)

        def blocks() -> Iterator[memoryview]:
            for batch in rows.reader():
                duck.register(_ROWS, pa.Table.from_batches([batch]), rows.columns)
                try:
                    made = duck.query(f"SELECT {columns} FROM {_ROWS}").combine_chunks().to_batches()
                finally:
                    duck.drop(_ROWS)
                yield from (encoded(one, fields) for one in made)

        self._connection.copy(self._table, [field.name for field in fields], blocks())

    def _staged(self, rows: StagedEpoch, work: Callable[[Counts], None]) -> None:
        self._with(rows, lambda duck, staged: work(self._stage(duck, staged)))

    def _insert_copies(self) -> None:
        self._connection.run(
            f"INSERT INTO {self._table} ({columns_of(self._names)}) SELECT {columns_of(self._names, 'd')} "
            f"FROM {_CHANGES} d CROSS JOIN LATERAL generate_series(1, d.{CHANGE_COLUMN}) "
            f"WHERE d.{CHANGE_COLUMN} > 0"
        )

    def _stage(self, duck: DuckSession, rows: StagedEpoch) -> Counts:
        """Consolidate the rows and copy them to the connection's temporary table."""
        connection, run = duck.connection, self._duck.run
        connection.register(_ROWS, rows.reader())
        try:
            counts = consolidate(run, self._spec, restored(_ROWS, rows.columns), _CONSOLIDATED)
        finally:
            connection.unregister(_ROWS)
        if self._connection.run(f"SELECT to_regclass('{_CHANGES}')") == [(None,)]:
            self._connection.run(
                f"CREATE TEMP TABLE sqlstream_changes ON COMMIT DELETE ROWS AS "
                f"SELECT {columns_of(self._names)}, 0::bigint AS {CHANGE_COLUMN} "
                f"FROM {self._table} LIMIT 0"
            )
        fields = self._fields(_CHANGES, (*self._spec.schema, Column(CHANGE_COLUMN, BIGINT)))
        made = connection.sql(f"SELECT {', '.join(field.sql for field in fields)} FROM {_CONSOLIDATED}")
        blocks = (encoded(batch, fields) for batch in made.to_arrow_reader(rows.batch_rows))
        self._connection.copy(_CHANGES, [field.name for field in fields], blocks)
        run(f"DROP TABLE {_CONSOLIDATED}")
        self._connection.run(f"ANALYZE {_CHANGES}")
        return counts

    def _fields(self, table: str, columns: Sequence[Column]) -> list[Field]:
        """How the columns are written to a table, by the types that it has."""
        there = self._types(table)
        return [field_of(column, there[column.name]) for column in columns]

    def _types(self, table: str) -> dict[str, str]:
        """The types of a table's columns by their names."""
        found = self._connection.run(
            "SELECT attname::text, pg_catalog.format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute "
            "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
            [table],
        )
        return {str(name): str(type_) for name, type_ in found}

    def _has_columns(self, names: Sequence[str]) -> list[str]:
        there = self._types(self._table)
        return [name for name in names if name in there]

    def _delete_copies(self, *, expected: int) -> None:
        """Delete as many copies of each row as go. Raises DataError naming a row that has fewer.

        A join on IS NOT DISTINCT FROM would compare every row with every other; hashes of whole rows let
        PostgreSQL join by hash, and NULLs are equal in them.
        """
        names = self._names
        rows = columns_of(names, "t")
        same = " AND ".join(
            f"t.{quote_identifier(n)} IS NOT DISTINCT FROM d.{quote_identifier(n)}" for n in names
        )
        goes = (
            f"SELECT {columns_of(names)}, -sum({CHANGE_COLUMN}) AS __sq_goes, "
            f"hash_record_extended(ROW({columns_of(names)}), 0) AS __sq_hash "
            f"FROM {_CHANGES} WHERE {CHANGE_COLUMN} < 0 GROUP BY {columns_of(names)}"
        )
        numbered = f"SELECT *, row_number() OVER () AS __sq_number FROM ({goes}) g"
        found = (
            f"SELECT t.ctid AS __sq_row, d.__sq_number, d.__sq_goes, "
            f"row_number() OVER (PARTITION BY d.__sq_number) AS __sq_copy "
            f"FROM {self._table} AS t JOIN goes AS d "
            f"ON hash_record_extended(ROW({rows}), 0) = d.__sq_hash AND {same}"
        )
        both = f"WITH goes AS MATERIALIZED ({numbered}), found AS MATERIALIZED ({found}) "
        self._connection.run("SAVEPOINT copies")
        deleted = self._connection.changed(
            f"{both}DELETE FROM {self._table} AS t "
            f"WHERE t.ctid = ANY (ARRAY(SELECT __sq_row FROM found WHERE __sq_copy <= __sq_goes))"
        )
        if deleted == expected:
            return
        self._connection.run("ROLLBACK TO SAVEPOINT copies")
        texts = ", ".join(f"CAST(d.{quote_identifier(name)} AS text)" for name in names)
        missing = self._connection.run(
            f"{both}SELECT {texts} FROM goes AS d WHERE __sq_goes > "
            f"(SELECT count(*) FROM found AS f WHERE f.__sq_number = d.__sq_number) LIMIT 1"
        )
        if not missing:
            raise self._unexpected(deleted, expected)
        raise not_there(self.location, self._spec, missing[0])

    def _unexpected(self, made: int, expected: int) -> DataError:
        return DataError(
            f"{self.location}: {made} rows changed instead of {expected}: a trigger or a rule of the "
            f"table keeps rows back, or someone else changes it at the same time"
        )


def _percent(sql: str) -> str:
    """Quoted names in SQL that has parameters, where the client takes % for one."""
    return sql.replace("%", "%%")
