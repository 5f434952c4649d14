"""A node under ids, names and an alias of its own."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.bind.relation import Relation, with_distinct_names
from sqlstream_planner.logical import Node, Project, column


def reference(context: BindContext, node: Node) -> Node:
    """A reference to a shared node under ids of its own."""
    fields = tuple(fresh(f, context) for f in node.fields)
    return Project(node, fields, tuple(column(f.id) for f in node.fields))


def aliased(
    context: BindContext, node: Node, alias: exp.Expr | None, item: exp.Expr, table: str | None
) -> tuple[Node, Relation]:
    """An item of FROM by its alias, or else by the name of its table."""
    name = alias.name if alias is not None and alias.name else table
    if alias is not None:
        node = renamed(context, node, alias, item)
    return node, Relation(name, with_distinct_names(node.fields))


def renamed(context: BindContext, node: Node, alias: exp.Expr, at: exp.Expr) -> Node:
    """A node whose columns are called as the alias says. Raises DiagnosticError if it names more than there are."""
    columns = alias.args.get("columns") or []
    if not columns:
        return node
    if len(columns) > len(node.fields):
        context.fail(
            at,
            "SQL032",
            f"`{alias.name}` names {len(columns)} columns, but the query gives {len(node.fields)}",
            notes=(f"it gives {', '.join(f.name for f in node.fields)}",),
        )
    names = [c.name for c in columns] + [f.name for f in node.fields[len(columns) :]]
    fields = tuple(fresh(f, context, n) for f, n in zip(node.fields, names, strict=True))
    return Project(node, fields, tuple(column(f.id) for f in node.fields))
