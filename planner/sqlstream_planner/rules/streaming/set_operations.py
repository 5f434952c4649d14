"""INTERSECT and EXCEPT  ->  a count of each row in each branch, and the rows whose counts say so."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, TINYINT
from sqlstream_planner.logical import (
    AggregateCall,
    Field,
    Filter,
    Node,
    Project,
    SetOperation,
    SetOperator,
    Unnest,
    column,
    raw,
    union_all,
)
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.streaming import GroupAggregate


def set_operations(node: Node, streaming: Streaming) -> Node | None:
    """Make a group aggregate of each INTERSECT and EXCEPT: what a multiset holds is a count for each row.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> print(logical("SELECT a FROM t EXCEPT SELECT c FROM t", rules=streaming(set_operations)))
    sink result
      project a = a_5
        filter "a_5.left" > 0 AND "a_5.right" = 0
          group aggregate by "a_5.either" calls left_rows, right_rows
            union all
              project a = a, branch = CAST(0 AS TINYINT)
                scan t (a, c, ts)
              project c = c_2, branch = CAST(1 AS TINYINT)
                scan t (a, c, ts)
    """
    if not isinstance(node, SetOperation) or node.is_union_all:
        return None
    return _counted(node, streaming.meaning(node))


def _counted(node: SetOperation, meaning: Node) -> Node:
    base = node.fields[0].id
    tag = Field(f"{base}.branch", "branch", TINYINT, False)
    tagged = [
        Project(
            branch,
            (*branch.fields, replace(tag, id=f"{tag.id}_{number}")),
            (*(column(f.id) for f in branch.fields), raw(f"CAST({number} AS TINYINT)")),
        )
        for number, branch in enumerate(node.branches)
    ]
    # The rows of both under ids of their own: those of the result are what they are grouped by.
    either = tuple(replace(f, id=f"{f.id}.either") for f in node.fields)
    both = union_all(tagged, (*either, tag))
    counts = [Field(f"{base}.{side}", f"{side}_rows", BIGINT, False) for side in ("left", "right")]
    calls = tuple(
        AggregateCall(
            f, "count", (), (), filter=exp.EQ(this=column(tag.id), expression=exp.Literal.number(n))
        )
        for n, f in enumerate(counts)
    )
    expressions = tuple(column(f.id) for f in either)
    counted: Node = GroupAggregate(
        both,
        node.fields,
        expressions,
        (tuple(range(len(node.fields))),),
        None,
        calls,
        meaning,
        ttl_us=node.ttl_us,
    )
    left, right = (f'"{f.id}"' for f in counts)
    intersects = node.operator is SetOperator.INTERSECT
    if node.all_:
        copies = f"least({left}, {right})" if intersects else f"greatest({left} - {right}, 0)"
        copy = Field(f"{base}.copy", "copy", BIGINT, False)
        counted = Unnest(counted, raw(f"range({copies})"), (copy,), False, None, False)
    else:
        counted = Filter(counted, raw(f"{left} > 0 AND {right} {'> 0' if intersects else '= 0'}"))
    return Project(counted, node.fields, tuple(column(f.id) for f in node.fields))
