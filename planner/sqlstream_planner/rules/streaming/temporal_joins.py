"""ASOF JOIN and FOR SYSTEM_TIME AS OF  ->  a join that keeps versions until no row can ask for them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.diagnostics import refuse
from sqlstream_planner.logical import AsOfJoin, Equality, LookupJoin, Node, Versions, sql
from sqlstream_planner.logical.as_of import time_of_both
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.rules.streaming.regular_joins import equal_key
from sqlstream_planner.streaming import ChangelogNormalize, EqualKey, TemporalJoin


def temporal_joins(node: Node, streaming: Streaming) -> Node | None:
    """Make of each join with versions one that is given by the watermark of both sides, and read versions as they come.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> query = "SELECT x.a, y.c FROM t AS x ASOF LEFT JOIN t AS y ON x.a = y.a AND x.ts > y.ts"
    >>> print(logical(query, rules=streaming(temporal_joins)))
    sink result
      project a = a, c = c_2
        left temporal join on a = a_2 AND ts > ts_2
          scan t (a, c, ts)
          scan t (a, c, ts)
    """
    if isinstance(node, Versions):
        # The changes themselves: what they leave at the end is of no time.
        below = node.input
        return replace(node, input=below.input) if isinstance(below, ChangelogNormalize) else node
    if not isinstance(node, AsOfJoin):
        return None
    for side, name in ((node.left, "before"), (node.right, "behind")):
        if streaming.changes(side):
            refuse(
                node.at,
                "SQL083",
                f"the rows {name} JOIN change, and this join goes by the times of rows that stay",
                notes=("a row is emitted once, when the watermark reaches its time",),
                help="join a table with PRIMARY KEY and WATERMARK by FOR SYSTEM_TIME AS OF, or write a regular JOIN",
            )
    return TemporalJoin(
        node.left,
        node.right,
        node.kind,
        tuple(_key(key, node) for key in node.keys),
        node.left_time,
        node.right_time,
        node.strict,
        None if node.latest else node.ties or (),
        node.gone,
        node.condition,
        time_of_both(node.left.fields, node.right.fields, node.left_time, node.right_time),
        streaming.meaning(node),
        node.forward,
    )


def lookup_joins(node: Node, streaming: Streaming) -> Node | None:
    """Give lookup joins as they are. Raises DiagnosticError (SQL085) for one of rows that change.

    A retracted row would find another one than it found when it came.
    """
    if isinstance(node, LookupJoin) and streaming.changes(node.left):
        refuse(
            node.at,
            "SQL085",
            "the rows before JOIN are updating, so a retraction may find another row than its insertion",
            notes=("the table may have been changed in between; what a row found is not kept",),
            help="look up before rows are grouped or ranked, in windows that are emitted once, or write a regular JOIN with "
            "a table that is a source",
        )
    return None


def _key(key: Equality, node: AsOfJoin) -> EqualKey:
    """An equality by which rows can be kept; refused where the two sides have no type in which they can be compared."""
    found = equal_key(exp.EQ(this=key.left, expression=key.right), node.left.fields, node.right.fields)
    if found is None:
        refuse(
            node.at,
            "SQL082",
            f"{sql(key.left)} and {sql(key.right)} are of types whose values can't be kept as one",
            help="cast one side to the type of the other",
        )
    return found
