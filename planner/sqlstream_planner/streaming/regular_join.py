"""Pairs of rows of two relations, both kept for as long as they are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_planner.logical.algebra import Project
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
from sqlstream_planner.logical.text import expression_text, moved, on_keys
from sqlstream_planner.logical.time_bounds import joined_fields
from sqlstream_planner.streaming.arrangement import Arrangement
from sqlstream_planner.streaming.join_keys import EqualKey, keys_of_pairs
from sqlstream_planner.streaming.narrowed import narrowed_sides


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RegularJoin(StreamingOperator, BinaryNode):
    """Pairs of rows of two inputs whose `keys` are equal and for which `condition` is true, kept up to date.

    Flink's regular join: rows of both sides are kept for as long as they are there. `kind` is no CROSS: that is an INNER
    without keys and condition. `ttl_us`: rows with a key that nothing touched for so long are forgotten. Over two
    `Arrangement`s it keeps nothing itself. `merged`: it is an INNER join that is computed by the one that reads it, by the
    same keys, together with that.
    """

    kind: JoinKind
    keys: tuple[EqualKey, ...]
    condition: exp.Expr | None
    meaning: Node = field(metadata=NON_SEMANTIC)
    ttl_us: int | None = None
    merged: bool = False

    @property
    def fields(self) -> Fields:
        """The fields of both, see `joined_fields`."""
        return joined_fields(self.left.fields, self.right.fields, self.kind)

    def is_updating(self, updating: Updating) -> bool:
        # A row without a partner is retracted when one arrives.
        return self.kind.takes_back or updating(self.left) or updating(self.right)

    @property
    def why_updating(self) -> str | None:
        if not self.kind.takes_back:
            return None
        return f"a row of the {self.kind} JOIN without a partner is retracted when one arrives"

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
        return keys_of_pairs(self.left, self.right, self.kind, self.keys, keys)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return frozenset()

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        stays = not self.kind.takes_back and all(timed(i) is not None for i in self.inputs)
        return frozenset() if stays else None

    def is_bounded(self, updating: Updating) -> bool | None:
        return None if is_arranged(self) else False

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
        # What is joined is kept: only what is read behind the join, and what it compares.
        return narrowed_sides(self, needed | self.reads())

    @property
    def named_above(self) -> Fields:
        return ()

    @property
    def title(self) -> str:
        return f"{self.kind.lower()} {'delta' if is_arranged(self) else 'regular'} join"

    @property
    def details(self) -> str:
        condition = (expression_text(self.condition),) if self.condition is not None else ()
        return f"{on_keys(self.keys, *condition)}{moved(self.meaning)}".lstrip()

    @property
    def stored_as(self) -> str:
        return "RegularJoin"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, self.fields)


def is_arranged(node: RegularJoin) -> bool:
    """Whether a join keeps nothing itself: its sides are arrangements, or joins of such that are computed with it."""
    below = node.left
    while isinstance(below, Project):
        below = below.input
    return isinstance(below, Arrangement) or (isinstance(below, RegularJoin) and below.merged)
