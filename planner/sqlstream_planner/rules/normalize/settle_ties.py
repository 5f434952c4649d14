"""OVER (ORDER BY a)  ->  the same, where rows with one `a` are distinguished by the columns that are read."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import (
    AsOfJoin,
    ColumnId,
    Node,
    OrderLimit,
    OverWindow,
    Sink,
    columns_of,
    rebuild,
    walk,
)
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules.prune.needed_columns import needed_columns


def settle_ties(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """Give each OVER, LIMIT and ASOF JOIN the columns that order rows which their ORDER BY leaves equal.

    SQL leaves it open which of them comes first; a result that is kept up to date, replayed, and compared with the
    referee's must not. They are the columns of its input that this one sink's query reads, in an order that depends on
    what they mean and not on where they stand or what they are called. So no other statement of the file changes what
    a statement gives, and nothing that is later made of the plan does.
    """
    return tuple(_settled(root) for root in roots)


def _settled(root: Sink) -> Sink:
    if not any(isinstance(n, OverWindow | OrderLimit | AsOfJoin) for n in walk((root,))):
        return root
    needed = needed_columns((root,))
    meanings = Meanings()

    def ties_of(rows: Node, own: set[str]) -> tuple[ColumnId, ...]:
        """Those of the columns `own` that are of `rows`, in the order of what they mean."""
        chosen = [f.id for f in rows.fields if f.id in own] or [rows.fields[0].id]
        forms = meanings.columns(rows)
        return tuple(ColumnId(id_) for id_ in sorted(chosen, key=lambda id_: forms[id_].digest))

    def rewrite(node: Node, original: Node) -> Node:
        if isinstance(node, AsOfJoin):
            assert isinstance(original, AsOfJoin)
            return (
                node
                if node.latest
                else replace(node, ties=ties_of(original.right, needed[id(original.right)]))
            )
        if not isinstance(node, OverWindow | OrderLimit):
            return node
        assert isinstance(original, OverWindow | OrderLimit)
        own = needed[id(original)] | set(original.references())
        own = own.union(*(columns_of(e) for e in original.expressions()))
        return replace(node, ties=ties_of(original.input, own))

    [settled] = rebuild((root,), rewrite)
    return settled
