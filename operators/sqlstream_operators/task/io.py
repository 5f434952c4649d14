"""What a task needs of connectors and of state, as protocols; `sqlstream.connectors.api` satisfies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.state.staged_rows import StagedRows
from sqlstream_operators.state.store import StateStore
from sqlstream_operators.state.version import ShardVersion


class BadRow(Protocol):
    """A row that could not be read."""

    @property
    def origin(self) -> str:
        """The file, or whatever holds the row."""

    @property
    def line(self) -> int | None:
        """Where in it the row is, from 1."""

    @property
    def raw(self) -> str | bytes:
        """The row as it is written there."""

    @property
    def reason(self) -> str:
        """Why it can't be read."""


@runtime_checkable
class PlacedRow(BadRow, Protocol):
    """One that may be in something that has no lines."""

    @property
    def position(self) -> Mapping[str, Any] | None:
        """Where it is in it: a JSON object."""

    @property
    def key(self) -> bytes | None:
        """The key that it has beside it."""


@runtime_checkable
class NotComputed(BadRow, Protocol):
    """One that can be read, and can't be computed with."""

    @property
    def expression(self) -> str | None:
        """The SQL that fails over it."""


class SplitReader(Protocol):
    """Makes a split queryable in DuckDB: strictly, or without its unreadable rows."""

    def open_strict(self, duck: DuckSession, relation: str, split: Any, *, queries: int) -> None:
        """Make `relation` queryable; `queries` is how many queries will read it."""

    def open_lenient(self, duck: DuckSession, relation: str, split: Any) -> Sequence[BadRow]:
        """Make only the readable rows queryable as `relation` and return the others."""


#: By this column of an opened split that is several lanes a reader says of which of them a row is: a number in `lanes`.
LANE_COLUMN = "$lane"


@runtime_checkable
class OfLanes(Protocol):
    """A split that says of which lanes its rows are; of several, its reader gives LANE_COLUMN."""

    @property
    def lanes(self) -> Sequence[str]:
        """The lanes in the order of the rows; "" is that of a source of one lane."""


@runtime_checkable
class Dividing(Protocol):
    """A reader that can say where in its data rows are, so that a row that can't be computed with is found."""

    def halves(self, split: Any) -> Sequence[Any]:
        """Two splits that have the rows of this one together; none if it can't be divided."""

    def place(self, split: Any) -> str:
        """Where the rows of a split are, in words: "in/x.json, line 7"."""


class SinkPart(Protocol):
    """What one task wrote to one sink."""

    @property
    def rows(self) -> int:
        """How many rows."""

    @property
    def payload(self) -> Mapping[str, Any]:
        """A JSON object that only the connector reads."""

    @property
    def table(self) -> pa.Table | None:
        """Rows that the driver shows."""

    @property
    def staged(self) -> StagedRows | None:
        """Rows in the checkpoint store that the driver applies."""


class SinkWriter(Protocol):
    """Stages rows of a sink, invisibly and repeatably."""

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Stage all rows that a task has for the sink."""


@runtime_checkable
class Refusing(Protocol):
    """A writer that knows before it writes that the sink will not take a row."""

    def check(self, table: pa.Table) -> None:
        """Raises RefusedRowError."""


class OpenStore(StateStore, Protocol):
    """A state store that a task writes a new version of."""

    def commit(self) -> ShardVersion:
        """Write the epoch's changes to the checkpoint store."""


Writers = Callable[[SinkSpec], SinkWriter]

#: Opens the state of an operator as it was before the epoch, for the shard of the task.
Stores = Callable[[StateSchema], AbstractContextManager[OpenStore]]
