"""Whether an epoch's changes hold no row that is inserted and retracted."""

from __future__ import annotations

from sqlstream_planner.expressions.passed_on import passed_on
from sqlstream_planner.logical import Filter, Node, Project, Scan, Sink, StreamingOperator, Values, Versions
from sqlstream_planner.properties.analysis import Analysis, is_stateless, unknown
from sqlstream_planner.properties.changelog import Changes


class Consolidated(Analysis[bool]):
    """Whether no two of an epoch's changes of a changing node cancel out.

    Operators do; a projection keeps it so if it shows all that they give.
    """

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes

    def of(self, node: Node) -> bool:
        """Computed of a node from its inputs."""
        match node:
            case StreamingOperator():
                return node.is_consolidated and self._changes(node)
            case Filter() | Sink():
                return self(node.input)
            case Project():
                shown = passed_on(node.fields, node.items, node.input)
                return shown.keys() >= {f.id for f in node.input.fields} and self(node.input)
            case Scan() | Values() | Versions():
                return False
            case _ if is_stateless(node):
                return False
        raise unknown(node, "whether its changes are consolidated")
