"""Node rules: what an operator does for one node of the algebra, applied bottom up in one pass over the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import Node, rebuild
from sqlstream_planner.properties.changelog import Changes
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.properties.timed_columns import TimedColumns
from sqlstream_planner.properties.unique_keys import UniqueKeys
from sqlstream_planner.rules.rule import Roots, Rule


@dataclass(slots=True)
class Streaming:
    """What node rules may ask: properties of nodes that are done, and what those were made of."""

    facts: Facts
    _made_of: dict[int, tuple[Node, Node]] = field(default_factory=dict)

    @property
    def changes(self) -> Changes:
        """Whether the rows of a node are updating."""
        return self.facts.changes

    @property
    def keys(self) -> UniqueKeys:
        """By which columns the rows of a node are unique."""
        return self.facts.keys

    @property
    def timed(self) -> TimedColumns:
        """Which columns of a node follow the watermark."""
        return self.facts.timed

    def meaning(self, node: Node) -> Node:
        """The relational node that `node`, of the streaming plan, gives the rows of."""
        return self._made_of[id(node)][1]

    def note(self, node: Node, original: Node) -> None:
        """Remember what a node was made of."""
        self._made_of[id(node)] = (node, original)


#: Gives the node that takes the place of a node over streaming inputs, with the same columns; None if it has nothing
#: to say of it.
NodeRule = Callable[[Node, Streaming], Node | None]


def in_one_pass(*rules: NodeRule) -> Rule:
    """The rule that makes a streaming plan: each node of the algebra, inputs first, by the node rules in order.

    Raises InternalError naming a node rule that changed a node's columns.
    """

    def apply(roots: Roots, facts: Facts) -> Roots:
        streaming = Streaming(facts)

        def rewrite(node: Node, original: Node) -> Node:
            streaming.note(node, original)
            for rule in rules:
                made = rule(node, streaming)
                if made is None:
                    continue
                if [(f.id, f.type) for f in made.fields] != [(f.id, f.type) for f in node.fields]:
                    raise InternalError(
                        f"rule {rule.__name__} changed the columns of a {type(node).__name__}"
                    )
                node = made
                streaming.note(node, original)
            return node

        return rebuild(roots, rewrite)

    apply.__name__ = ", ".join(rule.__name__ for rule in rules)
    return apply
