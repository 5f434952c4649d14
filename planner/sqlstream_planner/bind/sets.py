"""DISTINCT and the set operations INTERSECT and EXCEPT."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.logical import Aggregate, Node, SetOperation, SetOperator, column


def distinct(context: BindContext, node: Node) -> Node:
    """The rows of `node`, each once."""
    keys = tuple(replace(fresh(f, context), time=None, window=None) for f in node.fields)
    expressions = tuple(column(f.id) for f in node.fields)
    sets = (tuple(range(len(keys))),)
    return Aggregate(node, keys, expressions, sets, None, (), ttl_us=context.clauses.ttl_us)


def set_operation(
    context: BindContext, union: SetOperation, operator: SetOperator, *, all_: bool
) -> SetOperation:
    """INTERSECT or EXCEPT [ALL] of the two branches of `union`, whose columns are of both branches' types."""
    fields = tuple(replace(fresh(f, context), time=None, window=None) for f in union.fields)
    return SetOperation(union.branches, fields, operator, all_, context.clauses.ttl_us)
