"""ASOF JOIN by values that are no event times: the nearest row of the right side, kept up to date as nearer ones come."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_planner.bind.joins import Item
from sqlstream_planner.logical import (
    ColumnId,
    Field,
    Filter,
    JoinKind,
    LateralJoin,
    Node,
    OrderLimit,
    OrderTerm,
    Project,
    column,
    columns_of,
)


def nearest_by_value(
    join: exp.Join,
    kind: JoinKind,
    terms: Sequence[exp.Expr],
    compared: tuple[exp.Expr, type[exp.Expr]],
    left: Item,
    right: Item,
) -> Node:
    """Each row of the left beside the first of those of the right that satisfy all `terms`, by what is `compared`.

    That is a LATERAL with ORDER BY … LIMIT 1. Of several rows that are as near the least is taken. No watermark says when
    the nearest has come, so a row may take another's place later.
    """
    context = left.scope.context
    value, compares = compared
    rows, place = _with_column(right, value)
    condition = exp.and_(*(term.copy() for term in terms))
    nearest = OrderLimit(
        Filter(rows, condition, context.span(join)),
        (OrderTerm(place, descending=compares in (exp.GTE, exp.GT), nulls_first=False),),
        1,
        0,
    )
    outer = {f.id for f in left.node.fields} & columns_of(condition)
    return LateralJoin(
        left.node,
        nearest,
        kind,
        context.new_id("asof"),
        tuple(ColumnId(id_) for id_ in sorted(outer)),
        context.clauses.join_ttl_us,
        context.span(join),
    )


def _with_column(side: Item, value: exp.Expr) -> tuple[Node, ColumnId]:
    """The rows of a side, and the column that has `value`: one more if none of its own does."""
    bare = value.unnest()
    if isinstance(bare, exp.Column):
        return side.node, ColumnId(bare.name)
    context = side.scope.context
    typed = context.type_of(value, side.node.fields)
    made = Field(context.new_id("asof_value"), "asof_value", typed.type, typed.nullable)
    given = side.node.fields
    kept = tuple(column(f.id) for f in given)
    return Project(side.node, (*given, made), (*kept, value)), ColumnId(made.id)
