"""Rows with the bounds of their session."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

from sqlstream_operators.plan.window_spec import WindowSpec
from sqlstream_planner.logical.algebra import held_back
from sqlstream_planner.logical.columns import ColumnId, EventTime, Field, Fields
from sqlstream_planner.logical.node import NON_SEMANTIC, Node
from sqlstream_planner.logical.operator import (
    Constant,
    Key,
    Keys,
    StandIn,
)
from sqlstream_planner.logical.text import by_columns, describe_window
from sqlstream_planner.streaming.narrowed import narrowed
from sqlstream_planner.streaming.session_operator import SessionOperator


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionWindows(SessionOperator):
    """Each row with the bounds of its session: when that closes, or (`early`) at once, and again when it changes.

    `time` says when sessions close: those whose end is `lateness_us` behind its watermark.
    """

    window: WindowSpec
    partition: tuple[ColumnId, ...]
    time_column: ColumnId
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
        """The input's fields, whose times the watermark has passed, and the three window columns."""
        return (*held_back(self.input.fields), self.start, self.end, self.window_time)

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        return keys(self.input)

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        return constant(self.input)

    def wanted(self, needed: Set[str]) -> tuple[set[str], ...]:
        return self.reads_through(needed)

    def pruned(self, needed: Set[str]) -> Node:
        # Rows wait for their session to close: only what is read behind that is kept.
        return replace(self, input=narrowed(self.input, needed | set(self.references())))

    @property
    def named_above(self) -> Fields:
        return ()

    @property
    def title(self) -> str:
        return "session windows"

    @property
    def details(self) -> str:
        early = ", rows at once" if self.early else ""
        window = describe_window(self.window, self.time_column)
        return f"{window}{by_columns(self.partition)}{early}"

    @property
    def stored_as(self) -> str:
        return "SessionWindows"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, self.fields)
