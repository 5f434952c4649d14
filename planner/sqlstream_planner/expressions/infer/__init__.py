"""The type and nullability of a scalar expression, as DuckDB gives them (`oracle`).

`infer` raises `TypeProblem` (or hands it to a callback and goes on with UNKNOWN). Where DuckDB binds an
expression that can only fail at a row (`CAST(1 AS DATE)`, `date = 1`, `text = number`), we refuse it: a
stream must not find out at run time. tests/planner/expressions/test_infer.py compares random expressions with DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.expressions.infer import calls, columns, conditions, lists, literals, nested, operators
from sqlstream_planner.expressions.infer.inference import Handler, Inference, OnError, Scope

__all__ = ["OnError", "Scope", "infer", "require_boolean"]

_HANDLERS: Mapping[type[exp.Expr], Handler] = {
    **columns.HANDLERS,
    **literals.HANDLERS,
    **nested.HANDLERS,
    **lists.HANDLERS,
    **operators.HANDLERS,
    **conditions.HANDLERS,
    **calls.HANDLERS,
}


def infer(
    expression: exp.Expr,
    scope: Scope,
    on_error: OnError | None = None,
    *,
    aggregates: bool = False,
    windows: bool = False,
) -> TypedExpr:
    """The type of `expression` over columns `scope` (name -> type, nullable; names ignore case).

    `aggregates` and `windows` say whether SUM … and … OVER may appear here. Each problem raises TypeProblem,
    or, with `on_error`, is passed to it and the part that has it is UNKNOWN. A qualified column `b.price` is
    looked up as "b.price"; if `b` is a column itself it is its field; else as "price".

    >>> import sqlglot
    >>> from sqlstream_operators.plan.types import INTEGER
    >>> print(infer(sqlglot.parse_one("a + 1.5"), {"a": (INTEGER, False)}).type)
    DECIMAL(12,1)
    """
    return _inference(scope, on_error, aggregates, windows).type_of(expression)


def require_boolean(
    expression: exp.Expr, scope: Scope, what: str, on_error: OnError | None = None
) -> TypedExpr:
    """Type a condition (`what`: "WHERE", "JOIN … ON"); refuse what can't become a BOOLEAN."""
    return _inference(scope, on_error, False, False).condition(expression, what)


def _inference(scope: Scope, on_error: OnError | None, aggregates: bool, windows: bool) -> Inference:
    lowered = {name.lower(): typed for name, typed in scope.items()}
    return Inference(lowered, on_error, aggregates, windows, _HANDLERS, calls.call_type)
