"""UNNEST inside expressions: where it is."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.expressions.functions.calls import WrittenCall, written_call

_UNNEST = ("unnest", "unlist")


def unnest_call(node: exp.Expr) -> WrittenCall | None:
    """The call of UNNEST that `node` is, None if it is nothing of the kind."""
    if not isinstance(node, exp.Anonymous | exp.Unnest | exp.Explode):
        return None
    call = written_call(node)
    return call if call is not None and call.name in _UNNEST else None


def unnests_of(expression: exp.Expr) -> list[exp.Expr]:
    """The outermost UNNESTs of an expression, without those of lambdas, sub-queries and OVERs: none can stand there.

    >>> import sqlglot
    >>> [u.sql("duckdb") for u in unnests_of(sqlglot.parse_one("UNNEST(a) + f(UNNEST(b))", dialect="duckdb"))]
    ['UNNEST(a)', 'UNNEST(b)']
    """
    found: list[exp.Expr] = []

    def visit(node: exp.Expr) -> None:
        if unnest_call(node) is not None:
            found.append(node)
        elif not isinstance(node, exp.Query | exp.Lambda | exp.Window):
            for child in node.iter_expressions():
                visit(child)

    visit(expression)
    return found
