"""Groups by keys, kept up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_planner.aggregates.registry import read_at_once
from sqlstream_planner.expressions.passed_on import passed_on
from sqlstream_planner.logical.arity import UnaryNode
from sqlstream_planner.logical.columns import EventTime, Field, Fields
from sqlstream_planner.logical.expressions import reading_only
from sqlstream_planner.logical.node import NON_SEMANTIC, Node, Part
from sqlstream_planner.logical.operator import (
    EARLY,
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
from sqlstream_planner.logical.parts import AggregateCall
from sqlstream_planner.logical.text import by_expressions, calls_text, expression_text


@dataclass(frozen=True, slots=True)
class GroupExpiry(Part):
    """Says when a group can't change any more: the key at `position`, a window's end, is behind the watermark of
    `time`'s sources by `lateness_us`.
    """

    position: int
    time: EventTime
    lateness_us: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupAggregate(StreamingOperator, UnaryNode):
    """Groups rows by keys without an end in time; its result changes with every row.

    `sets` are the grouping sets as positions in `keys` (one set of all keys if the query has none), `grouping` the
    field of the grouping id where there are several. `expiry`: a key that bounds the state (EMIT CHANGES of a window).
    `ttl_us`: a group that nothing touched for so long is forgotten.
    """

    keys: Fields
    key_expressions: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    grouping: Field | None
    calls: tuple[AggregateCall, ...]
    meaning: Node = field(metadata=NON_SEMANTIC)
    expiry: GroupExpiry | None = None
    ttl_us: int | None = None

    @property
    def fields(self) -> Fields:
        """Keys, the grouping id if there is one, and the aggregates."""
        grouping = (self.grouping,) if self.grouping is not None else ()
        return (*self.keys, *grouping, *(c.field for c in self.calls))

    def is_updating(self, updating: Updating) -> bool:
        # DISTINCT over append-only rows: a row that was given once is never retracted.
        return bool(self.calls) or self.grouping is not None or not self.keys or updating(self.input)

    @property
    def why_updating(self) -> str | None:
        if self.expiry is not None:
            return EARLY
        return "an aggregate without a window changes with every row" if self.calls else "its input changes"

    @property
    def corrected(self) -> Corrected:
        return Corrected.ANYTIME if self.expiry is None else Corrected.IN_WINDOW

    @property
    def is_consolidated(self) -> bool:
        return True

    @property
    def given(self) -> Given:
        return Given.AT_ONCE

    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        every = tuple(f.id for f in self.keys)
        if self.grouping is not None:
            return ((*every, self.grouping.id),)
        # Fewer keys are enough: those that vary, and keys of the input among them.
        same = self.constant_columns(constant)
        varying = tuple(id_ for id_ in every if id_ not in same)
        plain = passed_on(self.keys, self.key_expressions, self.input)
        inside = [
            tuple(plain[id_] for id_ in key) for key in keys(self.input) if all(id_ in plain for id_ in key)
        ]
        return tuple(dict.fromkeys([every, varying, *inside]))

    def constant_columns(self, constant: Constant) -> frozenset[str]:
        if self.grouping is not None:
            return frozenset()
        return reading_only(self.keys, self.key_expressions, constant(self.input))

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        return None

    def is_bounded(self, updating: Updating) -> bool | None:
        return self.expiry is not None or not self.keys

    @property
    def time_to_live(self) -> int | None:
        return self.ttl_us

    @property
    def remembers_given(self) -> bool:
        return True

    def answer_keys(self, updating: Updating) -> Mapping[str, exp.Expr] | None:
        plain = self.expiry is None and self.grouping is None and self.ttl_us is None
        retracting = updating(self.input)
        whole = self.sets == (tuple(range(len(self.keys))),)
        if not plain or not whole or not all(read_at_once(c, retracting=retracting) for c in self.calls):
            return None
        return {f.id: e for f, e in zip(self.keys, self.key_expressions, strict=True)}

    def wanted(self, needed: Set[str]) -> tuple[set[str], ...]:
        if self.expiry is None:
            return (self.reads(),)
        # A late row is shown with its own time.
        times = [f.id for f in self.input.fields if f.time is not None and f.window is None]
        return (self.reads() | set(times[:1]),)

    def pruned(self, needed: Set[str]) -> Node:
        return self

    @property
    def named_above(self) -> Fields:
        grouping = (self.grouping,) if self.grouping is not None else ()
        return (*self.keys, *grouping, *(c.field for c in self.calls))

    @property
    def title(self) -> str:
        return "group aggregate" if self.calls or not self.keys else "distinct"

    @property
    def details(self) -> str:
        if self.keys and not self.calls:
            return ", ".join(map(expression_text, self.key_expressions))
        sets = self.sets if self.grouping is not None else ()
        return f"{by_expressions(self.key_expressions, sets)} {calls_text(self.calls)}".lstrip()

    @property
    def stored_as(self) -> str:
        return "GroupAggregate"

    @property
    def stand_in(self) -> StandIn:
        return StandIn(self.meaning, self.fields, self.calls)
