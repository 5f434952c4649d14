"""JOIN … ON with a sub-query in the condition: its value becomes a column of the rows that it is about."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.bind.joins import Item, bind_join, check_names, combined, kind_of
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.subqueries import SubqueryBinder, apart, has_subquery
from sqlstream_planner.logical import Filter, JoinKind, Node, columns_of


def asks_in_on(join: exp.Join) -> bool:
    """Whether a JOIN has a sub-query in its ON."""
    on = join.args.get("on")
    return isinstance(on, exp.Expr) and has_subquery(on)


def bind_asking_join(join: exp.Join, left: Item, right: Item, subqueries: SubqueryBinder) -> Item:
    """The pairs of rows that a JOIN makes whose ON asks sub-queries. Raises DiagnosticError.

    Of an inner join that is WHERE over its pairs. Of others each sub-query is asked about the rows of one side, before they
    are joined.
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
    predicate, found, scope = subqueries.asked(join.args["on"], both)
    sides: list[Node] = [left.node, right.node]
    for subquery in found:
        read = {*subquery.outer, *(id_ for e in subquery.operand for id_ in columns_of(e))}
        # One that reads nothing is asked once, whatever the side: of the right, whose rows may have no partner at all.
        number = next((n for n in (1, 0) if read <= {f.id for f in sides[n].fields}), None)
        if number is None:
            context.unsupported(
                join.args["on"],
                f"a sub-query in the ON of a {kind} JOIN that reads both sides",
                help="JOIN a query instead that has what it compares: LEFT JOIN LATERAL (SELECT … WHERE …) AS x ON TRUE",
            )
        sides[number] = subquery.beside(sides[number])
    condition = context.translated(scope.resolve(predicate), scope.fields)
    context.condition(condition, scope.fields, "ON")
    mine, theirs = (Item(node, item.scope) for node, item in zip(sides, (left, right), strict=True))
    return combined(join, mine, theirs, kind, condition)
