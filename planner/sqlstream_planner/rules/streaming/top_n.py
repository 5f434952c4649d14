"""WHERE rn <= 3 over ROW_NUMBER() OVER (…) AS rn  ->  a Top-N; ORDER BY … LIMIT  ->  one of a single partition."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.logical import Filter, Node, OrderLimit, OverWindow, Project
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.rules.streaming.rank_bounds import rank_bounds
from sqlstream_planner.streaming import Over, TopN


def top_n(node: Node, streaming: Streaming) -> Node | None:
    """Make a Top-N of each rank with a condition that bounds it, and of each LIMIT.

    Ranks by a window's end are emitted once, when the window closes, where the rows stay and EMIT CHANGES does not say
    otherwise.

    >>> from sqlstream_planner.rules.streaming.over import over
    >>> from sqlstream_planner.testing import logical, streaming
    >>> ranked = "SELECT a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY c DESC) AS rn FROM t"
    >>> print(logical(f"SELECT a FROM ({ranked}) WHERE rn <= 3", rules=streaming(over, top_n)))
    sink result
      project a = a
        top n 1 to 3 of row_number by a order c desc
          scan t (a, c, ts)
    """
    if isinstance(node, OrderLimit):
        # One partition, which every row touches: it has no time to live.
        meaning = streaming.meaning(node)
        ties = node.ties or ()
        return TopN(node.input, (), node.order, "row_number", node.limit, node.offset, None, ties, meaning)
    return _bounded(node, streaming) if isinstance(node, Filter) else None


def _bounded(node: Filter, streaming: Streaming) -> Node | None:
    """The Top-N of a filter over a rank, with what stands between, or None if it is no such filter."""
    path: list[Project] = []
    below: Node = node.input
    while isinstance(below, Project):
        path.append(below)
        below = below.input
    # A filter between would have left rows out after they were ranked: the rank does not say how many are kept.
    if not isinstance(below, Over) or len(below.calls) != 1 or below.calls[0].rank is None:
        return None
    assert isinstance(below.meaning, OverWindow)
    if below.closing is not None and below.meaning.waits_for_time:
        # That was not known when it was settled what is emitted early: it waits for the watermark.
        return None
    name = below.calls[0].field.id
    for step in reversed(path):
        names = [
            f.id
            for f, e in zip(step.fields, step.items, strict=True)
            if isinstance(e.unnest(), exp.Column) and e.unnest().name == name
        ]
        if not names:
            return None
        name = names[0]
    bounds, rest = rank_bounds(conjuncts(node.predicate), name)
    if bounds.high is None:
        return None
    made: Node = _top(below, bounds.low, bounds.high, streaming)
    for step in reversed(path):
        made = replace(step, input=made)
    return Filter(made, exp.and_(*rest, copy=False)) if rest else made


def _top(over: Over, low: int, high: int, streaming: Streaming) -> TopN:
    assert isinstance(over.meaning, OverWindow)
    [call] = over.calls
    by_id = {f.id: f for f in over.input.fields}
    ends = [id_ for id_ in over.partition if (w := by_id[id_].window) is not None and w.role == "end"]
    once = bool(ends) and not over.meaning.emission.changes and not streaming.changes(over.input)
    mark = by_id[ends[0]].window if once else None
    return TopN(
        over.input,
        over.partition,
        over.order,
        call.name,
        max(0, high - low + 1),
        low - 1,
        call.field,
        over.ties,
        over.meaning,
        window_end=ends[0] if mark is not None else None,
        time=mark.time if mark is not None else None,
        ttl_us=over.ttl_us if mark is None and over.partition else None,
    )
