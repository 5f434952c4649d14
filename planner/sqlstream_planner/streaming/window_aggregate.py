"""Windows that close: groups by window and keys, each given once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_operators.plan.window_spec import WindowSpec
from sqlstream_planner.logical.arity import UnaryNode
from sqlstream_planner.logical.columns import ColumnId, EventTime, Field, Fields
from sqlstream_planner.logical.node import NON_SEMANTIC, Node
from sqlstream_planner.logical.operator import (
    Constant,
    Corrected,
    Given,
    Key,
    Keys,
    StandIn,
    StreamingOperator,
    Timed,
    Updating,
)
from sqlstream_planner.logical.parts import AggregateCall
from sqlstream_planner.logical.text import by_expressions, calls_text, describe_window
from sqlstream_planner.logical.time_marks import window_bounds


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WindowAggregate(StreamingOperator, UnaryNode):
    """Groups rows by window and keys; emits each window once, when the watermark closes it.

    `slice_column` is the time column that slices are cut from when `window.shared_slices`; otherwise the
    column that holds the window's end. `sets` are the grouping sets as positions in `keys` (one set of all
    keys if the query has none), `grouping` the field of the grouping id where there are several.
    `time_column` orders FIRST_VALUE and LAST_VALUE. `start` is None where the end does not determine it (sessions): it
    is one of the keys then, or nobody's.
    """

    window: WindowSpec
    slice_column: ColumnId
    time: EventTime
    time_column: ColumnId | None
    keys: Fields
    key_expressions: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    grouping: Field | None
    calls: tuple[AggregateCall, ...]
    start: Field | None
    end: Field
    window_time: Field
    meaning: Node = field(metadata=NON_SEMANTIC)

    @property
    def fields(self) -> Fields:
        """Keys, window bounds, the grouping id if there is one, and the aggregates."""
        start = (self.start,) if self.start is not None else ()
        grouping = (self.grouping,) if self.grouping is not None else ()
        return (*self.keys, *start, self.end, self.window_time, *grouping, *(c.field for c in self.calls))

    def is_updating(self, updating: Updating) -> bool:
        return False

    @property
    def why_updating(self) -> str | None:
        return None

    @property
    def corrected(self) -> Corrected:
        return Corrected.WITH_INPUT

    @property
    def is_consolidated(self) -> bool:
        return False

    @property
    def given(self) -> Given:
        return Given.ON_CLOSE

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        grouping = (self.grouping.id,) if self.grouping is not None else ()
        return ((*(f.id for f in self.keys), self.end.id, *grouping),)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return frozenset()

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        return window_bounds(self.fields)

    def is_bounded(self, updating: Updating) -> bool | None:
        return True

    @property
    def time_to_live(self) -> int | None:
        return None

    @property
    def remembers_given(self) -> bool:
        return False

    def answer_keys(self, updating: Updating) -> Mapping[str, exp.Expr] | None:
        return None

    def wanted(self, needed: Set[str]) -> tuple[set[str], ...]:
        return (self.reads(),)

    def pruned(self, needed: Set[str]) -> Node:
        return self

    @property
    def named_above(self) -> Fields:
        grouping = (self.grouping,) if self.grouping is not None else ()
        return (*self.keys, *grouping, *(c.field for c in self.calls))

    @property
    def title(self) -> str:
        return "window aggregate"

    @property
    def details(self) -> str:
        sets = self.sets if self.grouping is not None else ()
        window = describe_window(self.window, self.slice_column)
        return f"{window}{by_expressions(self.key_expressions, sets)} {calls_text(self.calls)}"

    @property
    def stored_as(self) -> str:
        return "WindowAggregate"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, self.fields, self.calls)
