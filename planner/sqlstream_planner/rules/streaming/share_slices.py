"""Rows copied into every window, then grouped  ->  rows grouped by slice, windows made when they close."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.window_spec import WindowKind
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.logical import (
    ColumnId,
    Field,
    Filter,
    Node,
    Project,
    Sink,
    Unnest,
    WindowFunction,
    column,
    columns_of,
    transform,
)
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.streaming import WindowAggregate


def share_slices(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """Aggregate by slices of event time instead of copying rows into windows.

    A slice is as long as the greatest common divisor of a window's size and slide, so each row is aggregated
    once and windows that overlap share the result (Carbone et al., "Cutty", CIKM 2016; Flink's slicing
    windows). Left alone where an expression between the window function and the aggregate uses the window's
    bounds, and for HOP and CUMULATE where an aggregate depends on the order in which rows arrive.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> from sqlstream_planner.rules.streaming.aggregates import aggregates
    >>> hop = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND))"
    >>> print(logical(f"SELECT COUNT(*) AS n FROM {hop} GROUP BY window_end", rules=(*streaming(aggregates), share_slices)))
    sink result
      project n = count
        window aggregate HOP(size 6 seconds, slide 2 seconds, slices of 2 seconds of ts) calls count()
          scan t (a, c, ts)
    """

    def rewrite(node: Node) -> Node:
        if not isinstance(node, WindowAggregate) or node.window.shared_slices:
            return node
        if node.window.kind is not WindowKind.TUMBLE and any(
            function_of(c).order_sensitive and not c.order_by for c in node.calls
        ):
            return node
        used = set().union(*(columns_of(e) for e in node.key_expressions), *(_reads(node)))
        slim = _without_window(node.input, node.slice_column, used)
        if slim is None:
            return node
        input_, time = slim
        # The window's time column stands in where FIRST_VALUE would order by window_time.
        time_column = node.time_column
        if time_column is not None and time_column not in {f.id for f in input_.fields}:
            time_column = ColumnId(time.id)
        window = replace(node.window, shared_slices=True)
        return replace(
            node, input=input_, window=window, slice_column=ColumnId(time.id), time_column=time_column
        )

    return transform(roots, rewrite)


def _reads(node: WindowAggregate) -> list[set[str]]:
    """The columns that each call reads."""
    found = []
    for call in node.calls:
        expressions = [*call.arguments, *(e for e, _, _ in call.order_by)]
        if call.filter is not None:
            expressions.append(call.filter)
        found += [columns_of(e) for e in expressions]
    return found


def _without_window(node: Node, end: str, used: set[str]) -> tuple[Node, Field] | None:
    """The same rows before they were copied into windows, with the time column; None where that can't be.

    `end` is the column with the window's end in `node`'s output, `used` what the consumer reads of it.
    """
    if isinstance(node, WindowFunction):
        if used & {node.start.id, node.end.id, node.time.id} or node.end.id != end:
            return None
        return node.input, next(f for f in node.input.fields if f.id == node.time_column)
    if isinstance(node, Filter):
        inner = _without_window(node.input, end, used | columns_of(node.predicate))
        return None if inner is None else (replace(node, input=inner[0]), inner[1])
    if isinstance(node, Unnest):
        inner = _without_window(node.input, end, used | columns_of(node.array))
        return None if inner is None else (replace(node, input=inner[0]), inner[1])
    if not isinstance(node, Project):
        return None
    by_id = dict(zip((f.id for f in node.fields), node.items, strict=True))
    below_end = by_id.get(end)
    if not isinstance(below_end, exp.Column):
        return None
    kept = [(f, e) for f, e in zip(node.fields, node.items, strict=True) if f.window is None]
    if used - {f.id for f, _ in kept}:
        return None
    below_used = set().union(*(columns_of(e) for _, e in kept)) if kept else set()
    inner = _without_window(node.input, below_end.name, below_used)
    if inner is None:
        return None
    input_, time = inner
    for f, e in kept:
        if isinstance(e, exp.Column) and e.name == time.id:
            fields, expressions = zip(*kept, strict=True)
            return Project(input_, fields, expressions), f
    # The sub-query does not select the time column: it is passed on under its own id.
    fields = (*(f for f, _ in kept), time)
    expressions = (*(e for _, e in kept), column(time.id))
    return Project(input_, fields, expressions), time
