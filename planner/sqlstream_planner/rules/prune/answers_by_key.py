"""What keeps its answer by the keys of a join, so that the join has nothing to keep of that side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.types import INTEGERS, NESTED, SqlType
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import (
    AggregateCall,
    ArrangedBy,
    Filter,
    GroupAggregate,
    Node,
    Project,
    TopN,
    substitute,
)
from sqlstream_planner.properties.changelog import Changes


@dataclass(frozen=True, slots=True)
class Answering:
    """An operator that keeps what it gives by the keys of a join, one row a key at most.

    `keys` are its columns that the keys are, `order` is the order in which it has them, by their numbers.
    """

    operator: Node
    keys: tuple[str, ...]
    order: tuple[int, ...]

    @property
    def is_in_order(self) -> bool:
        """Whether the join has the keys in the operator's order."""
        return self.order == tuple(range(len(self.order)))

    def in_order(self, order: Sequence[int]) -> Answering:
        """The same of a join with its keys in another order, by their numbers."""
        keys = tuple(self.keys[n] for n in order)
        return replace(self, keys=keys, order=tuple(order.index(n) for n in self.order))


def answering(
    side: Node, keys: Sequence[ArrangedBy], meanings: Meanings, changes: Changes
) -> Answering | None:
    """The operator that filters and projections make the rows of a join's side of, if its keys are the join's."""
    node = side
    values = [key.expression for key in keys]
    while isinstance(node, Project | Filter):
        if isinstance(node, Project):
            items = {f.id: e for f, e in zip(node.fields, node.items, strict=True)}
            values = [substitute(value.unnest(), items) for value in values]
        node = node.input
    kept_by = _kept_by(node, changes)
    if kept_by is None:
        return None
    types = {f.id: f.type for f in node.fields}
    names = [value.unnest().name for value in values if isinstance(value.unnest(), exp.Column)]
    if len(names) < len(keys) or len(set(names)) < len(names) or set(names) != set(kept_by):
        return None
    if not all(_found_by(types[name], key.type) for name, key in zip(names, keys, strict=True)):
        return None
    meant = [meanings.key(name, node).digest for name in names]
    if len(set(meant)) < len(meant):
        return None  # what means the same is one key of the state
    order = sorted(range(len(keys)), key=meant.__getitem__)
    return Answering(node, tuple(names), tuple(order))


def _found_by(kept: SqlType, wanted: SqlType) -> bool:
    """Whether what is kept by values of one type is in the shard, and is found, by those of another."""
    return kept == wanted or (kept.kind in INTEGERS and wanted.kind in INTEGERS)


def _kept_by(node: Node, changes: Changes) -> Sequence[str] | None:
    """The columns by which an operator keeps its answer, one row of each; None if it doesn't, or one takes long to read."""
    if isinstance(node, GroupAggregate):
        every = tuple(range(len(node.keys)))
        plain = node.expiry is None and node.grouping is None and node.ttl_us is None
        retracting = changes(node.input)
        if plain and node.sets == (every,) and all(_read_at_once(c, retracting) for c in node.calls):
            return [f.id for f in node.keys] or None
    if isinstance(node, TopN) and node.ttl_us is None and node.gives_first and not changes(node.input):
        return node.partition
    return None


def _read_at_once(call: AggregateCall, retracting: bool) -> bool:
    """Whether an aggregate is kept as it is, or one value away, and not as all values of the group."""
    function = function_of(call)
    if call.distinct and not function.distinct_is_noop:
        return function.over_changes is not None and function.over_changes(call) is not None
    if function.decomposed(call, None, retracting=retracting) is not None:
        return True
    nested = any(type_.kind in NESTED for type_ in call.argument_types)
    return function.values.pick != "all" and not nested and not call.order_by
