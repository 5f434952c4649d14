"""What a state of a plan is made of: enough to compute it from another state that holds the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from sqlglot import exp

from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_planner.aggregates.function import Accumulator
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import AggregateCall, Node


@dataclass(frozen=True, slots=True)
class KeptAccumulator:
    """An accumulator in a state: the call that it is of, its place among those of the call, and what it is."""

    call: AggregateCall
    position: int
    accumulator: Accumulator


@dataclass(frozen=True, slots=True)
class StateNode:
    """How the columns of a state are computed from the rows of `node`'s input.

    `keys` and `values` (by table) are expressions over its columns, by the names that they have in the state, and
    `conditions` (by table) those that a row must pass to be in it. `accumulators` are those that are partial aggregates
    of the rows; `distinct` are the operators that feed the others. `at` is the clause in the file.
    """

    node: Node
    meanings: Meanings
    keys: Mapping[str, exp.Expr]
    values: Mapping[str, Mapping[str, exp.Expr]] = field(default_factory=lambda: MappingProxyType({}))
    conditions: Mapping[str, tuple[exp.Expr, ...]] = field(default_factory=lambda: MappingProxyType({}))
    accumulators: Mapping[str, KeptAccumulator] = field(default_factory=lambda: MappingProxyType({}))
    distinct: tuple[DistinctValuesSpec, ...] = ()
    at: Span | None = None


def clause_of(meaning: Node) -> Span | None:
    """Where the clause that an operator was made of stands in the file, if that is known."""
    found = getattr(meaning, "at", None)
    return found if isinstance(found, Span) else None


#: By the ids of a plan's states, what they are made of.
StateNodes: TypeAlias = Mapping[str, StateNode]

NO_NODES: StateNodes = MappingProxyType({})
