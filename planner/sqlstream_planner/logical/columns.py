"""Output columns of nodes, and what is known of their times."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_operators.plan.spec import WindowSpec
from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.logical.node import ColumnId


@dataclass(frozen=True, slots=True)
class EventTime:
    """Marks a column as an event-time attribute.

    `sources` are the tables whose watermarks bound it, `tick_us` is its resolution in µs. `direct`: the
    values come straight from source rows, so a row can be late; False behind a window, where the watermark
    has already passed judgement.
    """

    sources: tuple[str, ...]
    tick_us: int
    direct: bool


@dataclass(frozen=True, slots=True)
class WindowColumn:
    """Marks a column as a bound of the window that its row belongs to. `role`: 'start', 'end' or 'time'."""

    role: str
    window: WindowSpec
    time: EventTime


@dataclass(frozen=True, slots=True)
class Field:
    """An output column of a node: `id` is unique in the plan, `name` is what the user called it."""

    id: str
    name: str
    type: SqlType
    nullable: bool = True
    time: EventTime | None = None
    window: WindowColumn | None = None


Fields = tuple[Field, ...]


def time_column(fields: Fields) -> ColumnId | None:
    """The column that rows are ordered by in time: their own event time, else their window's."""
    times = [f for f in fields if f.time is not None and f.window is None]
    times += [f for f in fields if f.window is not None and f.window.role == "time"]
    return ColumnId(times[0].id) if times else None
