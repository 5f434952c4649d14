"""Whether rows that a node gave may go again or be replaced, so that they come with a weight."""

from __future__ import annotations

from enum import StrEnum

from sqlstream_planner.logical import (
    ChangelogNormalize,
    GroupAggregate,
    JoinKind,
    Node,
    Over,
    RegularJoin,
    Scan,
    SessionAggregate,
    SessionWindows,
    SuppressUntilClose,
    TopN,
    Versions,
)
from sqlstream_planner.properties.analysis import Analysis
from sqlstream_planner.properties.arrival import is_first_come


class ChangelogMode(StrEnum):
    """What kinds of changes a node emits."""

    APPEND = "append-only"
    UPSERT = "upsert"
    RETRACT = "retracting"


class Changes(Analysis[bool]):
    """True where rows may go again; of a streaming plan."""

    def of(self, node: Node) -> bool:
        """Computed of a node from its inputs."""
        match node:
            case Scan():
                return node.changelog
            case ChangelogNormalize():
                return True
            case GroupAggregate():
                # DISTINCT over rows that stay: a row that was given once is never taken back.
                return bool(node.calls) or node.grouping is not None or not node.keys or self(node.input)
            case TopN():
                return node.window_end is None and not self._is_first_come(node)
            case Versions():
                # A row that goes is a version that says so.
                return False
            case Over():
                return node.closing is None
            case RegularJoin() if node.kind not in (JoinKind.INNER, JoinKind.SEMI):
                # A row without a partner is taken back when one comes.
                return True
            case SessionWindows() | SessionAggregate():
                return node.early
            case SuppressUntilClose():
                # What a window was given once is corrected by rows that are allowed to be late, and by nothing else.
                expiry = node.input.expiry
                return expiry is not None and expiry.lateness_us > 0 and self(node.input)
        return any(self(i) for i in node.inputs)

    def _is_first_come(self, node: TopN) -> bool:
        """Whether the first rows of a partition are those that came first: no later one takes their place."""
        ranked = node.function == "row_number" and is_first_come(node.input, node.order)
        return ranked and not self(node.input)
