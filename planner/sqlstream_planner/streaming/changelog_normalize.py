"""A changelog with a key, made consistent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_planner.logical.arity import PassingNode
from sqlstream_planner.logical.columns import ColumnId, Fields
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChangelogNormalize(StreamingOperator, PassingNode):
    """Makes a changelog consistent: at most one row for each of `keys`, the last that came.

    `ttl_us`: a key that nothing touched for so long is forgotten.
    """

    keys: tuple[ColumnId, ...]
    meaning: Node = field(metadata=NON_SEMANTIC)
    ttl_us: int | None = None

    def is_updating(self, updating: Updating) -> bool:
        return True

    @property
    def why_updating(self) -> str | None:
        return "its source is a changelog"

    @property
    def corrected(self) -> Corrected:
        return Corrected.BY_SOURCE

    @property
    def is_consolidated(self) -> bool:
        return False

    @property
    def given(self) -> Given:
        return Given.AT_ONCE

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        return (self.keys,)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return constant(self.input)

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        return None

    def is_bounded(self, updating: Updating) -> bool | None:
        return False

    @property
    def time_to_live(self) -> int | None:
        return self.ttl_us

    @property
    def remembers_given(self) -> bool:
        return True

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
        return "changelog normalize"

    @property
    def details(self) -> str:
        return f"by {', '.join(self.keys)}"

    @property
    def stored_as(self) -> str:
        return "ChangelogNormalize"

    @property
    def stand_in(self) -> StandIn:
        # Identities count it as one more thing that makes rows, and are stored so.
        return StandIn(self.input, nesting=1)
