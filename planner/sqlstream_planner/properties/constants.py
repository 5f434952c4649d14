"""Which columns have one value in all rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_planner.logical import (
    Fields,
    Filter,
    FirstRow,
    GroupAggregate,
    Node,
    Over,
    Project,
    SessionWindows,
    SuppressUntilClose,
    TopN,
    columns_of,
)
from sqlstream_planner.properties.analysis import Analysis


class Constants(Analysis[frozenset[str]]):
    """The ids of columns that have one value in all rows of a node's output."""

    def of(self, node: Node) -> frozenset[str]:
        """Computed of a node from its inputs."""
        match node:
            case Project():
                return self.among(node.fields, node.items, node.input)
            case GroupAggregate() if node.grouping is None:
                return self.among(node.keys, node.key_expressions, node.input)
            case Filter() | TopN() | Over() | SuppressUntilClose() | FirstRow() | SessionWindows():
                return self(node.inputs[0])
        return frozenset()

    def among(self, fields: Fields, expressions: Sequence[exp.Expr], below: Node) -> frozenset[str]:
        """Which of the fields read constants of `below` only."""
        known = self(below)
        return frozenset(f.id for f, e in zip(fields, expressions, strict=True) if columns_of(e) <= known)
