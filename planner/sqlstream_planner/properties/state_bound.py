"""Whether the watermark bounds a node's state."""

from __future__ import annotations

from sqlstream_planner.logical import (
    ChangelogNormalize,
    FirstRow,
    GroupAggregate,
    Node,
    RegularJoin,
    SuppressUntilClose,
    TopN,
    WindowAggregate,
)
from sqlstream_planner.properties.changelog import Changes


def bounded_state(node: Node, changes: Changes) -> bool | None:
    """None for a stateless node, else whether its state stays bounded as time goes on."""
    match node:
        case WindowAggregate() | SuppressUntilClose():
            return True
        case GroupAggregate():
            return node.expiry is not None or not node.keys
        case TopN():
            return node.window_end is not None or (not node.partition and not changes(node.input))
        case ChangelogNormalize() | FirstRow() | RegularJoin():
            return False
    return None
