"""SUM(c) OVER (PARTITION BY a ORDER BY b)  ->  what keeps the rows of each partition, and the sums beside them."""

from __future__ import annotations

from sqlstream_planner.aggregates.registry import AGGREGATES
from sqlstream_planner.diagnostics import not_run_yet
from sqlstream_planner.logical import ColumnId, EventTime, Field, Node, OverWindow, columns_of
from sqlstream_planner.logical.parts import FILL_FUNCTIONS, PEER_FUNCTIONS, PLACE_FUNCTIONS, VALUE_FUNCTIONS
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.streaming import Over


def over(node: Node, streaming: Streaming) -> Node | None:
    """Make of functions OVER a window what keeps its rows; `top_n` makes a Top-N of it where a condition bounds a rank.

    Raises DiagnosticError for a function that has no one value.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> print(logical("SELECT a, SUM(c) OVER (PARTITION BY a ORDER BY ts) AS s FROM t", rules=streaming(over)))
    sink result
      project a = a, s = sum
        over aggregate sum by a order ts
          scan t (a, c, ts)
    """
    if not isinstance(node, OverWindow):
        return None
    for call in node.calls:
        name = call.name.upper()
        known = PEER_FUNCTIONS | PLACE_FUNCTIONS | VALUE_FUNCTIONS | FILL_FUNCTIONS
        if call.name not in {*AGGREGATES, *known}:
            not_run_yet(
                node.at,
                f"{name} OVER",
                "aggregates can, ranks, LAG and LEAD, FIRST_VALUE and its like",
            )
        function = AGGREGATES.get(call.name)
        if function is not None and function.arguments.instead_over:
            not_run_yet(node.at, f"{name} OVER", function.arguments.instead_over)
        if call.by_rows and call.frame.endswith(("EXCLUDE TIES", "EXCLUDE GROUP")):
            not_run_yet(
                call.at,
                f"ROWS with EXCLUDE TIES or EXCLUDE GROUP in {name} OVER",
                "a frame of ROWS does not say at which of equal rows it ends: write GROUPS or RANGE",
            )
    read = {*node.references(), *(id_ for e in node.expressions() for id_ in columns_of(e))}
    ties = node.ties or ()
    # What a sub-query reads of the outer rows was added after ties were settled.
    ties = (*ties, *(ColumnId(f.id) for f in node.input.fields if f.id in read - set(ties)))
    # Of rows that change a value is never final.
    closing = None if streaming.changes(node.input) else node.closed_by
    return Over(
        node.input,
        node.partition,
        node.order,
        node.calls,
        ties,
        streaming.meaning(node),
        node.ttl_us if node.partition and closing is None else None,
        ColumnId(closing.id) if closing is not None else None,
        _time_of(node, closing) if closing is not None else None,
    )


def _time_of(node: OverWindow, closing: Field) -> EventTime | None:
    if node.waits_for_time:
        return closing.time
    return closing.window.time if closing.window is not None else None
