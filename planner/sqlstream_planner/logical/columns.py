"""Output columns of nodes, and what is known of their times."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlstream_operators.plan.types import SqlType
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec


class ColumnId(str):
    """A reference to a column of a node's input, by the column's id."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EventTime:
    """Marks a column as an event-time attribute.

    `sources` are the tables whose watermarks bound it, `tick_us` is its resolution in µs. `direct`: the
    values come straight from source rows, so a row can be late; False behind a window or a join, where the watermark
    has already passed judgement. `delay_us`: rows arrive so long after the watermark has passed their time, behind a join or
    a session.
    """

    sources: tuple[str, ...]
    tick_us: int
    direct: bool
    delay_us: int = 0

    @property
    def closes_us(self) -> int:
        """A window with end E is closed at watermark W iff E - this <= W, µs."""
        return self.tick_us - self.delay_us


@dataclass(frozen=True, slots=True)
class WindowColumn:
    """Marks a column as a bound of the window that its row belongs to. `role`: 'start', 'end' or 'time'.

    `time` says when the window closes.
    """

    role: str
    window: WindowSpec
    time: EventTime

    @property
    def event_time(self) -> EventTime:
        """The event time that the window's time, its end less 1 ms, is of the rows that it gives.

        Windows of fixed lengths end where others do, but sessions end at any time: the rows of one that closes now may be up
        to 1 ms older than the end of another that closed before, and wait for the watermark so much longer.
        """
        early_us = 1_000 if self.window.kind is WindowKind.SESSION else 0
        return replace(self.time, delay_us=self.time.delay_us + early_us)


@dataclass(frozen=True, slots=True)
class Field:
    """An output column of a node: `id` is unique in the plan, `name` is what the user called it.

    `orders`: it was the rows' event time until they were held back (for their session to close): it still says in which
    order they were, but the watermark has gone by.
    """

    id: str
    name: str
    type: SqlType
    nullable: bool = True
    time: EventTime | None = None
    window: WindowColumn | None = None
    orders: bool = False


Fields = tuple[Field, ...]


def time_column(fields: Fields) -> ColumnId | None:
    """The column that rows are ordered by in time: their own event time, else their window's."""
    times = [f for f in fields if f.time is not None and f.window is None]
    times += [f for f in fields if f.orders]
    times += [f for f in fields if f.window is not None and f.window.role == "time"]
    return ColumnId(times[0].id) if times else None
