"""Its node and all that is said of it: `planner/sqlstream_planner/streaming/every_nth.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_planner.logical.arity import UnaryNode
from sqlstream_planner.logical.columns import ColumnId, Field, Fields
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
from sqlstream_planner.logical.text import by_columns
from sqlstream_planner.streaming.narrowed import narrowed


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EveryNth(StreamingOperator, UnaryNode):
    """Of the rows of each partition every `every`-th, with its number."""

    partition: tuple[ColumnId, ...]
    every: int
    number: Field
    meaning: Node = field(metadata=NON_SEMANTIC)
    ttl_us: int | None = None

    @property
    def fields(self) -> Fields:
        return (*self.input.fields, self.number)

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
        return True

    @property
    def given(self) -> Given:
        return Given.AT_ONCE

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        return ((*self.partition, self.number.id), *keys(self.input))

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return constant(self.input)

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        return timed(self.input)

    def is_bounded(self, updating: Updating) -> bool | None:
        return not self.partition

    @property
    def time_to_live(self) -> int | None:
        return self.ttl_us

    @property
    def remembers_given(self) -> bool:
        # It keeps numbers, by which any query of the kind gives what it gives.
        return False

    def answer_keys(self, updating: Updating) -> Mapping[str, exp.Expr] | None:
        return None

    def wanted(self, needed: Set[str]) -> tuple[set[str], ...]:
        return self.reads_through(needed)

    def pruned(self, needed: Set[str]) -> Node:
        [below] = self.wanted(needed)
        return self.with_inputs((narrowed(self.input, below),))

    @property
    def named_above(self) -> Fields:
        return (self.number,)

    @property
    def title(self) -> str:
        return "every nth"

    @property
    def details(self) -> str:
        return f"{self.every}{by_columns(self.partition)}"

    @property
    def stored_as(self) -> str:
        return "EveryNth"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, (self.number,))
