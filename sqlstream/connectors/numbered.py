"""Sources whose rows follow from their numbers: what `datagen` and `nexmark` have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

import pyarrow as pa

from sqlstream.connectors.api import Limits, Position, SourcePlan, Split
from sqlstream_operators.codec.arrow_types import from_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import Schema
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.catalog.options import OptionValue

_SMALLEST_SPLIT = 1_000
_LARGEST_EPOCH = 4_000_000


class NumberedSource:
    """Rows 0, 1, 2 … up to `total` (None: without end), at most `rows_per_second` of them (None: no
    throttle).

    A position is {"row": the next one}. The throttle counts from this process's first plan, by `clock` in
    seconds: what a row is does not depend on it, only when it comes.
    """

    def __init__(
        self,
        name: str,
        total: int | None,
        rows_per_second: int | None,
        tasks: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._total = total
        self._rate = rows_per_second
        self._tasks = tasks
        self._clock = clock
        self._started: tuple[float, int] | None = None

    @property
    def bounded(self) -> bool:
        """Whether there is a last row."""
        return self._total is not None

    def initial_position(self) -> Position:
        """Row 0."""
        return {"row": 0}

    def until(self, position: Position) -> NumberedSource:
        """The rows before `position`, as fast as they can be made."""
        return NumberedSource(self._name, int(position["row"]), None, self._tasks)

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next rows, as many as limits and throttle allow."""
        first = int(position["row"])
        end = first + (_LARGEST_EPOCH if limits.rows is None else limits.rows)
        if self._total is not None:
            end = min(end, self._total)
        if self._rate is not None:
            end = min(end, self._released(first))
        end = max(first, end)
        splits = []
        tasks = max(1, min(limits.tasks, self._tasks or limits.tasks, -(-(end - first) // _SMALLEST_SPLIT)))
        for number in range(tasks):
            start = first + (end - first) * number // tasks
            stop = first + (end - first) * (number + 1) // tasks
            if stop > start:
                splits.append(Split(self._name, {"first": start, "count": stop - start}, stop - start))
        ended = self._total is not None and end >= self._total
        return SourcePlan(tuple(splits), {"row": end}, ended, final=ended)

    def lag(self, position: Position) -> int | None:
        """The rows that wait: all that are left, or all that the throttle has released; None if that is
        endless.
        """
        first = int(position["row"])
        ends = [self._total] if self._total is not None else []
        if self._rate is not None:
            ends.append(self._released(first))
        return max(0, min(ends) - first) if ends else None

    def _released(self, first: int) -> int:
        """The number of the first row that may not come yet."""
        now = self._clock()
        if self._started is None:
            self._started = now, first
        since, row = self._started
        return row + int((now - since) * (self._rate or 0))


def continues(
    ends: Collection[str],
    was: Mapping[str, OptionValue],
    now: Mapping[str, OptionValue],
    position: Position,
    last: int | None,
    *,
    closed: bool,
) -> bool:
    """Whether nothing differs but the options `ends`, which end a source, and `last` (None: it has no end), the number of
    rows by `now`, is not below what was read, nor beyond it if all is `closed`; see `Continuing`.
    """
    rows_alike = {k: v for k, v in was.items() if k not in ends} == {
        k: v for k, v in now.items() if k not in ends
    }
    row = int(position["row"])
    return rows_alike and (last == row if closed else last is None or row <= last)


def publish(duck: DuckSession, relation: str, table: pa.Table, schema: Schema) -> None:
    """Make a generated table queryable with exactly the columns and types of `schema`."""
    by_name = {name.lower(): name for name in table.column_names}
    if all(
        c.name in table.column_names and from_arrow(table.schema.field(c.name).type) == c.type for c in schema
    ):
        duck.register(relation, table)
        return
    hidden = f"{relation}\x01generated"
    duck.register(hidden, table)
    items = []
    for column in schema:
        name = quote_identifier(by_name[column.name.lower()])
        items.append(f"CAST({name} AS {column.type}) AS {quote_identifier(column.name)}")
    duck.view(relation, f"SELECT {', '.join(items) or '1 AS one'} FROM {quote_identifier(hidden)}")
