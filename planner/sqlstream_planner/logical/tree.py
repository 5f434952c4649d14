"""Walking over plans, and rewriting them. Nodes are never changed: a rewrite makes new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlstream_planner.logical.nodes import Node, Scan, Union


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The same node over other inputs; the node itself if they are the very same."""
    if all(a is b for a, b in zip(node.inputs, inputs, strict=True)):
        return node
    if isinstance(node, Scan):
        return node
    if isinstance(node, Union):
        return replace(node, branches=inputs)
    return replace(node, input=inputs[0])  # type: ignore[arg-type]  # a rule keeps a WindowGate's input a group


def transform(roots: tuple[Node, ...], rewrite: Callable[[Node], Node]) -> tuple[Node, ...]:
    """Rewrite a plan bottom up; a node that several consumers share is rewritten once and stays shared."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            done[id(node)] = rewrite(with_inputs(node, tuple(visit(i) for i in node.inputs)))
        return done[id(node)]

    return tuple(visit(root) for root in roots)


def walk(roots: tuple[Node, ...]) -> list[Node]:
    """Every node once, inputs before their consumers."""
    seen: set[int] = set()
    order: list[Node] = []

    def visit(node: Node) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in node.inputs:
            visit(child)
        order.append(node)

    for root in roots:
        visit(root)
    return order


def consumers(roots: tuple[Node, ...]) -> dict[int, int]:
    """How many nodes read each node, by `id(node)`."""
    count: dict[int, int] = {}
    for node in walk(roots):
        for child in node.inputs:
            count[id(child)] = count.get(id(child), 0) + 1
    return count
