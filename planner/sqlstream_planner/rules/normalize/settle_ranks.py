"""WHERE rn <= 3 over ROW_NUMBER() OVER (ORDER BY ts) AS rn  ->  the same, where the rank is kept up to date."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.logical import Emission, Filter, Node, OverWindow, Project, Sink, rebuild
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules.streaming.rank_bounds import rank_bounds


def settle_ranks(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """Say of each rank by time that a condition bounds that it doesn't wait for the watermark: it becomes a Top-N.

    As in Flink, deduplication gives the first row when it comes, and takes it back for one that is before it.

    >>> from sqlstream_planner.rules.streaming.over import over
    >>> from sqlstream_planner.rules.streaming.top_n import top_n
    >>> from sqlstream_planner.testing import logical, streaming
    >>> ranked = "SELECT a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts) AS rn FROM t"
    >>> print(logical(f"SELECT a FROM ({ranked}) WHERE rn = 1", rules=streaming(over, top_n)))
    sink result
      project a = a
        top n 1 to 1 of row_number by a order ts
          scan t (a, c, ts)
    >>> print(logical(f"SELECT a FROM ({ranked}) WHERE rn % 2 = 1", rules=streaming(over, top_n)))
    sink result
      project a = a_2
        filter rn % 2 = 1
          project a = a, rn = row_number
            over aggregate row_number by a order ts
              scan t (a, c, ts)
    """

    def rewrite(node: Node, original: Node) -> Node:
        return _early(node) if isinstance(node, Filter) else node

    return rebuild(roots, rewrite)


def _early(node: Filter) -> Node:
    path: list[Project] = []
    below: Node = node.input
    while isinstance(below, Project):
        path.append(below)
        below = below.input
    if not isinstance(below, OverWindow) or not below.waits_for_time or len(below.calls) != 1:
        return node
    [call] = below.calls
    name = call.field.id
    for step in reversed(path):
        names = [
            f.id
            for f, e in zip(step.fields, step.items, strict=True)
            if isinstance(e.unnest(), exp.Column) and e.unnest().name == name
        ]
        if not names:
            return node
        name = names[0]
    if call.rank is None or rank_bounds(conjuncts(node.predicate), name)[0].high is None:
        return node
    made: Node = replace(below, emission=Emission(changes=True))
    for step in reversed(path):
        made = replace(step, input=made)
    return replace(node, input=made)
