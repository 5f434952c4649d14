"""Whether a node's rows are updating: what it emitted may be retracted, so that rows have a weight."""

from __future__ import annotations

from enum import StrEnum

from sqlstream_planner.logical import Node, Scan, StreamingOperator, Values, Versions
from sqlstream_planner.properties.analysis import Analysis, is_stateless, unknown


class ChangelogMode(StrEnum):
    """What kinds of changes a node emits."""

    APPEND = "append-only"
    UPSERT = "upsert"
    RETRACT = "retracting"


class Changes(Analysis[bool]):
    """True where rows are updating; of a streaming plan."""

    def of(self, node: Node) -> bool:
        """Computed of a node from its inputs."""
        match node:
            case StreamingOperator():
                return node.is_updating(self)
            case Scan():
                return node.changelog
            case Versions() | Values():
                # A retracted row is a version that says so.
                return False
            case _ if is_stateless(node):
                return any(self(i) for i in node.inputs)
        raise unknown(node, "whether its rows are updating")
