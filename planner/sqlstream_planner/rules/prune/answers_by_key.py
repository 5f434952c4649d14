"""What keeps its result by the keys of a join, so that the join has nothing to keep of that side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.types import INTEGERS, SqlType
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import Filter, Node, Project, StreamingOperator, substitute
from sqlstream_planner.properties.changelog import Changes
from sqlstream_planner.streaming import ArrangedBy


@dataclass(frozen=True, slots=True)
class Answering:
    """An operator that keeps what it gives by the keys of a join, one row per key at most.

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
    kept_by = node.answer_keys(changes) if isinstance(node, StreamingOperator) else None
    if not kept_by:
        return None
    types = {f.id: f.type for f in node.fields}
    names = [value.unnest().name for value in values if isinstance(value.unnest(), exp.Column)]
    if len(names) < len(keys) or len(set(names)) < len(names) or set(names) != set(kept_by):
        return None
    if not all(_found_by(types[name], key.type) for name, key in zip(names, keys, strict=True)):
        return None
    meant = [meanings.expression(kept_by[name], node.inputs[0]).digest for name in names]
    if len(set(meant)) < len(meant):
        return None  # what means the same is one key of the state
    order = sorted(range(len(keys)), key=meant.__getitem__)
    return Answering(node, tuple(names), tuple(order))


def _found_by(kept: SqlType, wanted: SqlType) -> bool:
    """Whether what is kept by values of one type is in the shard, and is found, by those of another."""
    return kept == wanted or (kept.kind in INTEGERS and wanted.kind in INTEGERS)
