"""Inputs with the columns that are read: what an operator keeps is no wider than that."""

from __future__ import annotations

from collections.abc import Iterable, Set

from sqlstream_planner.logical.algebra import Project
from sqlstream_planner.logical.arity import BinaryNode
from sqlstream_planner.logical.columns import ColumnId
from sqlstream_planner.logical.expressions import column
from sqlstream_planner.logical.node import Node


def narrowed(node: Node, read: Set[str]) -> Node:
    """A node with the columns that are read, or one if none is."""
    kept = tuple(f for f in node.fields if f.id in read) or node.fields[:1]
    return node if kept == node.fields else Project(node, kept, tuple(column(f.id) for f in kept))


def narrowed_sides(node: BinaryNode, read: Set[str]) -> Node:
    """A join over the columns of its sides that are read."""
    return node.with_inputs(tuple(narrowed(side, read) for side in node.inputs))


def read_since(node: Node, ties: Iterable[str], needed: Set[str]) -> tuple[ColumnId, ...]:
    """The columns that are read of what is kept, beside those that were read when ties were settled: a sub-query that
    became a join since may read more.
    """
    more = needed - set(ties)
    return tuple(ColumnId(f.id) for f in node.fields if f.id in more)
