"""Both halves of a table in PostgreSQL that is read once: all its rows as they are when the first run begins.

They are copied into the state directory, of one snapshot, and epochs read the copy (`postgres_copies` says why).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from sqlstream.connectors.api import ConnectorContext, Limits, Position, Source, SourcePlan, Split
from sqlstream.connectors.capabilities import Acknowledging, Verifying
from sqlstream.connectors.database import postgres_copies as copies
from sqlstream.connectors.database.declared import split_table_name
from sqlstream.connectors.database.postgres_catalog import (
    ThereTable,
    check_columns,
    look,
    no_table,
    qualified,
    tables_there,
)
from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.database.postgres_reader import TableReader
from sqlstream.connectors.exactly_once.target import LostConnectionError, unusable
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: Where reading begins, before anything was looked at; and where it has ended.
_UNREAD: Position = {"begun": False}
_READ: Position = {"read": True}


def _names(spec: SourceSpec) -> tuple[str | None, str]:
    text = spec.options.get("table-name")
    return (None, spec.name) if text is None else split_table_name(text)


class PostgresSource(Source, Acknowledging, Verifying):
    """A table or view, read once. A position is a row of a file of the copy.

    Only the run itself makes a copy; who else looks is given the rows as they are.
    """

    def __init__(self, spec: SourceSpec, context: ConnectorContext) -> None:
        self._spec, self._context = spec, context
        schema, self._name = _names(spec)
        self._table = qualified(schema, self._name)
        self._folder = context.folder or f"sources/{quote(spec.name, safe='')}"
        self._copy: copies.Copy | None = None
        self._rows: int | None = None

    @property
    def bounded(self) -> bool:
        """It ends."""
        return True

    def initial_position(self) -> Position:
        """Where reading begins: nothing is copied, or looked at, before the first plan of a run."""
        return _UNREAD

    def lag(self, position: Position) -> int | None:
        """The rows that are left, once the table is copied."""
        if position == _READ:
            return 0
        if self._copy is None:
            return None
        before = sum(rows for rows, _ in self._copy.files[: position.get("file", 0)])
        return self._copy.rows - before - int(position.get("row", 0))

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next rows. Raises DiagnosticError: DAT004 and DAT018 for a table that is not as declared, DAT015, ENV006."""
        if position == _READ or "seen" in position:
            return SourcePlan((), position, exhausted=True, final=position == _READ)
        if not self._context.runs:
            with self._connected() as (_, _there):
                payload: Mapping[str, Any] = {"now": limits.rows}
            return SourcePlan((Split(self._spec.name, payload),), {**position, "seen": True}, exhausted=True)
        copy = self._copy_at(position)
        splits, file, row = copies.next_splits(
            self._spec.name, copy, position.get("file", 0), position.get("row", 0), limits
        )
        ended = file == len(copy.files)
        following: Position = _READ if ended else {"copy": copy.id, "file": file, "row": row}
        return SourcePlan(splits, following, ended, final=ended)

    def can_replay(self, splits: Sequence[Split]) -> bool:
        """Whether the copy is there."""
        return all(copies.is_there(self._context.store, split.payload) for split in splits)

    def committed(self, position: Position) -> None:
        """Delete the copy once it was read."""
        if position == _READ:
            copies.remove_all(self._context.store, self._folder)

    def _copy_at(self, position: Position) -> copies.Copy:
        """The copy that a position is in; made, if it is the beginning."""
        if position == _UNREAD:
            if self._copy is None:
                self._copy = self._made()
            return self._copy
        if self._copy is None or self._copy.id != position["copy"]:
            self._copy = copies.copy_of(self._context.store, position["copy"])
        if self._copy is None:
            raise DiagnosticError(
                Diagnostic(
                    "DAT015",
                    f"rows of `{self._spec.name}` are gone before they were read",
                    notes=("the copy of the table as it was is not in the state directory",),
                    help="begin anew, with a new state directory",
                ),
                exit_code=4,
            )
        return self._copy

    def _made(self) -> copies.Copy:
        """Copy the table, over several connections that share a snapshot."""
        with self._connected() as (connection, there):
            connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            ((snapshot,),) = connection.run("SELECT pg_export_snapshot()")
            return copies.make_copy(
                self._context.store,
                self._folder,
                self._table,
                there,
                self._spec.physical,
                str(snapshot),
                self._connection,
            )

    def _connection(self) -> PostgresConnection:
        return PostgresConnection(self._spec.options, self._name, done="read")

    @contextmanager
    def _connected(self) -> Iterator[tuple[PostgresConnection, ThereTable]]:
        """A connection, and the table as it is. Raises DiagnosticError."""
        connection = self._connection()
        try:
            connection.connect()
            there = look(connection, self._table)
            if there is None:
                raise no_table(self._spec, connection.location, tables_there(connection), self._name)
            check_columns(self._spec, there.columns, connection.location)
            yield connection, there
        except LostConnectionError as error:
            raise unusable(connection.location, str(error), done="read") from None
        finally:
            connection.close()


class PostgresSourceFactory:
    """Tables in PostgreSQL as sources."""

    def place_of(self, position: Position) -> str:
        """The row of the copy; see `Placing`."""
        if position in (_UNREAD, _READ):
            return "the beginning" if position == _UNREAD else "the end"
        return f"the table as it was, file {position['file']:,}, row {position['row']:,}"

    def source(self, spec: SourceSpec, context: ConnectorContext) -> PostgresSource:
        """The driver's half."""
        return PostgresSource(spec, context)

    def reader(self, spec: SourceSpec, base_dir: str) -> TableReader:
        """The task's half."""
        return TableReader(spec, *_names(spec))

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> TableReader:
        """The task's half for whole rows."""
        return TableReader(spec, *_names(spec))
