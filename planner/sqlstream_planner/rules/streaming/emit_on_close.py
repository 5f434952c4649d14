"""EMIT ON WINDOW CLOSE  ->  nothing, where the query's result is final when windows close; else it is refused."""

from __future__ import annotations

from sqlstream_planner.diagnostics import refuse
from sqlstream_planner.logical import EmitOnClose, Node, OverWindow, Scan, StreamingOperator, walk
from sqlstream_planner.logical.operator import Corrected, Given
from sqlstream_planner.properties.changelog import Changes
from sqlstream_planner.rules.streaming.node_rules import Streaming

_WINDOW = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"


def emit_on_close(node: Node, streaming: Streaming) -> Node | None:
    """Check an EMIT ON WINDOW CLOSE and take it out. Raises DiagnosticError where the result could change later."""
    if not isinstance(node, EmitOnClose):
        return None
    _check(node, streaming.changes)
    return node.input


def _check(emit: EmitOnClose, changes: Changes) -> None:
    operators = [n for n in walk((emit.input,)) if isinstance(n, StreamingOperator)]
    if all(n.given is Given.AT_ONCE for n in operators):
        ranked = any(isinstance(n.meaning, OverWindow) for n in operators)
        refuse(
            emit.at,
            "SQL065",
            "EMIT ON WINDOW CLOSE, but the query has no window that closes",
            notes=("a result is final only when a watermark closes it",),
            help=(
                "rank in windows: PARTITION BY window_start, window_end; "
                if ranked
                else f"aggregate in windows: SELECT window_end, COUNT(*) {_WINDOW}; "
            )
            + "or leave EMIT ON WINDOW CLOSE out: the result is then kept up to date",
        )
    if any(_updates(node, changes) for node in _outside_windows(emit.input)):
        refuse(
            emit.at,
            "SQL065",
            "EMIT ON WINDOW CLOSE, but the result changes after windows have closed",
            notes=(
                "outside of the window something is kept up to date: an aggregate, a rank, DISTINCT, a LIMIT, or an outer "
                "join whose rows wait for no partner",
            ),
            help="leave EMIT ON WINDOW CLOSE out, or put it after the sub-query that aggregates in windows",
        )


def _outside_windows(node: Node) -> list[Node]:
    """The nodes whose changes no window holds back until it closes."""
    found: dict[int, Node] = {}
    stack = [node]
    while stack:
        top = stack.pop()
        closes = isinstance(top, StreamingOperator) and top.given is Given.ON_CLOSE
        if id(top) not in found and not closes:
            found[id(top)] = top
            stack += top.inputs
    return list(found.values())


def _updates(node: Node, changes: Changes) -> bool:
    """Whether a node takes rows back of its own accord, or for longer than what it reads does."""
    if isinstance(node, StreamingOperator):
        longer = node.corrected in (Corrected.ANYTIME, Corrected.IN_WINDOW)
        return node.is_updating(lambda _: False) or (longer and changes(node))
    return isinstance(node, Scan) and node.changelog
