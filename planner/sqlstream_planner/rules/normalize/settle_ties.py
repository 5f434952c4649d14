"""ROW_NUMBER() OVER (ORDER BY a)  ->  the same, where rows with one `a` are told apart by the columns that are read."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import ColumnId, Node, OrderLimit, OverWindow, Sink, rebuild, walk
from sqlstream_planner.logical.parts import RANK_FUNCTIONS
from sqlstream_planner.rules.prune.needed_columns import needed_columns


def settle_ties(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """Give each ROW_NUMBER and each LIMIT the columns that rank rows which their ORDER BY leaves equal.

    SQL leaves it open which of them comes first; a result that is kept up to date, replayed, and compared with the
    referee's must not. They are the columns of its input that this one sink's query reads, in an order that depends on
    what they mean and not on where they stand or what they are called. So no other statement of the file changes what
    a statement gives, and nothing that is later made of the plan does.
    """
    return tuple(_settled(root) for root in roots)


def _settled(root: Sink) -> Sink:
    if not any(isinstance(n, OverWindow | OrderLimit) for n in walk((root,))):
        return root
    needed = needed_columns((root,))
    meanings = Meanings()

    def rewrite(node: Node, original: Node) -> Node:
        if not isinstance(node, OverWindow | OrderLimit):
            return node
        assert isinstance(original, OverWindow | OrderLimit)
        if isinstance(node, OverWindow) and node.call.name not in RANK_FUNCTIONS:
            return node
        own = needed[id(original)] | set(original.references())
        chosen = [f.id for f in original.input.fields if f.id in own] or [original.input.fields[0].id]
        forms = meanings.columns(original.input)
        ordered = sorted(chosen, key=lambda id_: forms[id_].digest)
        return replace(node, ties=tuple(ColumnId(id_) for id_ in ordered))

    [settled] = rebuild((root,), rewrite)
    return settled
