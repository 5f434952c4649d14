"""JOIN … ON with a sub-query in the condition: its value becomes a column of the rows that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.bind.joins import Item, bind_join, check_names, combined, kind_of
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.subqueries import BoundSubquery, SubqueryBinder, apart, has_subquery
from sqlstream_planner.logical import ColumnId, Filter, JoinKind, LateralJoin, Node, columns_of


def asks_in_on(join: exp.Join) -> bool:
    """Whether a JOIN has a sub-query in its ON."""
    on = join.args.get("on")
    return isinstance(on, exp.Expr) and has_subquery(on)


def bind_asking_join(join: exp.Join, left: Item, right: Item, subqueries: SubqueryBinder) -> Item:
    """The pairs of rows that a JOIN makes whose ON asks sub-queries. Raises DiagnosticError.

    Of an inner join that is WHERE over its pairs. Of others each sub-query is computed for the rows of one side, before they
    are joined; of a LEFT JOIN it may be about pairs.
    """
    clauses = left.scope.context.clauses
    ttl_us, clauses.ttl_us = clauses.ttl_us, clauses.join_ttl_us
    try:
        kind = kind_of(join)
        if kind is None or kind in (JoinKind.INNER, JoinKind.CROSS):
            return _where(join, left, right, subqueries)
        return _beforehand(join, left, right, kind, subqueries)
    finally:
        clauses.ttl_us = ttl_us


def _where(join: exp.Join, left: Item, right: Item, subqueries: SubqueryBinder) -> Item:
    *plain, asking = apart(join.args["on"])
    bare = join.copy()
    bare.set("on", plain[0] if plain else exp.true())
    pairs = bind_join(bare, left, right)
    context = pairs.scope.context
    predicate, node, scope = subqueries.below(asking, pairs.node, pairs.scope)
    resolved = context.translated(scope.resolve(predicate), scope.fields)
    context.condition(resolved, scope.fields, "ON")
    node = Filter(node, resolved, context.span(asking))
    return Item(node, pairs.scope.over(node))


def _beforehand(join: exp.Join, left: Item, right: Item, kind: JoinKind, subqueries: SubqueryBinder) -> Item:
    context = left.scope.context
    check_names(join, left.scope, right.scope)
    both = Scope(context, (*left.scope.relations, *right.scope.relations))
    predicate, found, scope = subqueries.extracted(join.args["on"], both)
    condition = context.translated(scope.resolve(predicate), scope.fields)
    context.condition(condition, scope.fields, "ON")
    sides: list[Node] = [left.node, right.node]
    for subquery in found:
        read = _read(subquery)
        # One that reads nothing is computed once, whatever the side: of the right, whose rows may have no partner at all.
        number = next((n for n in (1, 0) if read <= {f.id for f in sides[n].fields}), None)
        if number is None and kind is JoinKind.LEFT:
            return _row_by_row(join, left, right, condition, found)
        if number is None:
            context.unsupported(
                join.args["on"],
                f"a sub-query in the ON of a {kind} JOIN that reads both sides",
                help="a LEFT JOIN can: turn a RIGHT JOIN round; for SEMI and ANTI write WHERE EXISTS over a JOIN",
            )
        sides[number] = subquery.beside(sides[number])
    mine, theirs = (Item(node, item.scope) for node, item in zip(sides, (left, right), strict=True))
    return combined(join, mine, theirs, kind, condition)


def _row_by_row(
    join: exp.Join, left: Item, right: Item, condition: exp.Expr, found: Sequence[BoundSubquery]
) -> Item:
    """A LEFT JOIN whose ON asks sub-queries about pairs: LATERAL, with ON as its WHERE."""
    context = left.scope.context
    theirs = {f.id for f in right.node.fields}
    node = right.node
    for subquery in found:
        node = replace(
            subquery, outer={id_: at for id_, at in subquery.outer.items() if id_ in theirs}
        ).beside(node)
    read = columns_of(condition).union(*map(_read, found)) & {f.id for f in left.node.fields}
    span = context.span(join)
    pairs = LateralJoin(
        left.node,
        Filter(node, condition, span),
        JoinKind.LEFT,
        context.new_id("lateral"),
        tuple(ColumnId(id_) for id_ in sorted(read)),
        context.clauses.join_ttl_us,
        span,
    )
    return Item(pairs, Scope(context, (*left.scope.relations, *right.scope.relations)).over(pairs))


def _read(subquery: BoundSubquery) -> set[str]:
    """The columns of the outer rows a sub-query reads, in it or in what it is compared with."""
    return {*subquery.outer, *(id_ for e in subquery.operand for id_ in columns_of(e))}
