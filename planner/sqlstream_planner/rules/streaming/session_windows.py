"""SESSION  ->  an operator that keeps rows until their session closes."""

from __future__ import annotations

from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_planner.diagnostics import InternalError, refuse
from sqlstream_planner.logical import Node, SessionFunction
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.streaming import SessionWindows


def session_windows(node: Node, streaming: Streaming) -> Node | None:
    """Make the operator of a SESSION. Raises DiagnosticError over rows that change.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> session = "TABLE(SESSION(TABLE t PARTITION BY a, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    >>> print(logical(f"SELECT window_end, a FROM {session}", rules=streaming(session_windows)))
    sink result
      project window_end = window_end, a = a
        session windows SESSION(gap 10 seconds of ts) by a
          scan t (a, c, ts)
    """
    if not isinstance(node, SessionFunction):
        return None
    if streaming.changes(node.input):
        refuse(
            node.at,
            "SQL072",
            "a SESSION over updating rows",
            notes=("a retraction would leave a gap in a session, and split it",),
            help="use TUMBLE or HOP over a source of changes, or SESSION over append-only rows",
        )
    time = next(f.time for f in node.input.fields if f.id == node.time_column)
    if node.end.window is None or (time is None and EPOCH_RELATION not in node.end.window.time.sources):
        raise InternalError("a SESSION without an event time")
    return SessionWindows(
        node.input,
        node.window,
        node.partition,
        node.time_column,
        node.start,
        node.end,
        node.time,
        node.end.window.time,
        time is not None and time.direct,  # by process time no row is late
        node.early,
        node.emission.lateness_us,
        streaming.meaning(node),
    )
