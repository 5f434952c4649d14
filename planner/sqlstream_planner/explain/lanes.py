"""A directed graph in lines of text: a node a line, its rows go down in a lane of their own, as `git log --graph` does it.

●    bids
├─╮
│ ●  counts
├─╯
●    hot items
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)

#: What stands where lines meet, by the directions that they come from: up, down, left, right.
_JOINTS = {
    "ud": "│",
    "udl": "┤",
    "udr": "├",
    "udlr": "┼",
    "ul": "╯",
    "ur": "╰",
    "ulr": "┴",
    "dl": "╮",
    "dr": "╭",
    "dlr": "┬",
    "lr": "─",
}


@dataclass(frozen=True, slots=True)
class Row(Generic[Node]):
    """A line: the lanes, and the node whose line it is, or None between nodes.

    `below` are the lanes under a node's own line, for what else is said of it.
    """

    lanes: str
    node: Node | None
    below: str = ""


def in_order(inputs: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """All nodes, each after its inputs and as late as that allows: so that few lanes are open at a time.

    >>> in_order({"a": [], "b": [], "c": ["b"], "d": ["a", "c"]})
    ['a', 'b', 'c', 'd']
    """
    found: dict[Node, None] = {}
    read = {node for nodes in inputs.values() for node in nodes}
    for end in [node for node in inputs if node not in read]:
        left: list[tuple[Node, bool]] = [(end, False)]
        while left:
            node, all_inputs_are_there = left.pop()
            if all_inputs_are_there:
                found[node] = None
            elif node not in found:
                left.append((node, True))
                left += [(before, False) for before in reversed(inputs[node])]
    return list(found)


def rows_of(inputs: Mapping[Node, Sequence[Node]], symbols: Mapping[Node, str]) -> Iterator[Row[Node]]:
    """The rows of a graph without circles; `inputs` has for each node those that it reads, each once.

    A row between two nodes is there only where lanes meet or part.

    >>> graph = {"a": [], "b": ["a"], "c": ["a", "b"]}
    >>> for row in rows_of(graph, {"a": "a", "b": "b", "c": "c"}):
    ...     print(row.lanes)
    a
    ├─╮
    │ b
    ├─╯
    c
    """
    readers_left = dict.fromkeys(inputs, 0)
    for nodes in inputs.values():
        for node in nodes:
            readers_left[node] += 1
    lanes: list[Node | None] = []  # by lane, the node whose rows go down in it
    for node in in_order(inputs):
        reads = [lanes.index(before) for before in inputs[node]]
        for before in inputs[node]:
            readers_left[before] -= 1
        ending = [lane for lane, before in zip(reads, inputs[node], strict=True) if not readers_left[before]]
        own = min(ending) if ending else _free(lanes, max(reads, default=-1))
        if own == len(lanes):
            lanes.append(None)
        if reads and reads != [own]:
            yield Row(_meeting(lanes, {*reads}, {*ending}, own), None)
        for lane in ending:
            lanes[lane] = None
        here = "".join(
            symbols[node] + " " if n == own else ("│ " if lane is not None else "  ")
            for n, lane in enumerate(lanes)
        )
        lanes[own] = node if readers_left[node] else None
        while lanes and lanes[-1] is None:
            lanes.pop()
        yield Row(here.rstrip(), node, "".join("  " if lane is None else "│ " for lane in lanes).rstrip())


def _free(lanes: Sequence[object], after: int) -> int:
    """The first free lane to the right of `after`."""
    return next((n for n, lane in enumerate(lanes) if lane is None and n > after), len(lanes))


def _meeting(lanes: Sequence[object], reads: set[int], ending: set[int], own: int) -> str:
    """The line above a node: from the lanes that it reads to its own. A lane that it only crosses goes on beneath."""
    first, last = min(*reads, own), max(*reads, own)
    cells = []
    for lane, held in enumerate(lanes):
        across = first <= lane <= last
        if lane not in reads and lane != own:
            cells.append("│" if held is not None else ("─" if first < lane < last else " "))
        else:
            up = "u" if lane in reads else ""
            down = "d" if lane == own or lane not in ending else ""
            left = "l" if across and lane > first else ""
            right = "r" if across and lane < last else ""
            cells.append(_JOINTS[up + down + left + right])
        cells.append("─" if first <= lane < last else " ")
    return "".join(cells).rstrip()


def widest(rows: Iterable[Row[Node]]) -> int:
    """How many characters the lanes take at most."""
    return max((len(row.lanes) for row in rows), default=0)
