"""An analysis: a function of nodes that is computed once for each, however deep the plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical.algebra import (
    EmitOnClose,
    Filter,
    OrderLimit,
    Project,
    SetOperation,
    Sink,
    Unnest,
    WindowFunction,
)
from sqlstream_planner.logical.epoch_values import EpochValues
from sqlstream_planner.logical.lookup import LookupJoin
from sqlstream_planner.logical.node import Node

_FoundT = TypeVar("_FoundT")


class Analysis(ABC, Generic[_FoundT]):
    """Derives a fact of each node from those of the node's inputs.

    Nodes are known by identity and kept, so that no other can take a known one's place. Inputs are
    computed first, without recursion: a plan may be deeper than Python's stack.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Node, _FoundT]] = {}

    def __call__(self, node: Node) -> _FoundT:
        """What is known of `node`."""
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [i for i in top.inputs if id(i) not in self._found]
            if id(top) not in self._found and not missing:
                self._found[id(top)] = (top, self.of(top))
            if id(top) in self._found:
                stack.pop()
            else:
                stack += missing
        return self._found[id(node)][1]

    @abstractmethod
    def of(self, node: Node) -> _FoundT:
        """Computes it for one node; `self(input)` is at hand for each input."""


def is_stateless(node: Node) -> bool:
    """Whether a node of the algebra stands in a streaming plan as it is, and makes of each row what it makes of it."""
    return isinstance(
        node,
        EmitOnClose
        | EpochValues
        | Filter
        | LookupJoin
        | OrderLimit
        | Project
        | SetOperation
        | Sink
        | Unnest
        | WindowFunction,
    )


def unknown(node: Node, what: str) -> InternalError:
    """Of a node that an analysis does not know, and that does not answer itself."""
    return InternalError(f"it is not defined of a {type(node).__name__} {what}")
