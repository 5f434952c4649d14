"""Joins with a table as it is when an epoch is planned: no stream, and no state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from sqlglot import exp

from sqlstream_planner.diagnostics import Span
from sqlstream_planner.logical.algebra import Filter, Project, Scan
from sqlstream_planner.logical.arity import BinaryNode
from sqlstream_planner.logical.columns import Fields
from sqlstream_planner.logical.node import NON_SEMANTIC, Node
from sqlstream_planner.logical.parts import JoinKind


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LookupJoin(BinaryNode):
    """Each row of `left` beside the rows of `right` for which `condition` is true, as the table is at that time.

    `right` is the scan of a dimension table, under projections and conditions. LEFT gives a row without any beside NULLs.
    It is algebra, and what runs: a row is looked up once, and nothing is kept of it.
    """

    makes_own: ClassVar = True

    kind: JoinKind
    condition: exp.Expr
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)

    def __post_init__(self) -> None:
        if self.kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise ValueError(f"a {self.kind} join looks nothing up")

    @property
    def fields(self) -> Fields:
        """The fields of both: the left's as they are, the right's of no time."""
        outer = self.kind is JoinKind.LEFT
        theirs = (replace(f, time=None, window=None, nullable=f.nullable or outer) for f in self.right.fields)
        return (*self.left.fields, *theirs)


def dimension_scan(node: Node) -> Scan | None:
    """The scan of the table that a lookup join can read as `node`; None for what is more than one table."""
    while isinstance(node, Project | Filter):
        node = node.input
    return node if isinstance(node, Scan) else None
