"""ORDER BY of a sub-query without LIMIT: rows of a relation have no order, so it decides nothing and is left out.

But for what reads these rows directly and goes by their order, as ARRAY_AGG without one of its own does (`row_order`).
"""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.aggregates import registry
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.order_terms import DistinctRows, Terms
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.written_orders import WrittenOrder
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.logical import Node
from sqlstream_planner.sql.written_calls import written_call

_LOST = "lost"


def has_lost_order(query: exp.Expr) -> bool:
    """Whether a query has an ORDER BY that chooses no rows."""
    distinct = query.args.get("distinct")
    chooses = query.args.get("limit") or query.args.get("offset")
    on = isinstance(distinct, exp.Distinct) and distinct.args.get("on")
    return query.args.get("order") is not None and not chooses and not on


def without_order(context: BindContext, query: exp.Expr, statement: exp.Expr) -> exp.Expr:
    """A sub-query of a statement without its ORDER BY; where something goes by an order, with a mark at it."""
    made = query.copy()
    order = made.args["order"]
    context.orders.all[context.span(order)] = order
    if any(_goes_by_order(node) for node in statement.walk()):
        order.meta[_LOST] = True
    else:
        made.set("order", None)
    return made


def is_lost(order: exp.Expr | None) -> bool:
    """Whether an ORDER BY is one that chooses no rows, of a sub-query."""
    return order is not None and bool(order.meta.get(_LOST))


def keep_order(
    context: BindContext, query: exp.Query, node: Node, scope: Scope | None, distinct: DistinctRows | None
) -> None:
    """Remember how the rows of a sub-query's result are ordered, where that is known."""
    terms = Terms(context, query, node, scope, distinct)
    try:
        ordered = terms.order()
    except DiagnosticError:
        return  # what goes by it is refused
    at = context.span(query.args["order"])
    context.orders.keep(WrittenOrder(node, terms.with_added(), ordered, at))


def settle_orders(context: BindContext, statement: exp.Expr) -> None:
    """Tell of each ORDER BY that decided nothing in a statement.

    Raises DiagnosticError (SQL062) where the statement has something that goes by the order of rows and does not read
    rows of which it is known: DuckDB would go by that of the sub-query.
    """
    orders = context.orders
    if not orders.all:
        return
    for node in statement.walk():
        if _goes_by_order(node) and context.span(_place(node)) not in orders.served:
            context.fail(
                next(
                    (o for at, o in orders.all.items() if at not in orders.used),
                    next(iter(orders.all.values())),
                ),
                "SQL062",
                "ORDER BY without LIMIT in a sub-query",
                notes=("rows of a sub-query have no order, and something in this query goes by one",),
                help="write the ORDER BY where it is needed, as in ARRAY_AGG(x ORDER BY y), OVER (ORDER BY y) or "
                "beside LIMIT",
            )
    for at in orders.all.keys() - orders.used:
        context.warnings.append(
            Diagnostic(
                "SQL108",
                "ORDER BY of a sub-query without LIMIT is left out",
                at,
                notes=("rows of a sub-query have no order",),
                help="leave it out, or add LIMIT n",
                severity="warning",
            )
        )


def served(context: BindContext, node: exp.Expr) -> None:
    """Note that a part of a query that goes by the order of its rows has been given that."""
    context.orders.served.add(context.span(_place(node)))


def _place(node: exp.Expr) -> exp.Expr:
    """What stands for a part of a query: of a query that chooses rows, what says so."""
    if isinstance(node, exp.Query):
        found: exp.Expr | None = next(
            (node.args[key] for key in ("limit", "offset", "distinct") if node.args.get(key)), None
        )
        return node if found is None else found
    return node


def _goes_by_order(node: exp.Expr) -> bool:
    """Whether what a part of a query gives depends on the order of the rows that it reads."""
    if isinstance(node, exp.Query):
        distinct = node.args.get("distinct")
        on = isinstance(distinct, exp.Distinct) and distinct.args.get("on")
        chooses = node.args.get("limit") or node.args.get("offset") or on
        return bool(chooses) and node.args.get("order") is None
    if isinstance(node, exp.Window):
        return node.args.get("order") is None
    if isinstance(node.parent, exp.Window | exp.WithinGroup):
        return False  # the window says
    if isinstance(node, exp.FirstValue | exp.LastValue):
        return True
    call = written_call(node)
    if call is None or call.order is not None:
        return False
    function = registry.find(call.name)
    return function is not None and (function.order_sensitive or registry.orders_by_time(call.name))
