"""How far apart in time the two rows of a pair can be, and what follows for the times of a join's output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlstream_operators.plan.window_spec import WindowKind
from sqlstream_planner.logical.columns import ColumnId, EventTime, Field, Fields, WindowColumn
from sqlstream_planner.logical.node import Part
from sqlstream_planner.logical.parts import JoinKind

#: The sides (0: left) whose columns are NULL in rows without a partner.
_PADDED = {
    JoinKind.LEFT: (1,),
    JoinKind.RIGHT: (0,),
    JoinKind.FULL: (0, 1),
}


@dataclass(frozen=True, slots=True)
class TimeBound(Part):
    """Of a join: lower_us <= left's time - right's time <= upper_us in every pair, µs.

    `left` and `right` are columns of the sides that follow the watermark: event times, or bounds of windows.
    """

    left: ColumnId
    right: ColumnId
    lower_us: int
    upper_us: int


def delay_of(f: Field) -> int:
    """How far behind the watermark values of a column can still come: those to come at W are above W - delay, µs.

    Below 0 where they run ahead: a window's end comes while the window is open. Raises ValueError for a column that does
    not follow the watermark.
    """
    if f.window is not None:
        time = f.window.time
        behind_end = {"end": 0, "time": 1_000, "start": f.window.window.size_us}[f.window.role]
        return time.delay_us - time.tick_us + behind_end
    if f.time is None:
        raise ValueError(f"{f.name} is no event time")
    return f.time.delay_us


@dataclass(frozen=True, slots=True)
class Waits:
    """How long after its own time a row may still get a partner: the watermark is at its time and so much, µs."""

    left_us: int
    right_us: int
    sources: tuple[str, ...]

    @classmethod
    def of(cls, bound: TimeBound, left: Fields, right: Fields) -> Waits:
        """Of a bound over the columns of the sides."""
        mine, theirs = _field(left, bound.left), _field(right, bound.right)
        return cls(
            delay_of(theirs) - bound.lower_us,
            delay_of(mine) + bound.upper_us,
            tuple(dict.fromkeys((*follows(mine).sources, *follows(theirs).sources))),
        )


def follows(f: Field) -> EventTime:
    """The event time that a column follows. Raises ValueError for one that follows none."""
    found = f.window.time if f.window is not None else f.time
    if found is None:
        raise ValueError(f"{f.name} is no event time")
    return found


def joined_fields(left: Fields, right: Fields, kind: JoinKind, bound: TimeBound | None = None) -> Fields:
    """The fields of both sides of a join, nullable where a row may have no partner; of SEMI and ANTI those of the left.

    With a bound the times that it is over stay event times, of rows that arrive later than they did; and where it says that
    both rows are in one window, they stay so. Nothing is known of other times: a row comes when its partner does, however
    long after its own time that is.
    """
    known = _times(left, right, bound) if bound is not None else {}
    sides = []
    for number, side in enumerate((left, right)):
        padded = number in _PADDED.get(kind, ())
        kept = {} if padded else known
        sides.append(
            tuple(
                replace(kept.get(f.id, replace(f, time=None, window=None)), nullable=f.nullable or padded)
                for f in side
            )
        )
    return sides[0] if kind in (JoinKind.SEMI, JoinKind.ANTI) else (*sides[0], *sides[1])


def _times(left: Fields, right: Fields, bound: TimeBound) -> Mapping[str, Field]:
    """The fields that still follow the watermark behind a join, by their ids."""
    mine, theirs = _field(left, bound.left), _field(right, bound.right)
    waits = Waits.of(bound, left, right)
    found: dict[str, Field] = {}
    if _one_window(mine, theirs, bound):
        assert mine.window is not None
        assert theirs.window is not None
        times = mine.window.time, theirs.window.time
        after = EventTime(waits.sources, min(t.tick_us for t in times), False, max(t.delay_us for t in times))
        for side, marker in ((left, mine.window), (right, theirs.window)):
            for f in side:
                if f.window is not None and (f.window.window, f.window.time) == (marker.window, marker.time):
                    mark = WindowColumn(f.window.role, marker.window, after)
                    found[f.id] = replace(f, time=after if f.time is not None else None, window=mark)
        return found
    delays = max(delay_of(mine), waits.left_us), max(delay_of(theirs), waits.right_us)
    for f, delay_us in zip((mine, theirs), delays, strict=True):
        if f.time is not None:
            # To the µs: the source may have given finer times than its column's type says.
            found[f.id] = replace(f, time=EventTime(waits.sources, 1, False, max(0, delay_us)), window=None)
    return found


def _one_window(left: Field, right: Field, bound: TimeBound) -> bool:
    """Whether both rows of every pair are in the same window."""
    if left.window is None or right.window is None or bound.lower_us or bound.upper_us:
        return False
    if (left.window.window, left.window.role) != (right.window.window, right.window.role):
        return False
    # The windows of a CUMULATE cycle have one start.
    return left.window.role != "start" or left.window.window.kind is not WindowKind.CUMULATE


def _field(fields: Fields, id_: str) -> Field:
    return next(f for f in fields if f.id == id_)
