"""A table in a DuckDB file.

The file is open from `open` to `commit` or `release` only, so that others can read it between epochs. Sinks of one
process that write to the same file share one DuckDB (`DuckFile`), and have a transaction each. Rows come as streams of
Arrow batches that DuckDB pulls; what must be put together first is a temporary table, which it spills to disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb

from sqlstream.connectors.database import duckdb_shape
from sqlstream.connectors.database.changes import (
    CHANGE_COLUMN,
    Counts,
    Mode,
    consolidate,
    memory_bytes,
    restored,
)
from sqlstream.connectors.database.declared import EPOCHS_TABLE, NO_DUCKDB_KEY, wrong_path
from sqlstream.connectors.database.duckdb_file import DuckFile
from sqlstream.connectors.database.names import (
    keyless,
    not_there,
    shape_error,
)
from sqlstream.connectors.database.published import PublishedCopy
from sqlstream.connectors.database.statements import columns_of
from sqlstream.connectors.database.table import DatabaseTable
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream.connectors.exactly_once.target import Record, held, unusable
from sqlstream.connectors.options import bad_option
from sqlstream_operators.errors import DataError, InternalError, MemoryExhaustedError
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import UNKNOWN, SqlType, parse_type, quote_identifier

#: How long to wait for another process to let go of the file, and seconds between two looks.
PATIENCE_S = 15.0
_LOOK_S = 0.1
#: Three blocks of headers: what is shorter is no database.
_SMALLEST = 3 * 4096
#: What a file system without hard links says when one is asked for.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
#: Who DuckDB says has a file.
_HOLDER = re.compile(r"Conflicting lock is held in (.+?) \(PID (\d+)\)")
_CHANGES = "sqlstream_changes"
_ROWS = "sqlstream_rows"


def holder_in(message: str) -> str:
    """Who has a file open, by what DuckDB says.

    >>> holder_in("Could not set lock: Conflicting lock is held in /usr/bin/duckdb (PID 12). However, …"), holder_in("?")
    ('process 12 (/usr/bin/duckdb)', 'another process')
    """
    found = _HOLDER.search(message)
    return "another process" if found is None else f"process {found[2]} ({found[1]})"


class DuckTable(DatabaseTable):
    """The table of a `duckdb` sink."""

    _changes = f"temp.{_CHANGES}"

    def __init__(
        self,
        spec: SinkSpec,
        base_dir: str,
        *,
        left_columns: Sequence[str] = (),
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(spec, left_columns)
        self._path = database_file(spec.options, base_dir)
        self._published = PublishedCopy.of(spec.options, self._path, base_dir)
        self._patience_s = patience_s
        self._clock = clock
        self._wait = wait
        self._file = DuckFile(self._path)
        names = [column.name.lower() for column in spec.schema]
        if self._mode is Mode.MULTISET and "rowid" in names:
            raise DataError(
                f"table {spec.name}: a DuckDB table without a PRIMARY KEY can't have a column `rowid`: "
                f"rename it, or declare a PRIMARY KEY"
            )
        for column in spec.schema:
            if column.name in spec.primary_key and column.type.kind in NO_DUCKDB_KEY:
                raise DataError(
                    f"table {spec.name}: DuckDB has no PRIMARY KEY over a column of type {column.type} "
                    f"({column.name}): CAST it to VARCHAR, or choose another key"
                )

    @property
    def may_be_committed_often(self) -> bool:
        """Others can open the file only between two transactions."""
        return False

    @property
    def location(self) -> str:
        """The table and its file."""
        return f"table {self._name} in '{self._path}'"

    # ----------------------------------------------------------------------------------- transactions

    def open(self, *, create: bool) -> bool:
        """Open the file and begin a transaction; False if there is no file and `create` is not asked for."""
        self.release()
        if not self._path.exists():
            if not create:
                return False
            self._path.parent.mkdir(parents=True, exist_ok=True)
        elif self._published is not None and self._published.is_behind():
            self._connect()  # waits for whoever has the file
            self.release()
            self._published.publish()  # a run that was killed has committed, and made no copy
        self._connect()
        self._run("BEGIN")
        if self._schema is None:
            self._schema = str(self._run("SELECT current_schema()").fetchall()[0][0])
        return True

    def commit(self) -> None:
        """Commit the transaction and close the file."""
        self._run("COMMIT")
        self.release()
        if self._published is not None:
            self._published.publish()

    def release(self) -> None:
        """Close the file; a transaction that is open is rolled back."""
        self._file.release()

    def close(self) -> None:
        """The same, for good."""
        self._file.close()

    def _connect(self) -> None:
        until = self._clock() + self._patience_s
        while True:
            try:
                if not self._path.exists():
                    self._make()
                self._file.open()
            except duckdb.Error as error:
                locked = "lock on file" in str(error) or "file handle conflict" in str(error)
                if not locked:
                    raise unusable(self.location, str(error), self._unreadable()) from None
                if self._clock() >= until:
                    raise held(
                        self.location,
                        holder_in(str(error)),
                        "close it there, also where it only reads; the run goes on, or the next one does. To read beside a "
                        "run: 'sink.publish-path', sqlstream state query, or connections that are closed at once",
                    ) from None
            else:
                return
            self._wait(_LOOK_S)

    def _unreadable(self) -> str | None:
        """What helps if the file was never finished, which no later run could mend."""
        try:
            size = self._path.stat().st_size
        except OSError:
            return None
        if size >= _SMALLEST:
            return None
        return (
            f"the file has {size} bytes and was never finished, so no table is in it: delete it (rm '{self._path}') "
            "and run again"
        )

    def _make(self) -> None:
        """Make an empty database under another name and give it its own: DuckDB can't open one that is half made."""
        scratch = self._path.with_name(f".{self._path.name}.new-{uuid4().hex}")
        try:
            with contextlib.closing(DuckFile(scratch)) as made:
                made.open()
            os.link(scratch, self._path)
        except FileExistsError:
            pass  # someone else was first
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise unusable(self.location, str(error)) from None
            scratch.rename(self._path)
        finally:
            scratch.unlink(missing_ok=True)

    def _run(self, sql: str, parameters: Sequence[Any] | None = None) -> duckdb.DuckDBPyConnection:
        connection = self._open_connection()
        try:
            return connection.execute(sql, parameters)
        except (duckdb.ConversionException, duckdb.ConstraintException, duckdb.OutOfRangeException) as error:
            raise DataError(f"{self.location} can't take a row: {error}", sql) from error
        except duckdb.OutOfMemoryException as error:
            message = str(error).partition("\n")[0]  # without its advice on settings
            raise MemoryExhaustedError(
                f"DuckDB may use {memory_bytes() >> 20} MiB of memory to write {self.location}: {message}"
            ) from error
        except duckdb.Error as error:
            raise unusable(self.location, str(error)) from error

    def _open_connection(self) -> duckdb.DuckDBPyConnection:
        if self._file.connection is None:
            raise InternalError(f"{self.location} is not open")
        return self._file.connection

    def _rows_of(self, sql: str) -> list[tuple[Any, ...]]:
        return list(self._run(sql).fetchall())

    def _changed(self, sql: str) -> int:
        return int(self._rows_of(sql)[0][0])

    # ---------------------------------------------------------------------------------------- tables

    def _is_table(self, name: str) -> bool:
        # DuckDB's own lists, views only where it is no table: information_schema takes three times as long.
        return any(
            self._run(
                f"SELECT 1 FROM duckdb_{kind}s() WHERE database_name = current_database() "
                f"AND lower(schema_name) = lower($1) AND lower({kind}_name) = lower($2)",
                [self._schema, name],
            ).fetchall()
            for kind in ("table", "view")
        )

    def record(self, *, lock: bool) -> Record | None:
        """What EPOCHS_TABLE says of the table; the file itself is locked."""
        if not self._is_table(EPOCHS_TABLE):
            return None
        found = self._run(
            f"SELECT job, sink, epoch FROM {self._epochs} WHERE lower(table_name) = lower($1)", [self._name]
        ).fetchall()
        return Record(*found[0]) if found else None

    def check_shape(self) -> None:
        """Raises DataError if the table has other columns, or no key where the sink declares one."""
        rows = self._run(
            "SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns() "
            "WHERE database_name = current_database() AND lower(schema_name) = lower($1) "
            "AND lower(table_name) = lower($2) ORDER BY column_index",
            [self._schema, self._name],
        ).fetchall()
        there = {str(name).lower(): _type(str(type_)) for name, type_, _, _ in rows}
        wanted = {column.name.lower(): column.type for column in self._spec.schema}
        needless = {
            str(name).lower() for name, _, nullable, default in rows if nullable or default is not None
        }
        missing = [name for name in wanted if there.get(name) != wanted[name]]
        extra = [name for name in there if name not in wanted and name not in needless]
        if missing or extra:
            raise shape_error(
                self.location,
                self._spec,
                [f"{name} {type_}" for name, type_, _, _ in rows],
                [f"{column.name} {column.type}" for column in self._spec.schema],
            )
        if self._spec.primary_key:
            key = sorted(name.lower() for name in self._spec.primary_key)
            keys = self._run(
                "SELECT constraint_column_names FROM duckdb_constraints() WHERE database_name = "
                "current_database() AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2) "
                "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')",
                [self._schema, self._name],
            ).fetchall()
            if key not in [sorted(str(name).lower() for name in names) for (names,) in keys]:
                raise keyless(self.location, self._spec)

    def create_record_store(self) -> None:
        """Create EPOCHS_TABLE if it is not there."""
        if not self._is_table(EPOCHS_TABLE):
            self._run(
                f"CREATE TABLE {self._epochs} (table_name VARCHAR PRIMARY KEY, sink VARCHAR NOT NULL, "
                f"job VARCHAR NOT NULL, epoch BIGINT NOT NULL)"
            )

    def _column_type(self, type_: SqlType) -> str:
        return str(type_)

    def reshape(self, *, keep_rows: bool) -> None:
        """Give the table the columns, types and key of the sink. Raises DataError for what can't be done exactly."""
        duckdb_shape.reshape(
            lambda sql, parameters: self._run(sql, parameters).fetchall(),
            self._spec,
            self._schema or "",
            self._name,
            self.location,
            keep_rows=keep_rows,
        )

    def write_record(self, record: Record, *, over: Record | None) -> bool:
        """Write the row of EPOCHS_TABLE, if what is there is still `over`."""
        given = [self._name, record.sink, record.job, record.epoch]
        if over is None:
            written = self._run(
                f"INSERT INTO {self._epochs} (table_name, sink, job, epoch) VALUES (lower($1), $2, $3, $4) "
                f"ON CONFLICT (table_name) DO NOTHING RETURNING epoch",
                given,
            )
        else:
            written = self._run(
                f"UPDATE {self._epochs} SET sink = $2, job = $3, epoch = $4 WHERE lower(table_name) = lower($1) "
                f"AND sink = $5 AND job = $6 AND epoch = $7 RETURNING epoch",
                [*given, over.sink, over.job, over.epoch],
            )
        return len(written.fetchall()) == 1

    # --------------------------------------------------------------------------------------- changes

    def _with(self, rows: StagedEpoch, work: Callable[[str], None]) -> None:
        connection = self._open_connection()
        connection.register(_ROWS, rows.reader())
        try:
            work(restored(_ROWS, rows.columns))
        except Exception:
            rows.check()
            raise
        finally:
            with contextlib.suppress(duckdb.Error):  # after an error the transaction takes nothing more
                connection.unregister(_ROWS)

    def _append(self, rows: StagedEpoch) -> None:
        listed = columns_of(self._names)

        def insert(source: str) -> None:
            self._run(f"INSERT INTO {self._table} ({listed}) SELECT {listed} FROM {source}")

        self._with(rows, insert)

    def _staged(self, rows: StagedEpoch, work: Callable[[Counts], None]) -> None:
        def consolidated(source: str) -> None:
            work(consolidate(self._rows_of, self._spec, source, self._changes))
            self._run(f"DROP TABLE {self._changes}")

        self._with(rows, consolidated)

    def _has_columns(self, names: Sequence[str]) -> list[str]:
        found = self._run(
            "SELECT column_name FROM duckdb_columns() WHERE database_name = current_database() "
            "AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2)",
            [self._schema, self._name],
        ).fetchall()
        there = {str(name).lower() for (name,) in found}
        return [name for name in names if name.lower() in there]

    def _unexpected(self, made: int, expected: int) -> InternalError:
        return InternalError(f"{self.location}: {made} rows changed instead of {expected}")

    def _insert_copies(self) -> None:
        listed = columns_of(self._names)
        self._run(
            f"INSERT INTO {self._table} ({listed}) SELECT {listed} FROM "
            f"(SELECT {listed}, unnest(range({CHANGE_COLUMN})) FROM {self._changes} WHERE {CHANGE_COLUMN} > 0)"
        )

    def _delete_copies(self, *, expected: int) -> None:
        names = self._names
        goes, rows = f"temp.{_CHANGES}_goes", f"temp.{_CHANGES}_rows"
        self._run(
            f"CREATE OR REPLACE TEMP TABLE {_CHANGES}_goes AS SELECT {columns_of(names)}, "
            f"-{CHANGE_COLUMN} AS __sq_goes, row_number() OVER () AS __sq_number "
            f"FROM {self._changes} WHERE {CHANGE_COLUMN} < 0"
        )
        same = " AND ".join(
            f"t.{quote_identifier(n)} IS NOT DISTINCT FROM d.{quote_identifier(n)}" for n in names
        )
        self._run(
            f"CREATE OR REPLACE TEMP TABLE {_CHANGES}_rows AS SELECT __sq_row, __sq_number FROM ("
            f"SELECT t.rowid AS __sq_row, d.__sq_number, d.__sq_goes, row_number() OVER (PARTITION BY d.__sq_number "
            f"ORDER BY t.rowid) AS __sq_copy FROM {self._table} AS t JOIN {goes} AS d ON {same}) "
            f"WHERE __sq_copy <= __sq_goes"
        )
        if self._run(f"SELECT count(*) FROM {rows}").fetchall()[0][0] != expected:
            texts = ", ".join(f"CAST({quote_identifier(name)} AS VARCHAR)" for name in names)
            row = self._run(
                f"SELECT {texts} FROM {goes} AS d WHERE __sq_goes > "
                f"(SELECT count(*) FROM {rows} AS r WHERE r.__sq_number = d.__sq_number) LIMIT 1"
            ).fetchall()[0]
            raise not_there(self.location, self._spec, row)
        deleted = self._changed(f"DELETE FROM {self._table} WHERE rowid IN (SELECT __sq_row FROM {rows})")
        if deleted != expected:
            raise InternalError(f"{self.location}: {deleted} rows were deleted instead of {expected}")
        self._run(f"DROP TABLE {goes}")
        self._run(f"DROP TABLE {rows}")


def _type(text: str) -> SqlType:
    """A type of DuckDB's catalog; UNKNOWN if it is none that a sink can have."""
    try:
        return parse_type(text)
    except ValueError:
        return UNKNOWN


def database_file(options: Mapping[str, str], base_dir: str) -> Path:
    """The file that `path` names. Raises DiagnosticError (OPT003) if it is not a local one."""
    path = options.get("path", "")
    wrong = wrong_path(path)
    if wrong is not None:
        raise bad_option("path", path, wrong)
    return Path(base_dir) / path.removeprefix("file://")
