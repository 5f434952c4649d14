"""Window aggregates that are kept up to date while a window is open: those that are given early (EMIT CHANGES) or
corrected by late rows (allow-lateness), and those over rows that change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.bind.context import Clauses
from sqlstream_planner.logical import (
    Field,
    GroupAggregate,
    GroupExpiry,
    Node,
    Project,
    WindowColumn,
    WindowGate,
    column,
    raw,
)
from sqlstream_planner.window_sql import start_of


def updating_window(
    clauses: Clauses, group: GroupAggregate, marker: WindowColumn, end_id: str, bounds: Mapping[str, Field]
) -> Node:
    """The groups of each window, kept up to date: `group` with the window's end (its input's `end_id`) as first key.

    `bounds` are the fields of the window's start, end and time in the result. Without EMIT CHANGES a window's groups
    are held back until it closes.
    """
    end, lateness_us = bounds["end"], clauses.lateness_us
    grouped = replace(
        group,
        keys=(end, *group.keys),
        key_expressions=(column(end_id), *group.key_expressions),
        sets=tuple((0, *(i + 1 for i in chosen)) for chosen in group.sets),
        expiry=GroupExpiry(end.id, marker.time, lateness_us),
    )
    node: Node = grouped if clauses.changes else WindowGate(grouped, marker.window)
    us = f'epoch_us("{end.id}")'
    maker = "make_timestamptz" if bounds["time"].type.kind is Kind.TIMESTAMPTZ else "make_timestamp"
    computed = {
        "start": f"make_timestamp({start_of(marker.window, us)})",
        "time": f"{maker}({us} - 1000)",
    }
    expressions: list[exp.Expr] = [column(f.id) for f in node.fields]
    expressions += [raw(text) for text in computed.values()]
    return Project(node, (*node.fields, *(bounds[role] for role in computed)), tuple(expressions))
