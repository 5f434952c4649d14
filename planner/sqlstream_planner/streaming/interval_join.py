"""Pairs of rows that are near each other in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_planner.logical.arity import BinaryNode
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
from sqlstream_planner.logical.parts import JoinKind
from sqlstream_planner.logical.text import expression_text, on_keys
from sqlstream_planner.logical.time_bounds import TimeBound, joined_fields
from sqlstream_planner.logical.time_marks import marked
from sqlstream_planner.streaming.join_keys import EqualKey, keys_of_pairs
from sqlstream_planner.streaming.narrowed import narrowed_sides


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntervalJoin(StreamingOperator, BinaryNode):
    """Pairs of rows of two append-only inputs whose `keys` are equal, for which `condition` is true, and which are near each
    other in time.

    Flink's interval join and window join: rows are kept until the watermark says that no partner of them can come.
    `condition` implies `bound`. `kind` is no CROSS.
    """

    kind: JoinKind
    keys: tuple[EqualKey, ...]
    condition: exp.Expr | None
    bound: TimeBound
    meaning: Node = field(metadata=NON_SEMANTIC)

    @property
    def fields(self) -> Fields:
        """The fields of both, see `joined_fields`."""
        return joined_fields(self.left.fields, self.right.fields, self.kind, self.bound)

    def is_updating(self, updating: Updating) -> bool:
        return updating(self.left) or updating(self.right)

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
        return Given.WHEN_FINAL

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        return keys_of_pairs(self.left, self.right, self.kind, self.keys, keys)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return frozenset()

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        return marked(self.fields)

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
        return self.reads_through(needed)

    def pruned(self, needed: Set[str]) -> Node:
        # What is joined is kept: only what is read behind the join, and what it compares.
        return narrowed_sides(self, needed | self.reads())

    @property
    def named_above(self) -> Fields:
        return ()

    @property
    def title(self) -> str:
        return f"{self.kind.lower()} interval join"

    @property
    def details(self) -> str:
        condition = (expression_text(self.condition),) if self.condition is not None else ()
        return f"{on_keys(self.keys, *condition)}".lstrip()

    @property
    def stored_as(self) -> str:
        return "IntervalJoin"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, self.fields)
