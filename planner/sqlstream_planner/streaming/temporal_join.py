"""Each row beside the version of another that is valid at its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_planner.logical.arity import BinaryNode
from sqlstream_planner.logical.as_of import as_of_fields
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
from sqlstream_planner.logical.parts import JoinKind
from sqlstream_planner.logical.text import on_keys, where_text
from sqlstream_planner.streaming.join_keys import EqualKey
from sqlstream_planner.streaming.narrowed import narrowed_sides


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TemporalJoin(StreamingOperator, BinaryNode):
    """Each row of the left beside the version of the right that is valid at its time, as in `AsOfJoin`.

    Both sides are append-only. A row is emitted when the watermark of `time` reaches its own; versions that no row can ask
    for any more are forgotten. `ties` is None where the last version that came counts.
    """

    kind: JoinKind
    keys: tuple[EqualKey, ...]
    left_time: ColumnId
    right_time: ColumnId
    strict: bool
    ties: tuple[ColumnId, ...] | None
    gone: ColumnId | None
    condition: exp.Expr | None
    time: EventTime
    meaning: Node = field(metadata=NON_SEMANTIC)
    forward: bool = False

    @property
    def fields(self) -> Fields:
        """The fields of both, see `as_of_fields`."""
        return as_of_fields(
            self.left.fields,
            self.right.fields,
            self.kind,
            self.left_time,
            self.right_time,
            forward=self.forward,
        )

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
        return keys(self.left)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return frozenset()

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        return None

    def is_bounded(self, updating: Updating) -> bool | None:
        # The newest version of each key stays.
        return not self.keys

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
        return f"{self.kind.lower()} temporal join"

    @property
    def details(self) -> str:
        sign = ("<" if self.forward else ">") + ("" if self.strict else "=")
        compared = f"{self.left_time} {sign} {self.right_time}"
        return f"{on_keys(self.keys, compared)}{where_text(self.condition)}".lstrip()

    @property
    def stored_as(self) -> str:
        return "TemporalJoin"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, self.fields)
