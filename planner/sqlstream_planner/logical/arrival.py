"""Whether rows are ordered by when they came: those of a later epoch behind all that came before."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.logical import (
    EpochKind,
    EpochValues,
    Filter,
    Node,
    OrderTerm,
    Project,
    Unnest,
    WindowFunction,
)


def is_first_come(node: Node, order: tuple[OrderTerm, ...]) -> bool:
    """Whether `order` puts each row of `node` behind all rows of the epochs before its own.

    Its first term is the number of the epoch that read the row, and nothing between holds rows back for a later one.
    """
    return bool(order) and not order[0].descending and _is_arrival(node, order[0].column)


def _is_arrival(node: Node, id_: str) -> bool:
    match node:
        case EpochValues():
            kinds = [value.kind for value in node.values if value.field.id == id_]
            return kinds == [EpochKind.ARRIVAL] or (not kinds and _is_arrival(node.input, id_))
        case Project():
            for f, item in zip(node.fields, node.items, strict=True):
                if f.id == id_:
                    bare = item.unnest()
                    return isinstance(bare, exp.Column) and _is_arrival(node.input, bare.name)
            return False
        case Filter() | Unnest() | WindowFunction():
            own = {f.id for f in node.fields} - {f.id for f in node.input.fields}
            return id_ not in own and _is_arrival(node.input, id_)
    return False
