"""Which results change after they were given, as the language says it: docs/sql/changes.md.

The referee must know it, since aggregates over append-only rows take them in the order in which they come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream_planner.logical import (
    Aggregate,
    Fields,
    Node,
    OrderLimit,
    OverWindow,
    Scan,
    SessionFunction,
    SetOperation,
    SetOperator,
    Versions,
    walk,
)


def changing(roots: Sequence[Node]) -> dict[int, bool]:
    """By `id(node)`, whether the node's rows are updating."""
    found: dict[int, bool] = {}
    for node in walk(roots):
        found[id(node)] = _changes(node, any(found[id(i)] for i in node.inputs))
    return found


def in_order_of_arrival(node: Aggregate, changes: Mapping[int, bool]) -> bool:
    """Whether the groups are of windows that are emitted once, made of append-only rows."""
    emission = node.emission
    return _in_windows(node.keys) and not (
        emission.changes or emission.lateness_us or changes[id(node.input)]
    )


def _changes(node: Node, below: bool) -> bool:
    match node:
        case Scan():
            return node.changelog
        case Versions():
            return False
        case Aggregate():
            # A window is emitted when it closes; then late rows correct it, if they are allowed.
            if _in_windows(node.keys) and not (node.emission.changes or node.emission.lateness_us):
                return False
            # DISTINCT over append-only rows: a row that was given once is never retracted.
            return bool(node.calls) or node.grouping is not None or not node.keys or below
        case SessionFunction():
            return below or node.early
        case SetOperation():
            return below or not (node.is_union_all or node.operator is SetOperator.UNION)
        case OverWindow():
            return below or node.closed_by is None
        case OrderLimit():
            return True
    return below


def _in_windows(keys: Fields, *roles: str) -> bool:
    return any(f.window is not None and f.window.role in (roles or (f.window.role,)) for f in keys)
