"""ASOF JOIN that no watermark decides: the nearest row of the right side, kept up to date as nearer ones come."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.bind.joins import Item
from sqlstream_planner.bind.sets import distinct, null_of, set_operation
from sqlstream_planner.logical import (
    ColumnId,
    Field,
    Fields,
    Filter,
    JoinKind,
    LateralJoin,
    Node,
    OrderLimit,
    OrderTerm,
    Project,
    SetOperator,
    column,
    columns_of,
    joined_fields,
    union_all,
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
    the nearest has come, so a row may take another's place later. RIGHT and FULL have the rows of the right too that are
    the nearest of none.
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
    others = kind in (JoinKind.RIGHT, JoinKind.FULL)
    pairs = LateralJoin(
        left.node,
        nearest,
        {JoinKind.RIGHT: JoinKind.INNER, JoinKind.FULL: JoinKind.LEFT}.get(kind, kind),
        context.new_id("asof"),
        tuple(ColumnId(id_) for id_ in sorted(outer)),
        context.clauses.join_ttl_us,
        context.span(join),
    )
    return _with_others(context, pairs, kind, rows, place) if others else pairs


def _with_others(
    context: BindContext, pairs: LateralJoin, kind: JoinKind, rows: Node, place: ColumnId
) -> Node:
    """The pairs, and the `rows` of the right that are in none, beside NULLs.

    Equal rows are distinguished by their number: of those that are chosen one is in pairs. `place` is never NULL in a row
    that is.
    """
    mine, theirs = pairs.input.fields, rows.fields
    there = Filter(pairs, exp.Not(this=exp.Is(this=column(place), expression=exp.Null())), pairs.at)
    chosen = distinct(context, _shown(context, there, theirs))
    both = union_all((_shown(context, rows, theirs), chosen), theirs)
    others = set_operation(context, both, SetOperator.EXCEPT, all_=True)
    fields = joined_fields(mine, theirs, kind)
    known = {f.id: made.id for f, made in zip(theirs, others.fields, strict=True)}
    beside = Project(
        others,
        tuple(fresh(f, context) for f in fields),
        tuple(column(known[f.id]) if f.id in known else null_of(f.type) for f in fields),
    )
    made = union_all((_shown(context, pairs, fields), beside), tuple(fresh(f, context) for f in fields))
    return Project(made, fields, tuple(column(f.id) for f in made.fields))


def _shown(context: BindContext, node: Node, fields: Fields) -> Project:
    """Some columns of a node, under ids of their own."""
    return Project(node, tuple(fresh(f, context) for f in fields), tuple(column(f.id) for f in fields))


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
