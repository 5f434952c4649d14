"""The SELECT list: stars expanded, names given, and a projection made of it."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import UnsupportedError

from sqlstream_operators.plan.types import VARCHAR
from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.bind.epoch_values import is_bound_process_time
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.spread_items import spread
from sqlstream_planner.bind.stars import expand_star, star_of
from sqlstream_planner.bind.written_values import has_untyped_keys
from sqlstream_planner.logical import Field, Node, Project, column, sql
from sqlstream_planner.sql.datatypes import as_type, nulls_as
from sqlstream_planner.sql.dialect import duckdb_sql


def expand_items(context: BindContext, query: exp.Select, scope: Scope) -> list[tuple[str, exp.Expr]]:
    """The SELECT list as (name, resolved expression), stars expanded, Flink's functions translated."""
    items: list[tuple[str, exp.Expr]] = []
    aliases: dict[str, exp.Expr] = {}
    for position, item in enumerate(query.expressions):
        star = star_of(item)
        if star is not None:
            items += expand_star(context, item, star, scope)
            continue
        others = [e for e in query.expressions if e is not item]
        several = spread(context, item, others, Scope(context, scope.relations, aliases))
        if several is not None:
            items += several
            continue
        expression = item.this if isinstance(item, exp.Alias) else item
        inner = Scope(context, scope.relations, aliases)
        resolved = context.translated(inner.resolve(expression), scope.fields)
        if scope.held and not isinstance(resolved.unnest(), exp.Column):
            held = scope.held.get(sql(resolved.unnest()))
            resolved = column(held) if held is not None else resolved
        positional = scope.at_position(item) if isinstance(item, exp.PositionalColumn) else None
        name = positional.name if positional is not None else output_name(item, position)
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


def project(
    context: BindContext, node: Node, items: list[tuple[str, exp.Expr]], *, aggregates: bool = False
) -> Node:
    """A Project of named expressions over `node`; bare columns keep their marks (event time, window bound)."""
    by_id = {f.id: f for f in node.fields}
    fields, expressions = [], []
    for name, expression in items:
        bare = expression.unnest()
        known = by_id.get(bare.name) if isinstance(bare, exp.Column) else None
        if known is None and isinstance(bare, exp.Column):
            known = context.outer_field(bare.name)
        if known is not None:
            fields.append(fresh(known, context, name))
            expressions.append(expression)
            continue
        typed = context.type_of(expression, node.fields, aggregates=aggregates, untyped_keys=True)
        type_ = typed.type
        if has_untyped_keys(type_):  # as a column of nothing but NULLs is where it is written
            type_ = nulls_as(type_, VARCHAR)
            expression = as_type(expression, type_)
        made = Field(context.new_id(name), name, type_, typed.nullable)
        if is_bound_process_time(expression):
            context.process_times.add(made.id)
        fields.append(made)
        expressions.append(expression)
    return Project(node, tuple(fields), tuple(expressions))
