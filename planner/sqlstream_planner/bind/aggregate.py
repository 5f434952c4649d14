"""SELECT with GROUP BY or aggregate functions: a WindowAggregate or GroupAggregate with a projection above it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.bind.aggregate_calls import AggregateCalls, aggregate_calls
from sqlstream_planner.bind.aggregate_output import AggregateOutput
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.early import updating_window
from sqlstream_planner.bind.group_by import read_group_by
from sqlstream_planner.bind.group_window import with_group_window, without_auxiliary
from sqlstream_planner.bind.items import expand_items, project
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.window_keys import WindowKeys, time_column, window_keys
from sqlstream_planner.logical import Field, Filter, GroupAggregate, Node, WindowAggregate
from sqlstream_planner.properties import changes


def is_aggregate_query(query: exp.Select) -> bool:
    """Whether a SELECT has GROUP BY, or an aggregate function outside OVER and sub-queries."""
    if query.args.get("group") is not None:
        return True
    having = query.args.get("having")
    places = [*query.expressions, *([having] if having is not None else [])]
    return any(aggregate_calls(p) for p in places)


def bind_aggregate(context: BindContext, query: exp.Select, node: Node, scope: Scope) -> Node:
    """The node of a SELECT that aggregates. Raises DiagnosticError."""
    group_window, node, scope = with_group_window(context, query, node, scope)
    items = _items(context, query, scope, group_window)
    group_by = read_group_by(
        context, query.args.get("group"), items, scope, windowed=group_window is not None
    )
    window = window_keys(context, query, node, group_by)
    if window is not None:
        node = window.node
    ordered_by = time_column(node)
    positions = [i for i in range(len(group_by.keys)) if window is None or i not in window.positions]
    expressions = tuple(group_by.keys[i] for i in positions)
    keys = tuple(_key_field(context, e, scope) for e in expressions)
    renumber = {old: new for new, old in enumerate(positions)}
    sets = tuple(tuple(renumber[i] for i in s if i in renumber) for s in group_by.sets)
    if len({tuple(sorted(s)) for s in sets}) != len(sets):
        context.unsupported(
            query.args["group"],
            "the same grouping set twice",
            help="write each set once in GROUPING SETS, and UNION ALL a query that groups by it for its rows twice",
        )
    bounds = window.bounds(context) if window is not None else {}
    grouping = None
    if group_by.several:
        grouping = Field(context.new_id("grouping_id"), "grouping_id", BIGINT, False)
        keys = tuple(replace(k, nullable=True) for k in keys)
    changing = context.clauses.changes or context.clauses.lateness_us or changes(node)
    calls = AggregateCalls(context, scope.fields, ordered_by, once=window is not None and not changing)
    outputs = {group_by.forms[i]: k for i, k in zip(positions, keys, strict=True)}
    output = AggregateOutput(context, node, group_by, window, outputs, bounds, grouping, calls)
    rewritten = [(name, output.rewritten(e)) for name, e in items]
    condition = None
    having = query.args.get("having")
    if having is not None:
        aliases = {name.lower(): e for name, e in items}
        resolved = Scope(context, scope.relations, aliases).resolve(
            without_auxiliary(context, having.this, group_window)
        )
        condition = output.rewritten(context.translated(resolved, scope.fields))
    plain = tuple(replace(k, time=None, window=None) for k in keys)
    group = GroupAggregate(node, plain, expressions, sets, grouping, calls.all)
    aggregate: Node
    if window is None:
        aggregate = replace(group, ttl_us=context.clauses.ttl_us if plain else None)
    elif changing:
        aggregate = updating_window(context.clauses, group, window.marker, window.end, bounds)
    else:
        aggregate = _window_aggregate(replace(group, keys=keys), window, bounds, ordered_by)
    if condition is not None:
        context.condition(condition, aggregate.fields, "HAVING")
        aggregate = Filter(aggregate, condition)
    return project(context, aggregate, rewritten)


def _items(
    context: BindContext, query: exp.Select, scope: Scope, group_window: exp.Expr | None
) -> list[tuple[str, exp.Expr]]:
    """The SELECT list, resolved, with TUMBLE_START and kin as columns."""
    query = query.copy()
    query.set("expressions", [without_auxiliary(context, e, group_window) for e in query.expressions])
    return expand_items(context, query, scope)


def _key_field(context: BindContext, expression: exp.Expr, scope: Scope) -> Field:
    """The column of the result with a key."""
    if isinstance(expression, exp.Column):
        f = next(f for f in scope.fields if f.id == expression.name)
        time = replace(f.time, direct=False) if f.time is not None and not f.time.direct else None
        return Field(context.new_id(f.name), f.name, f.type, f.nullable, time, f.window)
    typed = context.type_of(expression, scope.fields)
    found = expression.find(exp.Column)
    name = found.name if found is not None else "key"
    return Field(context.new_id(name), name, typed.type, typed.nullable)


def _window_aggregate(
    group: GroupAggregate, window: WindowKeys, bounds: Mapping[str, Field], ordered_by: str | None
) -> WindowAggregate:
    """The groups of each window, given once, when it closes."""
    return WindowAggregate(
        input=group.input,
        window=replace(window.marker.window, shared_slices=False),
        slice_column=window.end,
        time=window.marker.time,
        time_column=ordered_by,
        keys=group.keys,
        key_expressions=group.key_expressions,
        sets=group.sets,
        grouping=group.grouping,
        calls=group.calls,
        start=bounds["start"],
        end=bounds["end"],
        window_time=bounds["time"],
    )
