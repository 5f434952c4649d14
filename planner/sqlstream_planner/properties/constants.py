"""Which columns have one value in all rows."""

from __future__ import annotations

from sqlstream_planner.logical import Filter, Node, Project, Scan, StreamingOperator, Values, Versions
from sqlstream_planner.logical.expressions import reading_only
from sqlstream_planner.properties.analysis import Analysis, is_stateless, unknown


class Constants(Analysis[frozenset[str]]):
    """The ids of columns that have one value in all rows of a node's output."""

    def of(self, node: Node) -> frozenset[str]:
        """Computed of a node from its inputs."""
        match node:
            case StreamingOperator():
                return node.constant_columns(self)
            case Project():
                return reading_only(node.fields, node.items, self(node.input))
            case Filter():
                return self(node.input)
            case Scan() | Values() | Versions():
                return frozenset()
            case _ if is_stateless(node):
                return frozenset()
        raise unknown(node, "which of its columns are constant")
