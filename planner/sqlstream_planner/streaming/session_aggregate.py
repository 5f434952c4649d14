"""Groups that are sessions."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from sqlstream_operators.plan.window_spec import WindowSpec
from sqlstream_planner.logical.columns import ColumnId, EventTime, Field, Fields
from sqlstream_planner.logical.node import NON_SEMANTIC, Node
from sqlstream_planner.logical.operator import (
    Constant,
    Key,
    Keys,
    StandIn,
)
from sqlstream_planner.logical.parts import AggregateCall
from sqlstream_planner.logical.text import by_columns, calls_text, describe_window
from sqlstream_planner.streaming.session_operator import SessionOperator


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionAggregate(SessionOperator):
    """Groups rows by the session of their `partition`, whose columns are `keys` in the result; see `SessionWindows`."""

    window: WindowSpec
    partition: tuple[ColumnId, ...]
    time_column: ColumnId
    keys: Fields
    calls: tuple[AggregateCall, ...]
    start: Field
    end: Field
    window_time: Field
    time: EventTime
    direct: bool
    early: bool
    lateness_us: int
    meaning: Node = field(metadata=NON_SEMANTIC)

    @property
    def fields(self) -> Fields:
        """Keys, window bounds and the aggregates."""
        return (*self.keys, self.start, self.end, self.window_time, *(c.field for c in self.calls))

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        # Sessions of a partition are apart, and none ends before one that is closed.
        return ((*(f.id for f in self.keys), self.end.id),)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return frozenset()

    def wanted(self, needed: Set[str]) -> tuple[set[str], ...]:
        return (self.reads(),)

    def pruned(self, needed: Set[str]) -> Node:
        return self

    @property
    def named_above(self) -> Fields:
        return (*self.keys, *(c.field for c in self.calls))

    @property
    def title(self) -> str:
        return "session aggregate"

    @property
    def details(self) -> str:
        early = ", at once" if self.early else ""
        window = describe_window(self.window, self.time_column)
        return f"{window}{by_columns(self.partition)} {calls_text(self.calls)}{early}"

    @property
    def stored_as(self) -> str:
        return "SessionAggregate"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, self.fields, self.calls)
