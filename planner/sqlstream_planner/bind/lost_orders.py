"""ORDER BY of a sub-query without LIMIT: rows of a relation have no order, so it decides nothing and is left out."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.aggregates import registry
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.expressions.functions.calls import written_call


def has_lost_order(query: exp.Expr) -> bool:
    """Whether a query has an ORDER BY that chooses no rows."""
    distinct = query.args.get("distinct")
    chooses = query.args.get("limit") or query.args.get("offset")
    on = isinstance(distinct, exp.Distinct) and distinct.args.get("on")
    return query.args.get("order") is not None and not chooses and not on


def without_order(context: BindContext, query: exp.Expr, statement: exp.Expr) -> exp.Expr:
    """A sub-query of a statement without its ORDER BY, which is told.

    Raises DiagnosticError (SQL062) where the statement has something that goes by the order in which rows come: DuckDB
    would go by that of the sub-query.
    """
    order = query.args["order"]
    reader = next((node for node in statement.walk() if _goes_by_arrival(node)), None)
    if reader is not None:
        context.fail(
            order,
            "SQL062",
            "ORDER BY without LIMIT in a sub-query",
            notes=("rows of a sub-query have no order, and something in this query goes by one",),
            help="write the ORDER BY where it is needed, as in ARRAY_AGG(x ORDER BY y), OVER (ORDER BY y) or beside LIMIT",
        )
    context.warnings.append(
        Diagnostic(
            "SQL108",
            "ORDER BY of a sub-query without LIMIT is left out",
            context.span(order),
            notes=("rows of a sub-query have no order",),
            help="leave it out, or add LIMIT n",
            severity="warning",
        )
    )
    made = query.copy()
    made.set("order", None)
    return made


def _goes_by_arrival(node: exp.Expr) -> bool:
    """Whether what a part of a query gives depends on the order of the rows that it reads."""
    if isinstance(node, exp.Query):
        distinct = node.args.get("distinct")
        on = isinstance(distinct, exp.Distinct) and distinct.args.get("on")
        chooses = node.args.get("limit") or node.args.get("offset") or on
        return bool(chooses) and node.args.get("order") is None
    if isinstance(node, exp.Window):
        return node.args.get("order") is None
    call = written_call(node)
    if call is None or call.order is not None:
        return False
    function = registry.find(call.name)
    ordered_within = isinstance(node.parent, exp.WithinGroup)
    return function is not None and function.order_sensitive and not ordered_within
