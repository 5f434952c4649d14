"""Updating results of windows, held back until these close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_operators.plan.window_spec import WindowSpec
from sqlstream_planner.logical.arity import PassingNode
from sqlstream_planner.logical.columns import Fields
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
from sqlstream_planner.logical.text import describe_window
from sqlstream_planner.logical.time_marks import window_bounds
from sqlstream_planner.streaming.group_aggregate import GroupAggregate


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SuppressUntilClose(StreamingOperator, PassingNode):
    """Holds the changing results of a window's groups back until the watermark closes it, and lets corrections pass.

    `input` is the group aggregate; its `expiry` says which window a row belongs to and how late corrections may be.
    """

    input: GroupAggregate
    window: WindowSpec
    meaning: Node = field(metadata=NON_SEMANTIC)

    def is_updating(self, updating: Updating) -> bool:
        # What a window was given once is corrected by rows that are allowed to be late, and by nothing else.
        expiry = self.input.expiry
        return expiry is not None and expiry.lateness_us > 0 and updating(self.input)

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
        return keys(self.input)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return constant(self.input)

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        expiry = self.input.expiry
        late = expiry is None or expiry.lateness_us > 0
        return None if late else window_bounds(self.fields)

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
        return ({f.id for f in self.fields},)

    def pruned(self, needed: Set[str]) -> Node:
        return self

    @property
    def named_above(self) -> Fields:
        return ()

    @property
    def title(self) -> str:
        return "suppress until close"

    @property
    def details(self) -> str:
        return f"of {describe_window(self.window, 'event time')}"

    @property
    def stored_as(self) -> str:
        return "SuppressUntilClose"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning)
