"""The SELECT list: stars expanded, names given, and a projection made of it."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import UnsupportedError

from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.logical import Field, Node, Project, column, sql
from sqlstream_planner.sql.dialect import duckdb_sql


def expand_items(context: BindContext, query: exp.Select, scope: Scope) -> list[tuple[str, exp.Expr]]:
    """The SELECT list as (name, resolved expression), stars expanded, Flink's functions translated."""
    items: list[tuple[str, exp.Expr]] = []
    aliases: dict[str, exp.Expr] = {}
    for position, item in enumerate(query.expressions):
        star = _star(item)
        if star is not None:
            items += _expanded(context, item, star, scope)
            continue
        expression = item.this if isinstance(item, exp.Alias) else item
        inner = Scope(context, scope.relations, aliases)
        resolved = context.translated(inner.resolve(expression), scope.fields)
        if scope.held and not isinstance(resolved.unnest(), exp.Column):
            held = scope.held.get(sql(resolved.unnest()))
            resolved = column(held) if held is not None else resolved
        name = output_name(item, position)
        items.append((name, resolved))
        if isinstance(item, exp.Alias):
            aliases.setdefault(name.lower(), resolved)
    if not items:
        context.fail(query, "SQL034", "this SELECT gives no columns")
    return items


def output_name(item: exp.Expr, position: int) -> str:
    """What an item of the SELECT list is called: its alias, its column, or else its text."""
    if isinstance(item, exp.Alias):
        return item.alias
    if isinstance(item, exp.Column | exp.Dot):
        return item.name
    try:
        text = duckdb_sql(item)
    except UnsupportedError:  # IGNORE NULLS, which sqlglot writes only inside OVER
        return f"expr_{position + 1}"
    return text.lower() if len(text) <= 40 else f"expr_{position + 1}"


def _star(item: exp.Expr) -> exp.Star | None:
    if isinstance(item, exp.Star):
        return item
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        return item.this
    return None


def _expanded(
    context: BindContext, item: exp.Expr, star: exp.Star, scope: Scope
) -> list[tuple[str, exp.Expr]]:
    relations = scope.relations
    if isinstance(item, exp.Column) and item.table:
        relations = tuple(
            r for r in relations if r.alias is not None and r.alias.lower() == item.table.lower()
        )
        if not relations:
            known = ", ".join(f"`{r.alias}`" for r in scope.relations if r.alias)
            context.fail(
                item,
                "SQL013",
                f"unknown table `{item.table}`",
                notes=(f"in FROM: {known or 'nothing with a name'}",),
            )
    renamed = {e.this.name.lower(): e.alias for e in (star.args.get("rename") or [])}
    if star.args.get("ilike"):
        context.unsupported(item, "* ILIKE")
    dropped = {e.name.lower() for e in (star.args.get("except_") or star.args.get("except") or [])}
    replaced = {e.alias.lower(): e.this for e in (star.args.get("replace") or [])}
    items = []
    qualified = isinstance(item, exp.Column) and bool(item.table)
    for relation in relations:
        shown = relation.fields if qualified else relation.bare
        for f in shown if not relation.hidden else ():
            if f.name.lower() in dropped:
                continue
            if f.id in context.process_times:
                context.warn_of_process_time(item, f.name)
                continue
            expression: exp.Expr = column(f.id)
            if f.name.lower() in replaced:
                expression = context.translated(scope.resolve(replaced[f.name.lower()]), scope.fields)
            items.append((renamed.get(f.name.lower(), f.name), expression))
    return items


def project(
    context: BindContext, node: Node, items: list[tuple[str, exp.Expr]], *, aggregates: bool = False
) -> Node:
    """A Project of named expressions over `node`; bare columns keep their marks (event time, window bound)."""
    by_id = {f.id: f for f in node.fields}
    fields = []
    for name, expression in items:
        bare = expression.unnest()
        known = by_id.get(bare.name) if isinstance(bare, exp.Column) else None
        if known is None and isinstance(bare, exp.Column):
            known = context.outer_field(bare.name)
        if known is not None:
            fields.append(fresh(known, context, name))
            continue
        typed = context.type_of(expression, node.fields, aggregates=aggregates)
        fields.append(Field(context.new_id(name), name, typed.type, typed.nullable))
    return Project(node, tuple(fields), tuple(e for _, e in items))
