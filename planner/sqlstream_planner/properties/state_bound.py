"""Whether the watermark bounds a node's state."""

from __future__ import annotations

from sqlstream_planner.logical import (
    Arrangement,
    ChangelogNormalize,
    FirstRow,
    GroupAggregate,
    IntervalJoin,
    Node,
    Over,
    RegularJoin,
    SessionAggregate,
    SessionWindows,
    SuppressUntilClose,
    TemporalJoin,
    TopN,
    WindowAggregate,
    is_arranged,
)
from sqlstream_planner.properties.changelog import Changes
from sqlstream_planner.window_totals import carried_call, kept_of


def bounded_state(node: Node, changes: Changes) -> bool | None:
    """None for a stateless node, else whether its state stays bounded as time goes on."""
    match node:
        case (
            WindowAggregate() | SuppressUntilClose() | SessionWindows() | SessionAggregate() | IntervalJoin()
        ):
            return True
        case GroupAggregate():
            return node.expiry is not None or not node.keys
        case TopN():
            return node.window_end is not None or (not node.partition and not changes(node.input))
        case Over() if node.closing is not None:
            return _is_bounded(node)
        case RegularJoin() if is_arranged(node):
            return None
        case Arrangement() if node.answered:
            return None
        case Arrangement() | ChangelogNormalize() | FirstRow() | RegularJoin() | Over():
            return False
        case TemporalJoin():
            # The newest version of each key stays.
            return not node.keys
    return None


def _is_bounded(node: Over) -> bool:
    """Of what is given once: whether rows are kept for a time only, or for no more than the one partition."""
    if node.closing in node.partition:
        return True
    carried = [carried_call(call) is not None for call in node.calls]
    kept = kept_of(tuple(call for call, goes_on in zip(node.calls, carried, strict=True) if not goes_on))
    by_key = any(carried) or kept.places > 0
    return not kept.everything and not (by_key and node.partition)
