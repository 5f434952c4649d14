"""DISTINCT, the set operations INTERSECT and EXCEPT, and columns of UNION BY NAME."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.logical import Aggregate, Field, Node, Project, SetOperation, SetOperator, column
from sqlstream_planner.sql.datatypes import as_type


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


def by_names(context: BindContext, union: exp.Expr, left: Node, right: Node) -> tuple[Node, Node]:
    """Both sides of a UNION BY NAME with the same columns: those of the left, then those that only the right has.

    Names are compared ignoring case; what a side has not is NULL there. Raises DiagnosticError for a name that a side has
    twice.
    """
    for side in (left, right):
        twice = [name for name, n in Counter(f.name.lower() for f in side.fields).items() if n > 1]
        if twice:
            context.fail(
                union,
                "SQL054",
                f"two columns of a query in UNION BY NAME are called `{twice[0]}`",
                help="give them different names",
            )
    mine = {f.name.lower() for f in left.fields}
    wanted = (*left.fields, *(f for f in right.fields if f.name.lower() not in mine))
    return _with_columns(context, left, wanted), _with_columns(context, right, wanted)


def null_of(type_: SqlType) -> exp.Expr:
    """NULL as a value of a type."""
    return exp.Null() if type_.kind in (Kind.UNKNOWN, Kind.NULL) else as_type(exp.Null(), type_)


def _with_columns(context: BindContext, node: Node, wanted: tuple[Field, ...]) -> Node:
    known = {f.name.lower(): f for f in node.fields}
    if [f.name.lower() for f in wanted] == list(known):
        return node
    fields, items = [], list[exp.Expr]()
    for f in wanted:
        own = known.get(f.name.lower())
        if own is None:
            fields.append(replace(fresh(f, context), nullable=True, time=None, window=None))
            items.append(null_of(f.type))
        else:
            fields.append(fresh(own, context))
            items.append(column(own.id))
    return Project(node, tuple(fields), tuple(items))
