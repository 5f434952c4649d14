"""The older window functions of GROUP BY: TUMBLE(ts, …) there, and TUMBLE_START(ts, …) and kin in the SELECT list."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.scope import Relation, Scope
from sqlstream_planner.bind.windows import bind_group_window
from sqlstream_planner.dialect import function_name
from sqlstream_planner.logical import Node

GROUP_WINDOWS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_AUXILIARY = {"START": "start", "END": "end", "ROWTIME": "time", "PROCTIME": "time"}


def with_group_window(
    context: BindContext, query: exp.Select, node: Node, scope: Scope
) -> tuple[str | None, Node, Scope]:
    """The window function in GROUP BY, or None, and what is grouped with its window over it and its columns in scope.

    Raises DiagnosticError.
    """
    group = query.args.get("group")
    found: str | None = None
    for element in group.expressions if group is not None else []:
        name = function_name(element)
        if name in GROUP_WINDOWS:
            if found is not None:
                context.unsupported(element, "a second window in one GROUP BY")
            window = bind_group_window(context, element, name, list(element.expressions), node, scope)
            bounds = Relation(None, (window.start, window.end, window.time))
            found, node, scope = name, window, Scope(context, (*scope.relations, bounds))
    return found, node, scope


def without_auxiliary(context: BindContext, expression: exp.Expr, kind: str | None) -> exp.Expr:
    """TUMBLE_START(…) and kin as the window columns of the GROUP BY's window, which is of `kind` if there is one."""
    if kind is None:
        return expression

    def swap(node: exp.Expr) -> exp.Expr:
        name = function_name(node)
        if name is None or "_" not in name:
            return node
        prefix, _, role = name.rpartition("_")
        if prefix in GROUP_WINDOWS and role in _AUXILIARY:
            if prefix != kind:
                context.fail(
                    node, "SQL041", f"{name}, but the GROUP BY has {kind}", help=f"write {kind}_{role}"
                )
            return exp.column(f"window_{_AUXILIARY[role]}")
        return node

    return expression.copy().transform(swap, copy=False)
