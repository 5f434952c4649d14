"""DISTINCT ON and ORDER BY … LIMIT … OFFSET of a whole query."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.bind.items import output_name
from sqlstream_planner.bind.limit_counts import MOST_ROWS, count_subquery, limit_count, offset_count
from sqlstream_planner.bind.lost_orders import is_lost, keep_order, served
from sqlstream_planner.bind.order_terms import DistinctRows, Terms, bare_term, is_constant
from sqlstream_planner.bind.ranked_rows import first_of_each, percentage, rows_by_subquery, with_ties
from sqlstream_planner.bind.row_order import NO_ORDER, ordered_rows
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.subqueries import SubqueryBinder
from sqlstream_planner.logical import Field, Node, OrderLimit, Project, column


def has_limit(query: exp.Query) -> bool:
    """Whether a query has ORDER BY, LIMIT, FETCH or OFFSET."""
    return any(query.args.get(key) for key in ("order", "limit", "offset"))


def with_ordered(query: exp.Select) -> tuple[exp.Select, int]:
    """A SELECT that aggregates, with what its ORDER BY names and it does not give as further items, and their number.

    GROUP BY ALL and positions are of the SELECT list as it is written, and DISTINCT of its rows: those get none.
    """
    order, group = query.args.get("order"), query.args.get("group")
    if order is None or query.args.get("limit") is None or query.args.get("distinct") is not None:
        return query, 0
    beyond = [
        e
        for e in (group.expressions if group is not None else [])
        if isinstance(e, exp.Literal) and e.this.isdigit() and int(e.this) > len(query.expressions)
    ]
    if beyond or (group is not None and group.args.get("all")):
        return query, 0
    names = {output_name(item, position).lower() for position, item in enumerate(query.expressions)}
    given = [item.this if isinstance(item, exp.Alias) else item for item in query.expressions]
    star = any(item.is_star for item in query.expressions)
    made = query.copy()
    added = 0
    for ordered in made.args["order"].expressions:
        inner = bare_term(ordered)
        named = isinstance(inner, exp.Column) and len(inner.parts) == 1
        if (
            isinstance(inner, exp.Var)
            or inner.is_int
            or is_constant(inner)
            or inner in given
            or (named and star)
        ):
            continue
        if inner.sql().lower() in names or (named and inner.name.lower() in names):
            continue
        added += 1
        alias = f"__ordered_{added}"
        made.append("expressions", exp.alias_(inner.copy(), alias, quoted=True))
        place = exp.column(alias, quoted=True)
        place.meta.update(inner.meta)
        inner.replace(place)
    return (made, added) if added else (query, 0)


def without_last(context: BindContext, node: Node, count: int) -> Node:
    """The node without its last `count` columns."""
    shown = node.fields[:-count]
    return Project(node, tuple(fresh(f, context) for f in shown), tuple(column(f.id) for f in shown))


def bind_limit(
    context: BindContext,
    query: exp.Query,
    node: Node,
    scope: Scope | None = None,
    *,
    subqueries: SubqueryBinder | None = None,
    distinct: DistinctRows | None = None,
) -> Node:
    """The rows that DISTINCT ON and ORDER BY … LIMIT … OFFSET leave of `node`, the query's result.

    What ORDER BY may name, see `Terms`; `distinct`: what the result has each row once of. Without ORDER BY the least rows
    are kept. Raises DiagnosticError for an ORDER BY without a LIMIT.
    """
    order, limit, offset = (query.args.get(key) for key in ("order", "limit", "offset"))
    on = _distinct_on(query)
    asking = subqueries is not None and any(count_subquery(clause) is not None for clause in (limit, offset))
    skipped = offset_count(context, offset) if offset is not None and not asking else 0
    count = limit_count(context, limit) if limit is not None and not asking else None
    if count is None and not skipped and not on and not asking:
        if order is None:
            return node  # LIMIT ALL, OFFSET 0
        if is_lost(order):
            keep_order(context, query, node, scope, distinct)
            return node
        context.fail(
            order,
            "SQL062",
            "ORDER BY without LIMIT",
            notes=("the result is kept up to date as rows come, so it has no order of its own",),
            help="add LIMIT n, or leave it out and order when you read the table",
        )
    terms = Terms(context, query, node, scope, distinct)
    places = tuple(terms.column(bare_term(e), "DISTINCT ON") for e in on)
    ordered = terms.order()
    rows, more = terms.with_added(), list[Field]()
    if on:
        first_by = ordered
        if not ordered and not {f.id for f in node.fields} <= set(places):
            come = ordered_rows(context, rows)
            if come is None:
                context.fail(
                    query.args["distinct"],
                    "SQL067",
                    "DISTINCT ON without ORDER BY does not say which row of several is the first",
                    notes=NO_ORDER,
                    help="add ORDER BY with what it is first by, such as ORDER BY ts",
                )
            rows, first_by = come.rows, come.terms
            more += come.fields
            served(context, query)
        rows, made = first_of_each(context, rows, places, first_by, query.args["distinct"])
        more += made
    if asking and subqueries is not None:
        rows, made = rows_by_subquery(subqueries, rows, ordered, limit, offset)
        more += made
    elif limit is not None and count is not None and count.ties:
        if not ordered:
            context.fail(
                limit, "SQL064", "WITH TIES needs ORDER BY", help="add ORDER BY with what rows are equal in"
            )
        rows, made = with_ties(context, rows, ordered, count.rows, skipped, limit)
        more += made
    elif limit is not None and count is not None and count.percent is not None:
        rows, made = percentage(context, rows, ordered, count.percent, skipped, limit)
        more += made
    elif count is not None or skipped:
        if not ordered and not on:
            come = ordered_rows(context, rows)
            if come is not None and come.written:
                rows, ordered = come.rows, come.terms
                more += come.fields
                served(context, query)
        rows = OrderLimit(rows, ordered, count.rows if count is not None else MOST_ROWS, skipped)
    return terms.without_added(rows, others=more)


def _distinct_on(query: exp.Query) -> list[exp.Expr]:
    """What DISTINCT ON lists; nothing if there is none."""
    distinct = query.args.get("distinct") if isinstance(query, exp.Select) else None
    on = distinct.args.get("on") if distinct is not None else None
    return [] if on is None else list(on.expressions) if isinstance(on, exp.Tuple) else [on.unnest()]
