"""DISTINCT and the set operations as group aggregates: what a multiset holds is a count for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, TINYINT
from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.logical import (
    AggregateCall,
    Field,
    Fields,
    Filter,
    GroupAggregate,
    Node,
    Project,
    Union,
    Unnest,
    column,
    raw,
)


def distinct(context: BindContext, node: Node) -> Node:
    """The rows of `node`, each once."""
    keys = tuple(replace(fresh(f, context), time=None, window=None) for f in node.fields)
    expressions = tuple(column(f.id) for f in node.fields)
    sets = (tuple(range(len(keys))),)
    return GroupAggregate(node, keys, expressions, sets, None, (), ttl_us=context.clauses.ttl_us)


def set_operation(context: BindContext, union: Union, kind: str, *, all_: bool) -> Node:
    """INTERSECT or EXCEPT [ALL] of the two branches of `union`, by how often each has a row."""
    left, right = union.branches
    tag = Field(context.new_id("branch"), "branch", TINYINT, False)
    tagged = []
    for number, branch in enumerate((left, right)):
        own = replace(tag, id=context.new_id("branch"))
        tagged.append(
            Project(
                branch,
                (*branch.fields, own),
                (*(column(f.id) for f in branch.fields), raw(f"CAST({number} AS TINYINT)")),
            )
        )
    both = Union(tuple(tagged), (*union.fields, tag))
    keys = tuple(replace(fresh(f, context), time=None, window=None) for f in union.fields)
    counts = [Field(context.new_id(name), name, BIGINT, False) for name in ("left_rows", "right_rows")]
    calls = tuple(
        AggregateCall(
            f, "count", (), (), filter=exp.EQ(this=column(tag.id), expression=exp.Literal.number(n))
        )
        for n, f in enumerate(counts)
    )
    expressions = tuple(column(f.id) for f in union.fields)
    sets = (tuple(range(len(keys))),)
    ttl_us = context.clauses.ttl_us
    counted: Node = GroupAggregate(both, keys, expressions, sets, None, calls, ttl_us=ttl_us)
    mine, others = (f'"{f.id}"' for f in counts)
    if all_:
        copies = f"least({mine}, {others})" if kind == "INTERSECT" else f"greatest({mine} - {others}, 0)"
        number_ = Field(context.new_id("copy"), "copy", BIGINT, False)
        counted = Unnest(counted, raw(f"range({copies})"), (number_,), False, None, False)
    else:
        condition = f"{mine} > 0 AND {others} {'> 0' if kind == 'INTERSECT' else '= 0'}"
        counted = Filter(counted, raw(condition))
    return _only(context, counted, keys)


def _only(context: BindContext, node: Node, fields: Sequence[Field]) -> Node:
    """`node` with these columns and no others."""
    shown: Fields = tuple(fresh(f, context) for f in fields)
    return Project(node, shown, tuple(column(f.id) for f in fields))
