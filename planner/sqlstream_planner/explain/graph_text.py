"""The graph of a plan in text: what the dashboard draws, for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from sqlstream_planner.diagnostics import Span
from sqlstream_planner.explain.graph import Graph, GraphEdge, GraphNode, NodeKind
from sqlstream_planner.explain.lanes import rows_of, widest

#: What a piece of a line is: for who gives it a colour.
Part = Literal[NodeKind, "lane", "place", "verdict", "label"]
Paint = Callable[[Part, str], str]

SYMBOLS: Mapping[NodeKind, str] = {"source": "▷", "dimension": "◇", "sql": "○", "operator": "●", "sink": "■"}
#: A line of a title has at most so many characters.
_LONGEST = 64


def plain(part: Part, text: str) -> str:
    """The text as it is."""
    return text


def graph_lines(
    graph: Graph,
    places: Mapping[str, Span],
    *,
    verdicts: Mapping[str, str] = MappingProxyType({}),
    paint: Paint = plain,
) -> Iterator[str]:
    """The lines of a graph, sources first; `places` has the clause of a node, `verdicts` what an edit makes of its state.

    A node's line has its symbol, what it does, its name, the verdict and the place of its clause. Above it stands how the
    rows that it reads are exchanged. Projections and filters between two others have no line.
    """
    nodes = {node.id: node for node in graph.nodes}
    edges: dict[str, list[GraphEdge]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        edges[edge.target].append(edge)
    for node in graph.nodes:
        if node.kind == "sql" and node.title == "SQL" and len(edges[node.id]) == 1:
            nodes.pop(node.id)
            _passed_on(edges, node.id)
    inputs = {node: list(dict.fromkeys(edge.source for edge in reads)) for node, reads in edges.items()}
    rows = list(rows_of(inputs, {node.id: SYMBOLS[node.kind] for node in nodes.values()}))
    width = widest(rows)
    texts = {node.id: _text(node) for node in nodes.values()}
    longest = max((len(text) for text in texts.values()), default=0)
    before = ""  # the lanes between the last node and the next one
    meeting = ""
    for row in rows:
        if row.node is None:
            meeting = row.lanes
            continue
        node = nodes[row.node]
        label = _exchanged(edges[node.id])
        above = meeting or (before if label else "")
        if above:
            yield f"{paint('lane', f'{above:{width}}')}  {paint('label', label)}".rstrip()
        place = places.get(node.id)
        words = [paint(node.kind, f"{texts[node.id]:{longest}}")]
        if verdicts:
            words.append(paint("verdict", f"{verdicts.get(node.id, ''):8}"))
        if place is not None:
            words.append(paint("place", f"{Path(place.file).name}:{place.line}:{place.column}"))
        yield f"{_lanes(row.lanes, node, width, paint)}  {'  '.join(words)}".rstrip()
        before, meeting = row.below, ""


def _passed_on(edges: dict[str, list[GraphEdge]], node: str) -> None:
    """Leave out a node that only makes other columns of its one input, or takes fewer of its rows."""
    [read] = edges.pop(node)
    for target, reads in edges.items():
        edges[target] = [_from(edge, read) if edge.source == node else edge for edge in reads]


def _from(edge: GraphEdge, read: GraphEdge) -> GraphEdge:
    """An edge that begins where `read` does; it is the one that is exchanged, if only one of them is."""
    exchanged = read if edge.kind == "local" else edge
    return GraphEdge(read.source, edge.target, exchanged.kind, exchanged.label)


def _text(node: GraphNode) -> str:
    """What a node's line says of it: its kind, name and how it is made."""
    if node.kind == "operator":
        title = node.title if len(node.title) <= _LONGEST else f"{node.title[: _LONGEST - 1]}…"
        return f"{node.detail}: {title}"
    if node.kind == "sql":
        return node.title
    kind = "lookup table" if node.kind == "dimension" else node.kind
    return f"{kind} {node.title} ({node.detail})"


def _lanes(lanes: str, node: GraphNode, width: int, paint: Paint) -> str:
    """The lanes of a node's line: its symbol has its own colour."""
    symbol = SYMBOLS[node.kind]
    left, _, right = f"{lanes:{width}}".partition(symbol)
    return paint("lane", left) + paint(node.kind, symbol) + paint("lane", right)


def _exchanged(edges: list[GraphEdge]) -> str:
    """How the rows of edges reach their node's tasks: by which columns, or all to one."""
    found = dict.fromkeys(edge.label for edge in edges if edge.kind == "exchange")
    return "; ".join(label if label == "one shard" else f"hash({label})" for label in found)
