"""What the tables of both databases are: their names, their rows of epochs, and how changes are applied by key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from sqlstream.connectors.database.changes import Counts, Mode
from sqlstream.connectors.database.declared import EPOCHS_TABLE
from sqlstream.connectors.database.names import WORDING, key_error, table_name
from sqlstream.connectors.database.statements import KeyedStatements, columns_of
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream.connectors.exactly_once.target import TableEdits, Wording
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import SqlType, quote_identifier


class DatabaseTable(ABC):
    """The table of a sink, but for what its database has its own way of; most of a `Target` and its `TableEdits`.

    `_changes` is the relation of consolidated changes, as the database names it.
    """

    _changes: str

    def __init__(self, spec: SinkSpec, left_columns: Sequence[str]) -> None:
        self._spec = spec
        self._schema, self._name = table_name(spec)
        self._mode = Mode.of(spec)
        self._names = [column.name for column in spec.schema]
        self._left = tuple(left_columns)

    @property
    @abstractmethod
    def location(self) -> str:
        """The table and where it is, for messages."""

    @abstractmethod
    def check_shape(self) -> None:
        """Raises DataError if the table has other columns, or no key where the sink declares one."""

    @abstractmethod
    def reshape(self, *, keep_rows: bool) -> None:
        """Give the table the columns, types and key of the sink. Raises DataError for what can't be done exactly."""

    @abstractmethod
    def _rows_of(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, if it has any."""

    @abstractmethod
    def _is_table(self, name: str) -> bool:
        """Whether the schema has a table of this name."""

    @abstractmethod
    def _column_type(self, type_: SqlType) -> str:
        """The database's type for a column."""

    @abstractmethod
    def _has_columns(self, names: Sequence[str]) -> list[str]:
        """Those of these columns that the table has."""

    @abstractmethod
    def _changed(self, sql: str) -> int:
        """Run a statement and return how many rows it touched."""

    @abstractmethod
    def _unexpected(self, made: int, expected: int) -> Exception:
        """The error for a statement that touched another number of rows than it should have."""

    @abstractmethod
    def _append(self, rows: StagedEpoch) -> None:
        """Append rows."""

    @abstractmethod
    def _staged(self, rows: StagedEpoch, work: Callable[[Counts], None]) -> None:
        """Do `work` while `_changes` has the consolidated rows."""

    @abstractmethod
    def _delete_copies(self, *, expected: int) -> None:
        """Delete as many copies of each row as go. Raises DataError naming a row that has fewer."""

    @abstractmethod
    def _insert_copies(self) -> None:
        """Insert as many copies of each row as come."""

    @property
    def wording(self) -> Wording:
        """What messages call it."""
        return WORDING

    @property
    def edits(self) -> TableEdits:
        """A table can be reshaped."""
        return self

    @property
    def owns_all_rows(self) -> bool:
        """Whether it must be empty at first."""
        return self._mode in (Mode.KEYED, Mode.MULTISET)

    @property
    def _table(self) -> str:
        return f"{quote_identifier(self._schema or '')}.{quote_identifier(self._name)}"

    @property
    def _epochs(self) -> str:
        return f"{quote_identifier(self._schema or '')}.{EPOCHS_TABLE}"

    def exists(self) -> bool:
        """Whether the table exists."""
        return self._is_table(self._name)

    def is_empty(self) -> bool:
        """Whether the table has no rows."""
        return not self._rows_of(f"SELECT 1 FROM {self._table} LIMIT 1")

    def create(self) -> None:
        """Create the sink's table."""
        columns = [f"{quote_identifier(c.name)} {self._column_type(c.type)}" for c in self._spec.schema]
        if self._spec.primary_key:
            columns.append(f"PRIMARY KEY ({columns_of(self._spec.primary_key)})")
        self._rows_of(f"CREATE TABLE {self._table} ({', '.join(columns)})")

    def apply(self, rows: StagedEpoch) -> None:
        """Apply rows by the primary key, or copy by copy. Raises DataError for a row that is not there."""
        if self._mode is Mode.APPEND:
            self._append(rows)
        else:
            self._staged(rows, self._change)

    def _change(self, counts: Counts) -> None:
        match self._mode:
            case Mode.UPSERT:
                self._rows_of(self._statements().upsert)
            case Mode.KEYED:
                self._statements().apply(counts, self._refuse_if, self._changed, self._unexpected)
            case _:
                if counts.go:
                    self._delete_copies(expected=counts.go)
                if counts.come:
                    self._insert_copies()

    def replace(self, rows: StagedEpoch) -> None:
        """Make these rows all that the table has."""
        if self._spec.primary_key:
            self._staged(rows, self._replace_by_key)
        else:
            self._rows_of(f"DELETE FROM {self._table}")
            self.apply(rows)

    def _replace_by_key(self, _: Counts) -> None:
        left = self._has_columns(self._left) if self._left else []
        for statement in self._statements(left=left).replace:
            self._rows_of(statement)

    def _statements(self, *, left: Sequence[str] = ()) -> KeyedStatements:
        spec = self._spec
        return KeyedStatements(
            self._table, self._changes, self._names, spec.primary_key, forgets=spec.forgets, left=left
        )

    def _refuse_if(self, query: str, what: str) -> None:
        found = self._rows_of(query)
        if found:
            raise key_error(self.location, self._spec, found[0], what)
