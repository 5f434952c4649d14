"""Ranks of groups in the SELECT that makes them: the groups are made first, and what OVER and QUALIFY read of them."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.bind.aggregate_calls import is_aggregate_call
from sqlstream_planner.bind.items import output_name
from sqlstream_planner.bind.over_names import windows_of
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.logical import sql


def ranks_groups(query: exp.Select) -> bool:
    """Whether a SELECT that aggregates has OVER or QUALIFY besides."""
    return bool(query.args.get("qualify")) or any(windows_of(item) for item in query.expressions)


def split(query: exp.Select, scope: Scope) -> tuple[exp.Select, exp.Select]:
    """The SELECT that makes the groups, and the one over its result that ranks them; `scope` is that of the FROM.

    The first gives what the SELECT list gives without OVER, under the same names, and what OVER and QUALIFY read. Raises
    DiagnosticError for `*`.
    """
    ranked = query.copy()
    for clause in ("group", "having", "where"):
        ranked.set(clause, None)
    inside: list[exp.Expr] = []
    known: dict[str, exp.Expr] = {}
    ranks = {i.alias.lower() for i in ranked.expressions if isinstance(i, exp.Alias) and windows_of(i)}
    columns = {f.name.lower() for f in scope.fields}
    for position, item in enumerate(ranked.expressions):
        if windows_of(item):
            continue
        if item.is_star:
            scope.context.unsupported(
                item, "* beside the rank of groups", help="list the columns of GROUP BY that you want"
            )
        name = output_name(item, position)
        bare = item.this if isinstance(item, exp.Alias) else item
        inside.append(item.copy() if isinstance(item, exp.Alias) else _named(item.copy(), name))
        known.setdefault(_text(bare), _column(name, bare))
        if name.lower() not in columns:
            known.setdefault(_text(exp.column(name)), _column(name, bare))
        item.replace(_named(_column(name, bare), name))

    def given(expression: exp.Expr) -> exp.Expr:
        """The column of the groups that holds an expression."""
        text = _text(expression)
        if text not in known:
            name = f"__ranked_{len(inside)}"
            inside.append(_named(expression.copy(), name))
            known[text] = _column(name, expression)
        return known[text].copy()

    def rewrite(node: exp.Expr) -> None:
        if isinstance(node, exp.Window):
            order = node.args.get("order")
            for read in [
                *(node.args.get("partition_by") or []),
                *((term.this for term in order.expressions) if order is not None else []),
            ]:
                read.replace(given(read))
            function = node.this
            while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
                if isinstance(function, exp.Filter):
                    rewrite(function.expression.this)
                function = function.this
            for argument in list(function.iter_expressions()):
                rewrite(argument)
        elif is_aggregate_call(node) or isinstance(node, exp.Column):
            if not (isinstance(node, exp.Column) and not node.table and node.name.lower() in ranks):
                node.replace(given(node))
        elif not isinstance(node, exp.Query | exp.Subquery):
            for child in list(node.iter_expressions()):
                rewrite(child)

    qualify = ranked.args.get("qualify")
    for place in [*ranked.expressions, *(ranked.args.get("windows") or [])]:
        if isinstance(place, exp.Window) or windows_of(place):
            rewrite(place)
    if qualify is not None:
        rewrite(qualify)
    groups = query.copy()
    for clause in ("qualify", "windows", "distinct", "order", "limit", "offset"):
        groups.set(clause, None)
    groups.set("expressions", inside)
    return groups, ranked


def _text(expression: exp.Expr) -> str:
    """What distinguishes expressions: names in any case are the same, texts are not."""
    plain = expression.unnest().copy()
    for name in plain.find_all(exp.Identifier):
        name.set("this", name.name.lower())
    return sql(plain)


def _named(expression: exp.Expr, name: str) -> exp.Expr:
    made = exp.alias_(expression, name, quoted=True, copy=False)
    made.meta.update(expression.meta)
    return made


def _column(name: str, at: exp.Expr) -> exp.Expr:
    """A column by name, at the place that the user wrote."""
    made = exp.column(exp.to_identifier(name, quoted=True))
    made.meta.update(at.meta)
    return made
