"""Walking over plans, and rewriting them. Nodes are never changed: a rewrite makes new ones.

Nothing here recurses: a plan may be deeper than Python's stack. Every node is visited once, however many consumers
it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from sqlstream_planner.logical.node import Node

_NodeT = TypeVar("_NodeT", bound=Node)


def walk(roots: Sequence[Node]) -> list[Node]:
    """Every node once, inputs before their consumers."""
    seen: set[int] = set()
    order: list[Node] = []
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, entered = stack.pop()
        if entered:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child in reversed(node.inputs)]
    return order


def transform(roots: Sequence[_NodeT], rewrite: Callable[[Node], Node]) -> tuple[_NodeT, ...]:
    """Rewrite bottom up: `rewrite` gets each node over its rewritten inputs, once, and gives what stands for it.

    A root must stay what it is (a Sink a Sink).
    """
    return rebuild(roots, lambda node, _: rewrite(node))


def rebuild(roots: Sequence[_NodeT], rewrite: Callable[[Node, Node], Node]) -> tuple[_NodeT, ...]:
    """As `transform`, where `rewrite` gets the original node as well, by which an analysis knows it."""
    made: dict[int, Node] = {}
    for node in walk(roots):
        made[id(node)] = rewrite(node.with_inputs(tuple(made[id(i)] for i in node.inputs)), node)
    return tuple(cast(_NodeT, made[id(root)]) for root in roots)


def consumers(roots: Sequence[Node]) -> dict[int, int]:
    """How many nodes read each node, by `id(node)`; one that reads it twice counts twice."""
    count: dict[int, int] = {}
    for node in walk(roots):
        for child in node.inputs:
            count[id(child)] = count.get(id(child), 0) + 1
    return count
