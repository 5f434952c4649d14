"""Functions of each row over the rows of its partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream_planner.logical.algebra import OverWindow
from sqlstream_planner.logical.arity import UnaryNode
from sqlstream_planner.logical.columns import ColumnId, EventTime, Fields
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
from sqlstream_planner.logical.parts import OrderTerm, WindowCall
from sqlstream_planner.logical.text import over_text
from sqlstream_planner.logical.time_marks import timed_over
from sqlstream_planner.streaming.narrowed import read_since
from sqlstream_planner.windows.over_totals import carried_call, kept_of


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Over(StreamingOperator, UnaryNode):
    """Functions of each row over the rows of its partition, kept up to date.

    Rows that are equal in all of `order` stand in the order of `ties`, ascending, NULLs first; these are the columns that
    are kept. `closing` is the column (the end of a window, or an event time) by which the watermark of `time` says that a
    row is final: then it is emitted once. `ttl_us`: a partition that nothing touched for so long is forgotten.
    """

    partition: tuple[ColumnId, ...]
    order: tuple[OrderTerm, ...]
    calls: tuple[WindowCall, ...]
    ties: tuple[ColumnId, ...]
    meaning: Node = field(metadata=NON_SEMANTIC)
    ttl_us: int | None = None
    closing: ColumnId | None = None
    time: EventTime | None = None

    @property
    def fields(self) -> Fields:
        """The fields of `meaning`."""
        known = {f.id: f for f in self.meaning.fields}
        return (*(known.get(f.id, f) for f in self.input.fields), *(c.field for c in self.calls))

    def is_updating(self, updating: Updating) -> bool:
        return self.closing is None

    @property
    def why_updating(self) -> str | None:
        return f"{self.calls[0].name.upper()} OVER of a row changes when other rows arrive"

    @property
    def corrected(self) -> Corrected:
        return Corrected.ANYTIME

    @property
    def is_consolidated(self) -> bool:
        return True

    @property
    def given(self) -> Given:
        return Given.AT_ONCE if self.closing is None else Given.WHEN_FINAL

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        numbers = [(*self.partition, c.field.id) for c in self.calls if c.rank == "row_number"]
        return (*keys(self.input), *numbers)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return constant(self.input)

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        return timed_over(self.meaning, timed(self.input)) if isinstance(self.meaning, OverWindow) else None

    def is_bounded(self, updating: Updating) -> bool | None:
        if self.closing is None:
            return False
        if self.closing in self.partition:
            return True
        # Of what is emitted once: whether rows are kept for a time only, or for no more than the one partition.
        carried = [carried_call(call) is not None for call in self.calls]
        kept = kept_of(tuple(call for call, goes_on in zip(self.calls, carried, strict=True) if not goes_on))
        by_key = any(carried) or kept.places > 0
        return not kept.everything and not (by_key and self.partition)

    @property
    def time_to_live(self) -> int | None:
        return self.ttl_us

    @property
    def remembers_given(self) -> bool:
        return False

    def answer_keys(self, updating: Updating) -> Mapping[str, exp.Expr] | None:
        return None

    def wanted(self, needed: Set[str]) -> tuple[set[str], ...]:
        return self.reads_through(needed)

    def pruned(self, needed: Set[str]) -> Node:
        return replace(self, ties=(*self.ties, *read_since(self.input, self.ties, needed)))

    @property
    def named_above(self) -> Fields:
        return tuple(c.field for c in self.calls)

    @property
    def title(self) -> str:
        return "over aggregate"

    @property
    def details(self) -> str:
        return over_text(self.calls, self.partition, self.order)

    @property
    def stored_as(self) -> str:
        return "Over"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, tuple(c.field for c in self.calls))
