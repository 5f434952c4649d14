"""The rows of a relation by a key, kept once for all joins that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.logical.algebra import Filter, Project
from sqlstream_planner.logical.arity import PassingNode
from sqlstream_planner.logical.columns import Fields
from sqlstream_planner.logical.node import NON_SEMANTIC, Node, Part
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
from sqlstream_planner.logical.text import expression_text


@dataclass(frozen=True, slots=True)
class ArrangedBy(Part):
    """An expression over a relation whose rows are kept by it, as a value of `type`."""

    expression: exp.Expr
    type: SqlType


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Arrangement(StreamingOperator, PassingNode):
    """The rows of a relation, kept by `keys` for all joins that read them; `whole`: those without a key too.

    Only a `RegularJoin` reads it, through projections that rename columns and leave some out. Those of one `group` run
    together. `answered`: the rows are made, by filters and projections, of what an operator gives that keeps that by
    these columns of its own, one for each key, one row per key at most: nothing else is kept.
    """

    keys: tuple[ArrangedBy, ...]
    whole: bool
    group: int
    meaning: Node = field(metadata=NON_SEMANTIC)
    answered: tuple[str, ...] = ()

    @property
    def kept_by(self) -> Node:
        """The operator that keeps the rows: this, or the one that has the result."""
        if not self.answered:
            return self
        below = self.input
        while isinstance(below, Project | Filter):
            below = below.input
        return below

    def is_updating(self, updating: Updating) -> bool:
        return updating(self.input)

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
        return Given.AT_ONCE

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        return keys(self.input)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return constant(self.input)

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        return timed(self.input)

    def is_bounded(self, updating: Updating) -> bool | None:
        return None if self.answered else False

    @property
    def time_to_live(self) -> int | None:
        return None

    @property
    def remembers_given(self) -> bool:
        return False

    def answer_keys(self, updating: Updating) -> Mapping[str, exp.Expr] | None:
        return None

    def wanted(self, needed: Set[str]) -> tuple[set[str], ...]:
        return self.reads_through(needed)

    def pruned(self, needed: Set[str]) -> Node:
        return self

    @property
    def named_above(self) -> Fields:
        return ()

    @property
    def title(self) -> str:
        return "shared state" if self.answered else "arrangement"

    @property
    def details(self) -> str:
        return f"by {', '.join(expression_text(key.expression) for key in self.keys)}"

    @property
    def stored_as(self) -> str:
        return "Arrangement"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.input)
