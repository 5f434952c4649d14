"""What relations and columns of a plan mean, in one spelling."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.identity.canonical.canonical import Canonical
from sqlstream_planner.identity.form import Form
from sqlstream_planner.identity.parts import Columns, Rows
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import AggregateCall, Node, SessionFunction, WindowFunction


class CanonicalMeanings(Meanings):
    """The meanings of a plan, each as `canonical` spells it."""

    def __init__(self, meanings: Meanings, canonical: Canonical) -> None:
        self._meanings, self._canonical = meanings, canonical

    def relation(self, node: Node) -> Form:
        """Which rows a node has."""
        return self._canonical(self._meanings.relation(node))

    def columns(self, node: Node) -> Columns:
        """What each of a node's columns holds."""
        found = self._meanings.columns(node)
        return Columns({id_: self._canonical(form) for id_, form in found.items()}, found.types)

    def expression(self, expression: exp.Expr, node: Node) -> Form:
        """What an expression over a node's columns computes."""
        return self._canonical(self._meanings.expression(expression, node))

    def call(self, call: AggregateCall, node: Node) -> Form:
        """What an aggregate call computes."""
        return self._canonical(self._meanings.call(call, node))

    def nesting_depth(self, node: Node) -> int:
        """As of the meanings."""
        return self._meanings.nesting_depth(node)

    def rows(self, node: Node) -> Rows:
        """Which rows a node has, its conditions apart."""
        found = self.relation(node)
        if found.op != "filter":
            return Rows(found)
        base, *conditions = (a for a in found.args if isinstance(a, Form))
        return Rows(base, frozenset(conditions))

    def window(self, node: WindowFunction) -> Form:
        """Which windows a window function makes."""
        return self._canonical(self._meanings.window(node))

    def sessions(self, node: SessionFunction) -> Form:
        """Which sessions a SESSION makes."""
        return self._canonical(self._meanings.sessions(node))
