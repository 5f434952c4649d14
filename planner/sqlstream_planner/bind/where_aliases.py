"""Names of the SELECT list in WHERE and before IN (SELECT …), as DuckDB has them: what they stand for, in their place."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.bind.aggregate_calls import aggregate_calls
from sqlstream_planner.bind.over_names import windows_of
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.subqueries import compared_with, places_above


def with_aliases(predicate: exp.Expr, query: exp.Select, scope: Scope) -> exp.Expr:
    """A condition of WHERE without the names of the SELECT list, where no column of FROM (`scope`) is called so.

    What is computed after WHERE, an aggregate or a window, keeps its name, which is refused as any unknown one.
    """
    named = {e.alias.lower(): e.this for e in query.expressions if isinstance(e, exp.Alias)}
    named = {n: e for n, e in named.items() if not (aggregate_calls(e) or windows_of(e))}
    return _replaced(predicate, named, scope) if named else predicate


def with_compared_names(query: exp.Select, scope: Scope) -> exp.Select:
    """A SELECT whose values before IN, and before a comparison with ANY or ALL, of a sub-query have no names of its list:
    `HAVING n IN (SELECT x FROM u)` of `SUM(v) AS n`. Columns of FROM (`scope`) come first.
    """
    named = {e.alias.lower(): e.this for e in query.expressions if isinstance(e, exp.Alias)}
    compared = [e for place in places_above(query) for e in compared_with(place)]
    if not any(_replaced(e, named, scope) is not e for e in compared):
        return query
    query = query.copy()
    for operand in [e for place in places_above(query) for e in compared_with(place)]:
        operand.replace(_replaced(operand, named, scope))
    return query


def _replaced(expression: exp.Expr, named: dict[str, exp.Expr], scope: Scope) -> exp.Expr:
    found = [c for c in _columns(expression) if c.name.lower() in named and scope.find(c) is None]
    if not found:
        return expression
    around = exp.Paren(this=expression.copy())
    for column in _columns(around):
        name = column.name.lower()
        if name in named and scope.find(column) is None:
            others = {n: e for n, e in named.items() if n != name}
            column.replace(exp.paren(_replaced(named[name], others, scope).copy(), copy=False))
    made: exp.Expr = around.this
    return made


def _columns(node: exp.Expr) -> list[exp.Column]:
    """The names without a table's in an expression, not those in its sub-queries."""
    if isinstance(node, exp.Query):
        return []
    if isinstance(node, exp.Column):
        return [] if node.table or isinstance(node.this, exp.Star) else [node]
    return [c for child in node.iter_expressions() for c in _columns(child)]
