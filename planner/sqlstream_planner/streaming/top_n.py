"""The first rows of each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream_planner.logical.arity import UnaryNode
from sqlstream_planner.logical.arrival import is_first_come
from sqlstream_planner.logical.columns import ColumnId, EventTime, Field, Fields
from sqlstream_planner.logical.expressions import column
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
from sqlstream_planner.logical.parts import OrderTerm
from sqlstream_planner.logical.text import ranked
from sqlstream_planner.logical.time_marks import window_bounds
from sqlstream_planner.streaming.narrowed import read_since


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopN(StreamingOperator, UnaryNode):
    """The rows of each partition whose rank is in (offset, offset + limit].

    `function` is row_number, rank or dense_rank; `rank` its field if the query gives it. Rows that are equal in all of
    `order` are ranked by `ties`, ascending, NULLs first. `window_end` is the column with a window's end where the
    partition has one: then a window's rows are emitted once, when it closes. `ttl_us`: a partition that nothing touched
    for so long is forgotten. `meaning` gives the ranked rows, those beyond the limit too.
    """

    partition: tuple[ColumnId, ...]
    order: tuple[OrderTerm, ...]
    function: str
    limit: int
    offset: int
    rank: Field | None
    ties: tuple[ColumnId, ...]
    meaning: Node = field(metadata=NON_SEMANTIC)
    window_end: ColumnId | None = None
    time: EventTime | None = None
    ttl_us: int | None = None

    @property
    def gives_first(self) -> bool:
        """Whether a partition has one row, which is its first in an order, without a rank, at any time."""
        first = self.limit == 1 and self.offset == 0 and self.function == "row_number" and self.rank is None
        return first and self.window_end is None and bool(self.partition) and bool(self.order)

    @property
    def fields(self) -> Fields:
        """The input's fields, and the rank if it is given."""
        return (*self.input.fields, *((self.rank,) if self.rank is not None else ()))

    def is_updating(self, updating: Updating) -> bool:
        if self.window_end is not None:
            return False
        # The first rows of a partition that came first: no later one takes their place.
        first_come = self.function == "row_number" and is_first_come(self.input, self.order)
        return not first_come or updating(self.input)

    @property
    def why_updating(self) -> str | None:
        return "a row leaves the first few when a better one arrives"

    @property
    def corrected(self) -> Corrected:
        ends = {f.id for f in self.input.fields if f.window is not None and f.window.role == "end"}
        return Corrected.WITH_INPUT if ends & set(self.partition) else Corrected.ANYTIME

    @property
    def is_consolidated(self) -> bool:
        return True

    @property
    def given(self) -> Given:
        return Given.AT_ONCE if self.window_end is None else Given.ON_CLOSE

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        numbered = self.function == "row_number"
        found: list[Key] = [self.partition] if self.limit <= 1 and numbered else []
        if self.rank is not None and numbered:
            found.append((*self.partition, self.rank.id))
        return (*found, *keys(self.input))

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return constant(self.input)

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        below = timed(self.input) if self.window_end is not None else None
        # Rows are held back until their window closes: they come late for all but the window.
        return None if below is None else below & window_bounds(self.input.fields)

    def is_bounded(self, updating: Updating) -> bool | None:
        return self.window_end is not None or (not self.partition and not updating(self.input))

    @property
    def time_to_live(self) -> int | None:
        return self.ttl_us

    @property
    def remembers_given(self) -> bool:
        return True

    def answer_keys(self, updating: Updating) -> Mapping[str, exp.Expr] | None:
        if self.ttl_us is not None or not self.gives_first or updating(self.input):
            return None
        return {id_: column(id_) for id_ in self.partition}

    def wanted(self, needed: Set[str]) -> tuple[set[str], ...]:
        return self.reads_through(needed)

    def pruned(self, needed: Set[str]) -> Node:
        shown = self if self.rank is None or self.rank.id in needed else replace(self, rank=None)
        return replace(shown, ties=(*self.ties, *read_since(self.input, self.ties, needed)))

    @property
    def named_above(self) -> Fields:
        return (self.rank,) if self.rank is not None else ()

    @property
    def title(self) -> str:
        return "top n"

    @property
    def details(self) -> str:
        first = f"{self.offset + 1} to {self.offset + self.limit}"
        window = " when the window closes" if self.window_end is not None else ""
        return f"{first} of {ranked(self.function, self.partition, self.order)}{window}"

    @property
    def stored_as(self) -> str:
        return "TopN"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, (self.rank,) if self.rank is not None else ())
