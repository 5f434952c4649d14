"""Joins with what a table was at a time: the versions of its rows, and each row beside the version of its time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from sqlglot import exp

from sqlstream_planner.diagnostics import Span
from sqlstream_planner.logical.arity import BinaryNode, UnaryNode
from sqlstream_planner.logical.columns import ColumnId, EventTime, Field, Fields
from sqlstream_planner.logical.node import NON_SEMANTIC, Part
from sqlstream_planner.logical.parts import JoinKind


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Versions(UnaryNode):
    """All rows that a table has had: of each key and `time` (an expression over the input's columns) the last that came.

    `input` is the scan of a table. Of one that is read as changes, `gone` says whether the row went then; what a row was
    before an update is left out.
    """

    makes_own: ClassVar = True

    keys: tuple[ColumnId, ...]
    time: exp.Expr
    gone: Field | None = None

    @property
    def fields(self) -> Fields:
        """The input's fields, and `gone`."""
        return (*self.input.fields, *((self.gone,) if self.gone is not None else ()))


def time_of_both(left: Fields, right: Fields, left_time: ColumnId, right_time: ColumnId) -> EventTime:
    """The watermark that a join with versions goes by: that of both sides. Raises ValueError where one has none."""
    pairs = ((left, left_time), (right, right_time))
    times = [f.time for side, id_ in pairs for f in side if f.id == id_ and f.time is not None]
    if len(times) != len(pairs):
        raise ValueError("a join with versions goes by two event times")
    sources = tuple(dict.fromkeys(s for t in times for s in t.sources))
    delay_us = max(t.delay_us for t in times)
    return replace(times[0], sources=sources, direct=any(t.direct for t in times), delay_us=delay_us)


def as_of_fields(
    left: Fields, right: Fields, kind: JoinKind, left_time: ColumnId, right_time: ColumnId, *, forward: bool
) -> Fields:
    """The fields of both sides of a join with versions; those of the right are nullable where there may be none.

    A row is emitted when the watermark of both reaches its time on the left: that stays an event time, and so do windows. A
    forward join gives it however much later.
    """
    if forward:
        left = tuple(replace(f, time=None, window=None) for f in left)
        right = tuple(replace(f, nullable=f.nullable or kind is JoinKind.LEFT) for f in right)
        return (*left, *(replace(f, time=None, window=None) for f in right))
    given = replace(time_of_both(left, right, left_time, right_time), direct=False)
    mine = tuple(
        _given(f, given) if f.id == left_time or f.window is not None else replace(f, time=None) for f in left
    )
    theirs = tuple(
        replace(f, time=None, window=None, nullable=f.nullable or kind is JoinKind.LEFT) for f in right
    )
    return (*mine, *theirs)


def _given(f: Field, given: EventTime) -> Field:
    """A column with a time by which no row can be late any more, at the watermark of `given`."""

    def so(time: EventTime) -> EventTime:
        return replace(time, sources=given.sources, direct=False, delay_us=given.delay_us)

    window = f.window
    if window is not None:
        window = replace(window, time=so(window.time))
    return replace(f, time=so(f.time) if f.time is not None else None, window=window)


@dataclass(frozen=True, slots=True)
class Equality(Part):
    """An expression over the left of a join, and one over the right that must be equal to it."""

    left: exp.Expr
    right: exp.Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AsOfJoin(BinaryNode):
    """Each row of `left` beside the row of `right` with equal `keys` that is the newest at its time.

    That is the one with the greatest `right_time` of at most `left_time` (`strict`: less than that). Of several with one key
    and time it is, with `latest`, the last that came, else the first by `ties` (columns of the right, ascending, NULLs
    first; None until `settle_ties` has looked). There is none if `gone` (a column of the right) is true of that row, or
    `condition` is not of both: INNER leaves the row of the left out then, LEFT gives it beside NULLs. `forward`: it is the
    oldest at its time or later (`strict`: later), with the least `right_time`.
    """

    makes_own: ClassVar = True

    kind: JoinKind
    keys: tuple[Equality, ...]
    left_time: ColumnId
    right_time: ColumnId
    strict: bool
    latest: bool
    gone: ColumnId | None
    condition: exp.Expr | None
    ties: tuple[ColumnId, ...] | None = None
    forward: bool = False
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)

    def __post_init__(self) -> None:
        if self.kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise ValueError(f"a {self.kind} join goes by no time")

    @property
    def fields(self) -> Fields:
        """The fields of both, see `as_of_fields`."""
        return as_of_fields(
            self.left.fields,
            self.right.fields,
            self.kind,
            self.left_time,
            self.right_time,
            forward=self.forward,
        )
