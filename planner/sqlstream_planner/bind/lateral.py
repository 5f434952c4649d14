"""LATERAL (SELECT …) in FROM, with the word or without: a query that reads columns of the items before it, row by row."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream_planner.bind.context import OuterRows
from sqlstream_planner.bind.joins import Item, check_names
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.logical import ColumnId, Filter, JoinKind, LateralJoin, Node, columns_of

_KINDS = {("", ""): JoinKind.INNER, ("", "CROSS"): JoinKind.INNER, ("", "INNER"): JoinKind.INNER}
#: Columns and tables that are not in scope.
_UNKNOWN = frozenset({"SQL010", "SQL012", "SQL013"})
_KINDS |= {("LEFT", ""): JoinKind.LEFT, ("LEFT", "OUTER"): JoinKind.LEFT}


def is_lateral_query(join: exp.Join) -> bool:
    """Whether a JOIN or a comma has LATERAL and a query behind it."""
    return isinstance(join.this, exp.Lateral) and isinstance(join.this.this, exp.Subquery)


def is_about_names(error: DiagnosticError) -> bool:
    """Whether a query fails for names alone that it does not know, as one that reads the outer rows does."""
    return all(d.code in _UNKNOWN for d in error.diagnostics)


def bind_lateral(join: exp.Join, left: Item, bind: Callable[[exp.Expr], tuple[Node, Relation]]) -> Item:
    """Each row of the items before it beside the rows of the query; `bind` binds it. Raises DiagnosticError."""
    context = left.scope.context
    words = tuple(str(join.args.get(w) or "").upper() for w in ("side", "kind"))
    kind = _KINDS.get((words[0], words[1]))
    if kind is None or join.args.get("method") or join.args.get("using"):
        written = " ".join(w for w in (str(join.args.get("method") or "").upper(), *words) if w)
        context.unsupported(
            join,
            f"{written} JOIN LATERAL" if written else "USING with LATERAL",
            help="write CROSS JOIN LATERAL (…), or LEFT JOIN LATERAL (…) ON …",
        )
    rows = OuterRows(left.scope)
    ttl_us = context.clauses.ttl_us
    with context.around(rows):
        query, relation = bind(join.this)
    context.clauses.ttl_us = ttl_us
    scope = Scope(context, (*left.scope.relations, relation))
    check_names(join, left.scope, Scope(context, (relation,)))
    outer = set(rows.read)
    on = join.args.get("on")
    if on is not None:
        condition = context.translated(scope.resolve(on), scope.fields)
        context.condition(condition, scope.fields, "ON")
        # What ON says of a pair says which rows the query has for the row around it.
        outer |= columns_of(condition) & {f.id for f in left.node.fields}
        query = Filter(query, condition, context.span(on))
    name = context.new_id("lateral")
    reads = tuple(ColumnId(id_) for id_ in sorted(outer))
    node = LateralJoin(
        left.node, query, kind, name, reads, context.clauses.join_ttl_us, context.span(join.this)
    )
    return Item(node, scope.over(node))
