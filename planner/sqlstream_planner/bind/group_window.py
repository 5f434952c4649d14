"""The older window functions of GROUP BY: TUMBLE(ts, …) there, and TUMBLE_START(ts, …) and kin in the SELECT list."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.windows import bind_group_window
from sqlstream_planner.logical import Node
from sqlstream_planner.sql.dialect import constant_value, duckdb_sql, function_name

GROUP_WINDOWS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
#: The relation with the window's columns, which GROUP BY and the SELECT list name by their function alone.
_WINDOW = "window of GROUP BY"
_AUXILIARY = {"START": "start", "END": "end", "ROWTIME": "time", "PROCTIME": "time"}


def with_group_window(
    context: BindContext, query: exp.Select, node: Node, scope: Scope
) -> tuple[exp.Expr | None, Node, Scope]:
    """The window function in GROUP BY, or None, and what is grouped with its window over it and its columns in scope.

    Raises DiagnosticError.
    """
    group = query.args.get("group")
    found: exp.Expr | None = None
    elements = group.expressions if group is not None else []
    for element in elements:
        name = function_name(element)
        if name in GROUP_WINDOWS:
            if found is not None:
                context.unsupported(element, "a second window in one GROUP BY")
            others = [e for e in elements if e is not element]
            window = bind_group_window(context, element, name, list(element.expressions), node, scope, others)
            below = {f.id: f for f in window.input.fields}
            relations = (
                replace(r, fields=tuple(below.get(f.id, f) for f in r.fields)) for r in scope.relations
            )
            bounds = Relation(_WINDOW, (window.start, window.end, window.time), last=True)
            found, node, scope = element, window, Scope(context, (*relations, bounds))
    return found, node, scope


def window_column(role: str) -> exp.Column:
    """The column of the GROUP BY's window with its 'start', 'end' or 'time'."""
    return exp.column(f"window_{role}", table=exp.to_identifier(_WINDOW, quoted=True))


def without_auxiliary(context: BindContext, expression: exp.Expr, window: exp.Expr | None) -> exp.Expr:
    """TUMBLE_START(…) and kin as columns of `window`, the window function in GROUP BY, if there is one.

    Raises DiagnosticError where they are of another window.
    """

    def swap(node: exp.Expr) -> exp.Expr:
        name = function_name(node)
        if name is None or "_" not in name:
            return node
        prefix, _, role = name.rpartition("_")
        if prefix not in GROUP_WINDOWS or role not in _AUXILIARY:
            return node
        if window is None:
            wanted = duckdb_sql(exp.Anonymous(this=prefix, expressions=list(node.copy().expressions)))
            context.fail(
                node, "SQL041", f"{name}, but the GROUP BY has no {prefix}", help=f"add {wanted} to GROUP BY"
            )
        kind = function_name(window)
        ours, theirs = node.expressions, window.expressions
        if prefix == kind and len(ours) == len(theirs) and all(map(_same, ours, theirs)):
            return window_column(_AUXILIARY[role])
        written = duckdb_sql(
            exp.Anonymous(this=f"{kind}_{role}", expressions=list(window.copy().expressions))
        )
        has = kind if prefix != kind else duckdb_sql(window)
        context.fail(node, "SQL041", f"{name}, but the GROUP BY has {has}", help=f"write {written}")

    return expression.copy().transform(swap, copy=False)


def _same(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two arguments are the same length of time, or the same column."""
    lengths = constant_value(one), constant_value(other)
    if lengths[0] is not None and lengths[1] is not None:
        return lengths[0].total_micros == lengths[1].total_micros
    if isinstance(one, exp.Column) and isinstance(other, exp.Column):
        return one.name.lower() == other.name.lower()
    return duckdb_sql(one).lower() == duckdb_sql(other).lower()
