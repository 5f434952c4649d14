"""Groups of sessions, by what the sessions are partitioned by  ->  accumulators of each session, and no rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.window_spec import WindowKind
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.logical import (
    Aggregate,
    AggregateCall,
    ColumnId,
    Node,
    Project,
    SessionFunction,
    column,
    columns_of,
    substitute,
)
from sqlstream_planner.rules.streaming.aggregates import windowed
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.streaming import SessionAggregate, SessionWindows


def session_aggregates(node: Node, streaming: Streaming) -> Node | None:
    """Aggregate sessions as their rows come, where the groups are the sessions.

    That is: keys are the bounds and all columns of the PARTITION BY, nothing stands between but projections, and each
    aggregate has accumulators that do not depend on the order of rows. Everything else is aggregated behind the sessions,
    of which all rows are kept.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> from sqlstream_planner.rules.streaming.session_windows import session_windows
    >>> session = "TABLE(SESSION(TABLE t PARTITION BY a, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    >>> query = f"SELECT window_end, MAX(c) AS m FROM {session} GROUP BY window_start, window_end, a"
    >>> print(logical(query, rules=streaming(session_windows, session_aggregates)))
    sink result
      project window_end = window_end_2, m = max
        session aggregate SESSION(gap 10 seconds of ts) by a calls max(c)
          scan t (a, c, ts)
    """
    if not isinstance(node, Aggregate) or node.grouping is not None:
        return None
    found = windowed(node)
    if found is None or found.window.kind is not WindowKind.SESSION:
        return None
    sessions, columns = _sessions_below(node.input)
    if sessions is None or not isinstance(sessions.meaning, SessionFunction):
        return None
    if sessions.meaning.emission != node.emission or (
        node.emission.lateness_us and not node.emission.changes
    ):
        return None
    keys = [_column(e, columns) for e in node.key_expressions]
    partition = {ColumnId(key): f for f, key in zip(node.keys, keys, strict=True) if key is not None}
    starts = [f for f in node.keys if f.window is not None and f.window.role == "start"]
    bounds = {sessions.start.id, sessions.end.id, sessions.window_time.id}
    if set(partition) - bounds != set(sessions.partition) or None in keys or len(starts) > 1:
        return None
    calls = tuple(_over(call, columns) for call in node.calls)
    below = {f.id for f in sessions.input.fields}
    if not all(_accumulates(call, early=sessions.early) and _reads(call) <= below for call in calls):
        return None
    start = starts[0] if starts else found.bound("start")
    end, time = (found.bound(role) for role in ("end", "time"))
    made = SessionAggregate(
        sessions.input,
        sessions.window,
        sessions.partition,
        sessions.time_column,
        tuple(replace(partition[id_], time=None) for id_ in sessions.partition),
        calls,
        start,
        end,
        time,
        sessions.time,
        sessions.direct,
        sessions.early,
        sessions.lateness_us,
        streaming.meaning(node),
    )
    given = {str(id_): column(f.id) for id_, f in zip(sessions.partition, made.keys, strict=True)}
    return found.result(
        made,
        {"end": column(end.id), "time": column(time.id)},
        {f.id: given[key] for f, key in zip(node.keys, keys, strict=True) if key in given},
    )


def _sessions_below(node: Node) -> tuple[SessionWindows | None, Mapping[str, exp.Expr]]:
    """The sessions whose rows a node gives, and what its columns are in terms of theirs."""
    path: list[Project] = []
    while isinstance(node, Project):
        path.append(node)
        node = node.input
    if not isinstance(node, SessionWindows):
        return None, {}
    columns: dict[str, exp.Expr] = {f.id: column(f.id) for f in node.fields}
    for step in reversed(path):
        columns = {f.id: substitute(e, columns) for f, e in zip(step.fields, step.items, strict=True)}
    return node, columns


def _column(expression: exp.Expr, columns: Mapping[str, exp.Expr]) -> str | None:
    """The column of the sessions that a key is."""
    bare = substitute(expression, columns).unnest()
    return bare.name if isinstance(bare, exp.Column) else None


def _over(call: AggregateCall, columns: Mapping[str, exp.Expr]) -> AggregateCall:
    """The call over the columns of the sessions."""
    return replace(
        call,
        arguments=tuple(substitute(a, columns) for a in call.arguments),
        filter=substitute(call.filter, columns) if call.filter is not None else None,
        order_by=tuple((substitute(e, columns), d, n) for e, d, n in call.order_by),
    )


def _reads(call: AggregateCall) -> set[str]:
    expressions = [*call.arguments, *(e for e, _, _ in call.order_by)]
    if call.filter is not None:
        expressions.append(call.filter)
    return set().union(*(columns_of(e) for e in expressions))


def _accumulates(call: AggregateCall, *, early: bool) -> bool:
    """Whether a call has accumulators that do not depend on the order of rows; at a close its value must not either."""
    function = function_of(call)
    if call.distinct and not function.distinct_is_noop:
        return False
    made = function.decomposed(call, None, retracting=False)
    return made is not None and (
        early or (not function.order_sensitive and made == function.append_only(call))
    )
