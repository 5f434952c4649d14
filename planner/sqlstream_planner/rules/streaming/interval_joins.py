"""JOIN … ON a = b AND l.ts BETWEEN r.ts - … AND r.ts + …  ->  a join whose state goes with the watermark."""

from __future__ import annotations

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import Join, JoinKind, Node
from sqlstream_planner.properties.time_bounds import time_bound
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.rules.streaming.regular_joins import keys_and_rest
from sqlstream_planner.streaming import IntervalJoin


def interval_joins(node: Node, streaming: Streaming) -> Node | None:
    """Make of each join whose condition bounds how far apart in time rows are one that keeps them no longer than that.

    Both sides must be append-only, and their times follow a watermark; bounds of windows do, too. It takes every
    spelling from which a bound follows.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> query = "SELECT x.a FROM t AS x JOIN t AS y ON x.a = y.a AND x.ts BETWEEN y.ts AND y.ts + INTERVAL '1' HOUR"
    >>> print(logical(query, rules=streaming(interval_joins)))
    sink result
      project a = a
        inner interval join on a = a_2 AND ts BETWEEN ts_2 AND ts_2 + INTERVAL '1' HOUR
          scan t (a, c, ts)
          scan t (a, c, ts)
    """
    if not isinstance(node, Join):
        return None
    bound = node.bound
    changing = any(streaming.changes(i) for i in node.inputs)
    if bound is None and not changing:
        bound = time_bound(node.left, node.right, node.condition, streaming.timed)
    if bound is None:
        return None
    for side, id_ in ((node.left, bound.left), (node.right, bound.right)):
        if changing or id_ not in (streaming.timed(side) or ()):
            raise InternalError(
                f"a join was bound to be one in time, but {id_} does not follow the watermark"
            )
    keys, rest = keys_and_rest(node)
    kind = JoinKind.INNER if node.kind is JoinKind.CROSS else node.kind
    return IntervalJoin(node.left, node.right, kind, keys, rest, bound, streaming.meaning(node))
