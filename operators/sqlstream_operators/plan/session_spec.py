"""What the operators of SESSION windows do, as plain data; fields are described in terms of relations and state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.operator_spec import (
    WINDOW_END,
    ByWatermark,
    KeepsForGood,
    OperatorFacts,
    Waiting,
    as_they_are,
    times_of,
)
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.types import TIMESTAMP, VARCHAR

#: State columns: when a session begins (its first row's time), its last row's time, how many rows it has, and the number
#: that the next row of its partition gets; a row's time and its number. Times in µs.
START, LAST, ROWS, NEXT = "__start", "__last", "__rows", "__next"
TIME_OF_ROW, NUMBER_OF_ROW = "__time", "__number"

#: What is reported of a row that may be late, besides its columns.
LATE_COLUMNS: Schema = (Column("event_time", TIMESTAMP), Column("row", VARCHAR))


@dataclass(frozen=True, slots=True)
class SessionWindowsSpec(ByWatermark, KeepsForGood):
    """Puts each row into the session of its partition: rows of which each is at most `gap_us` after the one before.

    Sessions are [first, last + gap): those that overlap or touch are one, as in Flink (`TimeWindow.intersects`). A session
    that ends at E is closed at watermark W iff E - tick <= W; `tick_us` is negative where that is what makes sure that no
    row that arrives in time could have touched it.

    Input: `columns` and SLICE_COLUMN BIGINT (the end of the session that the row alone would be: its time + gap, µs),
    append-only, in arrival order. With `decides_late` a second input has the rows whose own session is closed: `columns`,
    SLICE_COLUMN and `LATE_COLUMNS`. Those that meet no open session are late: they are returned as dead-letter rows of
    `table`.

    State, all by the columns of `partition`: `sessions` (layout 'key', sub-key START): LAST, ROWS, NEXT; `closing` (layout
    'time': the session's end): START; `rows` (layout 'key', sub-key TIME_OF_ROW and NUMBER_OF_ROW): the other columns.
    So a session's rows are together, two sessions become one without their rows being touched, and of a partition those
    that close are its first.

    Output: `output`, which is `columns` and the bounds `start`, `end`, and `time` (end - 1 ms). If `changes`, with
    WEIGHT_COLUMN: rows are emitted at once, and are retracted when the bounds of their session change. Else each row is
    given once, when its session closes, sessions by their ends, rows of one in arrival order.
    """

    kind: ClassVar[str] = "session_windows"

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    gap_us: int
    start: str
    end: str
    time: str
    output: Schema
    changes: bool
    decides_late: bool
    table: str
    watermark_sources: tuple[str, ...]
    tick_us: int

    def __post_init__(self) -> None:
        if self.gap_us <= 0:
            raise ValueError("the gap of sessions must be positive")
        if not set(self.partition) <= {column.name for column in self.columns}:
            raise ValueError("sessions are partitioned by columns of their rows")

    @property
    def emits_changes(self) -> bool:
        """Whether a row that was given can be retracted."""
        return self.changes

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=None,
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=times_of(self.state, WINDOW_END),
            waiting=Waiting(tables=("closing",), what="session", slice_us=1, offset_us=0, tick_us=1),
            seed=None,
            late_rows_of=self.table,
        )


@dataclass(frozen=True, slots=True)
class SessionAggregateSpec(ByWatermark, KeepsForGood):
    """Groups rows by the sessions of their partition, of which it keeps accumulators and no row.

    Sessions, input and late rows are those of `SessionWindowsSpec`. `partial` are DuckDB aggregates over `columns`, `merge`
    over `accumulators`: neither depends on the order of rows. State: as there, but `sessions` has LAST and the
    accumulators, and there are no `rows`.

    `emit` is DuckDB SQL over the relation `merged` (the columns of `partition`, `window_start` and `window_end`, the
    accumulators; one row a session) that gives `output`. If `changes`, with WEIGHT_COLUMN: sessions with new rows replace
    those that they were before. Else a session is emitted once, when it closes.
    """

    kind: ClassVar[str] = "session_aggregate"

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    gap_us: int
    accumulators: Schema
    partial: tuple[str, ...]
    merge: tuple[str, ...]
    emit: str
    output: Schema
    changes: bool
    decides_late: bool
    table: str
    watermark_sources: tuple[str, ...]
    tick_us: int

    def __post_init__(self) -> None:
        if self.gap_us <= 0:
            raise ValueError("the gap of sessions must be positive")
        if not len(self.accumulators) == len(self.partial) == len(self.merge) > 0:
            raise ValueError("a group of sessions has accumulators, each with a partial and a merge")

    @property
    def emits_changes(self) -> bool:
        """Whether a row that was given can be retracted."""
        return self.changes

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=None,
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=times_of(self.state, WINDOW_END),
            waiting=Waiting(tables=("closing",), what="session", slice_us=1, offset_us=0, tick_us=1),
            seed=None,
            late_rows_of=self.table,
        )
