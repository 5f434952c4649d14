"""DISTINCT ON, LIMIT of a percentage and WITH TIES: rows by their place among others, kept up to date as a LIMIT is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.limit_counts import MOST_ROWS
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.subqueries import SubqueryBinder
from sqlstream_planner.logical import (
    ColumnId,
    Emission,
    Field,
    Filter,
    Node,
    OrderTerm,
    OverWindow,
    WindowCall,
    column,
    raw,
)

_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def first_of_each(
    context: BindContext, node: Node, on: Sequence[ColumnId], order: Sequence[OrderTerm], at: exp.Expr
) -> tuple[Node, Sequence[Field]]:
    """DISTINCT ON: of the rows with equal values in `on` the first by `order`; and what columns that adds."""
    within = tuple(term for term in order if term.column not in on)
    number = _call(context, "row_number")
    ranked = _over(context, node, tuple(dict.fromkeys(on)), within, (number,), at)
    return Filter(ranked, raw(f"{_name(number)} = 1")), (number.field,)


def with_ties(
    context: BindContext, node: Node, order: Sequence[OrderTerm], rows: int, skipped: int, at: exp.Expr
) -> tuple[Node, Sequence[Field]]:
    """The first rows after those `skipped`, and all that are equal to the last of them; and what columns that adds."""
    rank = _call(context, "rank")
    if not skipped:
        ranked = _over(context, node, (), tuple(order), (rank,), at)
        return Filter(ranked, raw(f"{_name(rank)} <= {rows}")), (rank.field,)
    number = _call(context, "row_number")
    ranked = _over(context, node, (), tuple(order), (rank, number), at)
    kept = raw(f"{_name(rank)} <= {rows + skipped} AND {_name(number)} > {skipped}")
    return Filter(ranked, kept), (rank.field, number.field)


def percentage(
    context: BindContext,
    node: Node,
    order: Sequence[OrderTerm],
    percent: Decimal,
    skipped: int,
    at: exp.Expr,
) -> tuple[Node, Sequence[Field]]:
    """The first `percent` of all rows after those `skipped`, in doubles as DuckDB has it; and what columns that adds."""
    number, count = _call(context, "row_number"), _call(context, "count", _WHOLE)
    ranked = _over(context, node, (), tuple(order), (number, count), at)
    share = f"floor(CAST({percent} AS DOUBLE) / 100 * {_name(count)})"
    place = f"{_name(number)} - {skipped}" if skipped else _name(number)
    after = f" AND {_name(number)} > {skipped}" if skipped else ""
    return Filter(ranked, raw(f"{place} <= {share}{after}")), (number.field, count.field)


def rows_by_subquery(
    subqueries: SubqueryBinder,
    node: Node,
    order: Sequence[OrderTerm],
    limit: exp.Expr | None,
    offset: exp.Expr | None,
) -> tuple[Node, Sequence[Field]]:
    """The first rows, as many as a sub-query gives, after as many as another (NULL: all); and what columns that adds."""
    context = subqueries.context
    number = _call(context, "row_number")
    at = limit if limit is not None else offset
    assert at is not None
    ranked = _over(context, node, (), tuple(order), (number,), at)
    named = replace(number.field, name=number.field.id)
    scope = Scope(context, (Relation(None, (named,), hidden=True),))
    place: exp.Expr = column(number.field.id)
    terms: list[exp.Expr] = []
    if offset is not None:
        skipped = _rows_of(offset, 0)
        terms.append(exp.GT(this=place.copy(), expression=skipped))
        place = exp.Paren(this=exp.Sub(this=place, expression=skipped.copy()))
    if limit is not None:
        terms.append(exp.LTE(this=place, expression=_rows_of(limit, MOST_ROWS)))
    predicate = exp.and_(*terms)
    predicate.meta.update(at.meta)
    resolved, below, inner = subqueries.below(predicate, ranked, scope)
    condition = context.translated(inner.resolve(resolved), inner.fields)
    context.condition(condition, inner.fields, "LIMIT")
    return Filter(below, condition, context.span(at)), (number.field,)


def _rows_of(clause: exp.Expr, otherwise: int) -> exp.Expr:
    """The number that a LIMIT or an OFFSET computes, rounded as DuckDB does."""
    value = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.args.get("expression")
    assert isinstance(value, exp.Expr)
    known = exp.cast(value.copy(), "BIGINT")
    made = exp.Anonymous(this="coalesce", expressions=[known, exp.Literal.number(otherwise)])
    made.meta.update(clause.meta)
    return made


def _call(context: BindContext, name: str, frame: str = "") -> WindowCall:
    return WindowCall(Field(context.new_id(name), name, BIGINT, nullable=False), name, frame=frame)


def _over(
    context: BindContext,
    node: Node,
    partition: tuple[ColumnId, ...],
    order: tuple[OrderTerm, ...],
    calls: tuple[WindowCall, ...],
    at: exp.Expr,
) -> OverWindow:
    # As of a LIMIT, nobody waits for the watermark.
    emission, clauses = Emission(changes=True), context.clauses
    ttl_us = clauses.ttl_us if partition else None
    return OverWindow(node, partition, order, calls, emission=emission, ttl_us=ttl_us, at=context.span(at))


def _name(call: WindowCall) -> str:
    return quote_identifier(call.field.id)
