"""The ORDER BYs of sub-queries that choose no rows, and what goes by the order of the rows that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_planner.diagnostics import Span
from sqlstream_planner.logical import Node, OrderTerm


@dataclass(frozen=True, slots=True)
class WrittenOrder:
    """The rows of `node`, a sub-query's result, with the columns of the `terms` of its ORDER BY, which stands at `at`."""

    node: Node
    rows: Node
    terms: tuple[OrderTerm, ...]
    at: Span


@dataclass(slots=True)
class WrittenOrders:
    """Those of one statement: where each stands, and where that stands which has been given the order of its rows."""

    all: dict[Span, exp.Expr] = field(default_factory=dict)
    used: set[Span] = field(default_factory=set)
    served: set[Span] = field(default_factory=set)
    _of: dict[int, WrittenOrder] = field(default_factory=dict)

    def keep(self, order: WrittenOrder) -> None:
        """Remember the order of a node's rows."""
        self._of[id(order.node)] = order

    def of(self, node: Node) -> WrittenOrder | None:
        """The order that is written of a node's rows."""
        found = self._of.get(id(node))
        if found is not None:
            self.used.add(found.at)
        return found
