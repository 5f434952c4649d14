"""Whether an epoch's changes hold no row that comes and goes."""

from __future__ import annotations

from sqlstream_planner.logical import (
    Filter,
    GroupAggregate,
    Node,
    Over,
    Project,
    RegularJoin,
    SessionAggregate,
    SessionWindows,
    Sink,
    TopN,
)
from sqlstream_planner.properties.analysis import Analysis
from sqlstream_planner.properties.changelog import Changes
from sqlstream_planner.properties.passed_on import passed_on


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
            case GroupAggregate() | TopN() | Over() | RegularJoin() | SessionWindows() | SessionAggregate():
                return self._changes(node)
            case Filter():
                return self(node.input)
            case Project():
                shown = passed_on(node.fields, node.items, node.input)
                return shown.keys() >= {f.id for f in node.input.fields} and self(node.input)
            case Sink():
                return self(node.input)
        return False
