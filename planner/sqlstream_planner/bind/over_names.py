"""Windows of OVER by their names: WINDOW w AS (…), and OVER (w …)."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.epoch_values import is_volatile_column
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.expressions.unnests import unnests_of


def with_window_names(context: BindContext, query: exp.Select, scope: Scope) -> Scope:
    """The scope with the names of the SELECT list that an OVER may read: of what no OVER gives. Columns come first."""
    read = {c.name.lower() for w in query.find_all(exp.Window) for c in w.find_all(exp.Column) if not c.table}
    named = [item for item in query.expressions if isinstance(item, exp.Alias) and not windows_of(item)]
    known: dict[str, exp.Expr] = {}
    if any(item.alias.lower() in read and not scope.has(item.alias) for item in named):
        for item in named:
            if unnests_of(item.this):  # its rows are made above
                continue
            inner = Scope(context, scope.relations, known)
            resolved = context.translated(inner.resolve(item.this), scope.fields)
            if not any(
                is_volatile_column(c.name) for c in resolved.find_all(exp.Column)
            ):  # another value each time
                known.setdefault(item.alias.lower(), resolved)
    return replace(scope, aliases=known)


def named_windows(context: BindContext, query: exp.Select) -> dict[str, exp.Expr]:
    """The windows that the WINDOW clause declares, by their names in lower case."""
    found: dict[str, exp.Expr] = {}
    for window in query.args.get("windows") or []:
        if window.name.lower() in found:
            context.fail(window.this, "SQL038", f"two windows are called `{window.name}`")
        found[window.name.lower()] = window
    return found


def windows_of(expression: exp.Expr) -> list[exp.Window]:
    """The OVERs of an expression, without those of sub-queries."""
    found: list[exp.Window] = []

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.Window):
            found.append(node)
        elif not isinstance(node, exp.Query | exp.Subquery):
            for child in node.iter_expressions():
                visit(child)

    visit(expression)
    return found
