"""EMIT ON WINDOW CLOSE  ->  nothing, where the query's result is final when windows close; else it is refused."""

from __future__ import annotations

from sqlstream_planner.diagnostics import refuse
from sqlstream_planner.logical import (
    ChangelogNormalize,
    EmitOnClose,
    GroupAggregate,
    IntervalJoin,
    JoinKind,
    Node,
    Over,
    RegularJoin,
    Scan,
    SessionAggregate,
    SessionWindows,
    SuppressUntilClose,
    TopN,
    WindowAggregate,
    walk,
)
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
    nodes = walk((emit.input,))
    ranks = [n for n in nodes if isinstance(n, TopN) and _in_window(n)]
    final = [n for n in ranks if n.window_end is not None]
    closing = any(
        isinstance(n, WindowAggregate | SuppressUntilClose | IntervalJoin)
        or (isinstance(n, SessionWindows | SessionAggregate) and not n.early)
        or (isinstance(n, Over) and n.closing is not None)
        for n in nodes
    )
    if not final and not closing:
        ranked = any(isinstance(n, Over) or (isinstance(n, TopN) and n.rank is not None) for n in nodes)
        refuse(
            emit.at,
            "SQL065",
            "EMIT ON WINDOW CLOSE, but the query has no window that closes",
            notes=("a result is only final when a watermark says that nothing more comes for it",),
            help=(
                "rank in windows: PARTITION BY window_start, window_end; "
                if ranked
                else f"aggregate in windows: SELECT window_end, COUNT(*) {_WINDOW}; "
            )
            + "or leave EMIT ON WINDOW CLOSE out: the result is then kept up to date",
        )
    if any(_updates(n, changes) for n in _outside_windows(emit.input) if n not in final):
        refuse(
            emit.at,
            "SQL065",
            "EMIT ON WINDOW CLOSE, but the result changes after windows have closed",
            notes=(
                "outside of the window something is kept up to date: an aggregate, a rank, DISTINCT, a LIMIT, or an outer "
                "join whose rows wait for no partner",
            ),
            help="leave EMIT ON WINDOW CLOSE out, or put it behind the sub-query that aggregates in windows",
        )


def _outside_windows(node: Node) -> list[Node]:
    """The nodes whose changes no window holds back until it closes."""
    found: dict[int, Node] = {}
    stack = [node]
    while stack:
        top = stack.pop()
        if id(top) not in found and not isinstance(top, SuppressUntilClose | WindowAggregate):
            found[id(top)] = top
            stack += top.inputs
    return list(found.values())


def _in_window(rank: TopN) -> bool:
    ends = {f.id for f in rank.input.fields if f.window is not None and f.window.role == "end"}
    return bool(ends & set(rank.partition))


def _updates(node: Node, changes: Changes) -> bool:
    match node:
        case GroupAggregate():
            return changes(node)
        case TopN():
            return node.window_end is None
        case Over():
            return node.closing is None
        case ChangelogNormalize():
            return True
        case RegularJoin():
            # A row without a partner is taken back when one comes, however long the window has been closed.
            return node.kind not in (JoinKind.INNER, JoinKind.SEMI)
        case SessionWindows() | SessionAggregate():
            return node.early
        case Scan():
            return node.changelog
    return False
