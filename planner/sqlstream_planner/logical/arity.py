"""Nodes by how many inputs they have."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_planner.logical.columns import Fields
from sqlstream_planner.logical.node import Node


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Leaf(Node):
    """A node that reads no other."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """No inputs."""
        return ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UnaryNode(Node):
    """A node over one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BinaryNode(Node):
    """A node over two inputs."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left, then right."""
        return (self.left, self.right)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PassingNode(UnaryNode):
    """A node that gives its input's columns as they are."""

    @property
    def fields(self) -> Fields:
        """The input's fields."""
        return self.input.fields
