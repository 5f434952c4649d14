"""DuckDB over Arrow: one session a worker process, in which fragments of SQL run over named relations."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from sqlstream_operators.duck import memory
from sqlstream_operators.errors import (
    DataError,
    InternalError,
    MachineError,
    MemoryExhaustedError,
    OperatorError,
    machine_trouble,
)
from sqlstream_operators.large_stack import on_large_stack
from sqlstream_operators.plan.epoch_values import arrival_settings, clock_settings, seed_settings
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import SqlType, quote_identifier, quote_literal, spelled

from .arrow_values import casts_of, for_arrow, normalize, restored, sql_type
from .prepared import NO_PROGRESS_BAR, PreparedQueries, Relation

#: What DuckDB raises where a disk refuses; a commit that can't be written is fatal to it.
_OF_DISKS = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException, duckdb.TransactionException)

#: How deep SQL may nest where it runs on the stack that is at hand, and on a large one.
_DEPTH = 200
_LARGE_DEPTH = 50_000

_SETTINGS = (
    "TimeZone = 'UTC'",
    "preserve_insertion_order = true",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "arrow_lossless_conversion = false",  # HUGEINT is decimal128(38, 0), not an opaque extension type
    "produce_arrow_string_view = false",
    "arrow_large_buffer_size = false",
    "arrow_output_list_view = false",
    "python_enable_replacements = false",  # a name in SQL must never find one of our Python variables
    f"max_expression_depth = {_DEPTH}",
)

#: What DuckDB raises; where it cuts its message in the middle of a character, Python can't read it.
DUCKDB_ERRORS = (duckdb.Error, UnicodeDecodeError)

T = TypeVar("T")


class DuckSession:
    """One DuckDB connection with one thread: rows keep their order, results depend on the input alone.

    `memory_limit` is in bytes (default: half of the machine's memory divided by its cores); beyond it DuckDB
    spills to `temp_directory`. Relations are named exactly as given (any characters), but as in DuckDB two
    names that differ only in case are one. `prepares`: queries over few rows are planned once, for who runs the same
    ones many times.
    """

    def __init__(
        self,
        *,
        memory_limit: int | None = None,
        temp_directory: str | None = None,
        prepares: bool = False,
    ) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        for setting in (*_SETTINGS, NO_PROGRESS_BAR):
            self._connection.execute(f"SET {setting}")
        self._limit = 0
        self.limit(memory_limit)
        self._spill: str | None = None
        self.spill_to(temp_directory)
        #: By names that differ in more than case, each behind those that it reads; those that the connection has.
        self._relations: dict[str, tuple[str, Relation]] = {}
        self._made: dict[str, tuple[str, Relation]] = {}
        self._prepared = PreparedQueries(_SETTINGS) if prepares else None
        self._broken = False

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection itself, for readers that need DuckDB's table functions.

        It has the relations of now. What is made on it is its maker's to drop: `reset` knows nothing of it.
        """
        self._make(dict(self._relations.values()))
        return self._connection

    def limit(self, memory_limit: int | None) -> None:
        """Let DuckDB use so many bytes from now on; None: the default."""
        wanted = memory_limit if memory_limit is not None else default_memory_limit()
        if wanted != self._limit:
            self._connection.execute(f"SET memory_limit = '{wanted}B'")
            self._limit = wanted

    def spill_to(self, directory: str | None) -> bool:
        """Put what memory has no room for into a folder from now on (None: where it goes now); False: it is too late."""
        if directory is not None and directory != self._spill:
            try:
                self._connection.execute("SET temp_directory = $1", [directory])
            except duckdb.Error:
                return False
            self._spill = directory
        return True

    @property
    def broken(self) -> bool:
        """Whether DuckDB gave up on this database, so that a new session is needed."""
        return self._broken

    def query(
        self,
        sql: str,
        tables: Mapping[str, pa.Table] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """Run one SELECT over `tables` (and what is registered) and return its rows in DuckDB's order.

        Values come as `to_arrow` of their types: enums as strings, times of day with an offset and bits as their text.
        Raises DataError when DuckDB refuses.
        """
        return self.query_typed(sql, tables, parameters)[0]

    def query_typed(
        self,
        sql: str,
        tables: Mapping[str, pa.Table] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> tuple[pa.Table, tuple[Column, ...]]:
        """As `query`, with the SQL types of the columns, which Arrow's do not always show."""

        def run() -> tuple[pa.Table, tuple[SqlType, ...]]:
            relation = self._select(sql, parameters)
            types = tuple(sql_type(str(type_)) for type_ in relation.types)
            listed = for_arrow(relation.columns, types)
            if listed is not None:
                relation = relation.project(listed)
            return normalize(relation.to_arrow_table()), types

        with self._with_tables(tables or {}):
            found = None
            if self._prepared is not None and not parameters:
                found = self._prepared.run(sql, self._read_by(sql))
            if found is None:
                try:
                    found = self.however_deep(run)
                except DUCKDB_ERRORS as error:
                    raise self.error(error, sql) from error
        table, types = found
        return table, tuple(
            Column(name, type_) for name, type_ in zip(table.column_names, types, strict=True)
        )

    def write_json(self, sql: str, target: Path, parameters: Mapping[str, Any] | None = None) -> int:
        """Write the rows of one SELECT to a local file, a JSON object a line, as they come; how many there are.

        Raises DataError when DuckDB refuses.
        """
        self._make(self._read_by(sql))
        copy = f"COPY (\n{sql}\n) TO {quote_literal(str(target))} (FORMAT json)"
        try:
            done = self.however_deep(
                lambda: self._connection.execute(copy, dict(parameters or {})).fetchone()
            )
        except DUCKDB_ERRORS as error:
            raise self.error(error, sql) from error
        if done is None:
            raise InternalError(f"COPY does not say how many rows it wrote: {sql}")
        return int(done[0])

    def register(self, name: str, table: pa.Table, schema: Sequence[Column] | None = None) -> None:
        """Make `table` queryable as `name`; `schema` restores types that Arrow loses (HUGEINT, JSON …)."""
        casts = {} if schema is None else casts_of(schema)
        if not casts:
            self._add(name, table)
            return
        hidden = _hidden(name)
        self._add(hidden, table)
        self.view(name, restored(hidden, table, casts))

    def source(self, name: str, table: pa.Table, schema: Sequence[Column]) -> str:
        """As `register`, but types are restored in what this returns, to stand after FROM: a view costs 1 ms."""
        self._add(name, table)
        casts = casts_of(schema)
        return f"({restored(name, table, casts)})" if casts else quote_identifier(name)

    def in_epoch(self, now_us: int, seed: str) -> None:
        """Let SQL read the clock of an epoch (µs) and the seed of its random numbers from now on."""
        self._connection.execute(clock_settings(now_us))
        self._connection.execute(seed_settings(seed))

    def arriving(self, arrival: int, ordinal: int) -> None:
        """Let SQL read the place of an epoch in the order of arrival, and that of a task in the epoch, from now on."""
        self._connection.execute(arrival_settings(arrival, ordinal))

    def view(self, name: str, sql: str) -> None:
        """Name the result of `sql` without computing it; it is computed in each query that reads it."""
        self._add(name, sql)

    def drop(self, name: str) -> None:
        """Forget a relation that `register` or `view` made; nothing happens if there is none of this name."""
        for key in (name.lower(), _hidden(name).lower()):
            self._relations.pop(key, None)
            made = self._made.pop(key, None)
            if made is None:
                continue
            if isinstance(made[1], str):
                self._connection.execute(f"DROP VIEW IF EXISTS {quote_identifier(made[0])}")
            else:
                self._connection.unregister(made[0])

    def reset(self) -> None:
        """Drop every relation that `register` and `view` made; to look for others in the catalog would cost 1.5 ms."""
        for name in sorted(name for name, _ in self._relations.values()):
            self.drop(name)

    def describe(
        self, sql: str, schemas: Mapping[str, Sequence[Column]] | None = None
    ) -> list[tuple[str, SqlType]]:
        """The columns that `sql` would give over relations of these schemas; runs nothing.

        Types that the plan does not know (UNION, GEOMETRY …) are UNKNOWN. Raises DataError when the SQL does not
        bind.
        """
        made = []
        try:
            for name, schema in (schemas or {}).items():
                columns = ", ".join(
                    f"CAST(NULL AS {spelled(c.type)}) AS {quote_identifier(c.name)}" for c in schema
                )
                self.view(name, f"SELECT {columns} WHERE false")
                made.append(name)
            try:
                described = self.however_deep(lambda: self._described(sql))
            except DUCKDB_ERRORS as error:
                raise self.error(error, sql) from error
        finally:
            for name in made:
                self.drop(name)
        return [(name, sql_type(text)) for name, text in described]

    def however_deep(self, run: Callable[[], T]) -> T:
        """Run SQL; again on a large stack if it nests too deeply for this one. `run` does nothing before that is known."""
        try:
            return run()
        except duckdb.Error as error:
            if "max_expression_depth" not in str(error):
                raise
        # To look for common parts takes DuckDB a time that is cubic in the depth.
        self._connection.execute(f"SET max_expression_depth = {_LARGE_DEPTH}")
        self._connection.execute("SET disabled_optimizers = 'common_subexpressions'")
        try:
            return on_large_stack(run)()
        finally:
            self._connection.execute("RESET disabled_optimizers")
            self._connection.execute(f"SET max_expression_depth = {_DEPTH}")

    def error(self, error: Exception, sql: str = "") -> OperatorError:
        """What to raise for a DuckDB error: a DataError, unless DuckDB itself failed, or ran out of memory or disk."""
        if isinstance(error, duckdb.OutOfMemoryException):
            message = " ".join(str(error).partition("Possible solutions")[0].split())
            return MemoryExhaustedError(
                f"DuckDB may use {self._limit >> 20} MiB of memory in a task: {message}"
            )
        fatal = isinstance(error, duckdb.FatalException | duckdb.InternalException)
        self._broken = self._broken or fatal
        if fatal and "call JSONCommon::ValidatePath first" in str(error):
            # DuckDB takes `*` for a mistake of its own, if it is a path that no constant is.
            return DataError("the JSON path `*` has a wildcard: that must be a constant", sql)
        trouble = machine_trouble(error) if isinstance(error, _OF_DISKS) else None
        if trouble is not None:
            return MachineError(trouble)
        if fatal:
            return InternalError(f"DuckDB failed: {error}\nin: {sql}")
        if isinstance(error, UnicodeDecodeError):
            return DataError(bytes(error.object).decode(errors="replace"), sql)
        return DataError(str(error), sql)

    def close(self) -> None:
        """Close the connection."""
        if self._prepared is not None:
            self._prepared.close()
        self._connection.close()

    def _described(self, sql: str) -> list[tuple[str, str]]:
        relation = self._select(sql, None)
        return list(zip(relation.columns, [str(t) for t in relation.types], strict=True))

    def _select(self, sql: str, parameters: Mapping[str, Any] | None) -> duckdb.DuckDBPyRelation:
        self._make(self._read_by(sql))
        relation = (
            self._connection.sql(sql, params=dict(parameters)) if parameters else self._connection.sql(sql)
        )
        if relation is None:
            raise InternalError(f"a fragment must be a SELECT: {sql}")
        return relation

    def _add(self, name: str, relation: Relation) -> None:
        self._relations.pop(name.lower(), None)
        self._relations[name.lower()] = (name, relation)

    def _read_by(self, sql: str) -> dict[str, Relation]:
        """The relations that SQL may read: their names stand in it, or in a view that it may read."""
        found: dict[str, Relation] = {}
        texts = [sql.lower()]
        for key, (name, relation) in reversed(self._relations.items()):
            spelled = quote_identifier(key)[1:-1]
            if any(spelled in text for text in texts):
                found[name] = relation
                if isinstance(relation, str):
                    texts.append(relation.lower())
        return dict(reversed(found.items()))

    def _make(self, relations: Mapping[str, Relation]) -> None:
        """Let the connection have these relations. Raises DataError for a view that can't be made."""
        for name, relation in relations.items():
            made = self._made.get(name.lower())
            if made is not None and made[1] is relation:
                continue
            if isinstance(relation, str):
                create = f"CREATE OR REPLACE TEMP VIEW {quote_identifier(name)} AS {relation}"
                try:
                    self.however_deep(functools.partial(self._connection.execute, create))
                except DUCKDB_ERRORS as error:
                    raise self.error(error, relation) from error
            else:
                self._connection.register(name, relation)
            self._made[name.lower()] = (name, relation)

    @contextmanager
    def _with_tables(self, tables: Mapping[str, pa.Table]) -> Iterator[None]:
        added = []
        try:
            for name, table in tables.items():
                self._add(name, table)
                added.append(name)
            yield
        finally:
            for name in added:
                self.drop(name)


def _hidden(name: str) -> str:
    return f"{name}\x01arrow"


_LEAST_MEMORY = 128 << 20

_worker: list[DuckSession] = []


def worker_session(memory_limit: int | None = None, spill: str | None = None) -> DuckSession:
    """The session of this process, empty, with a memory limit (bytes; None: the default), and where it spills to.

    It is kept between the tasks of a Python worker, because opening one costs more than a small epoch's
    query.
    """
    if _worker and (_worker[0].broken or not _worker[0].spill_to(spill)):
        _worker.pop().close()
    if not _worker:
        _worker.append(DuckSession(memory_limit=memory_limit, temp_directory=spill, prepares=True))
    _worker[0].reset()
    _worker[0].limit(memory_limit)
    return _worker[0]


@functools.cache
def default_memory_limit() -> int:
    """Bytes for DuckDB in one task: half of the memory of this process's machine or container, divided by its cores."""
    return max(_LEAST_MEMORY, memory.available() // 2 // (os.cpu_count() or 1))
