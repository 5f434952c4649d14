"""Graphs in text: whoever follows the lines finds the edges again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_planner.explain.lanes import Row, in_order, rows_of
from tests.examples import examples

Inputs = dict[int, list[int]]
#: By character, from where to where its lines go.
_ENDS = {
    "│": "ud",
    "┤": "udl",
    "├": "udr",
    "┼": "udlr",
    "╯": "ul",
    "╰": "ur",
    "┴": "ulr",
    "╮": "dl",
    "╭": "dr",
    "┬": "dlr",
    "─": "lr",
}


@st.composite
def graphs(draw: st.DrawFn) -> Inputs:
    """Graphs without circles, with nodes that nobody reads, and with several that all read one."""
    nodes = range(draw(st.integers(1, 9)))
    return {n: draw(st.lists(st.sampled_from(range(n)), max_size=4, unique=True)) if n else [] for n in nodes}


def followed(rows: list[Row[int]]) -> Inputs:
    """The inputs of each node, read from the drawing alone."""
    held: dict[int, int] = {}  # by column, the node whose rows come down in it
    met: set[int] | None = None  # those that the line above a node leads to it
    found: Inputs = {}
    for row in rows:
        if row.node is None:
            assert met is None
            met, held = met_in(row.lanes, held)
            continue
        column = row.lanes.index("o")
        found[row.node] = sorted(({held[column]} if column in held else set()) if met is None else met)
        assert {n for n, c in enumerate(row.lanes) if c != " "} == {*held, column}
        held, met = {n: node for n, node in held.items() if n != column}, None
        below = {n for n, c in enumerate(row.below) if c != " "}
        if column in below:
            held[column] = row.node
        assert below == {*held}
    assert not held
    return found


def met_in(line: str, held: dict[int, int]) -> tuple[set[int], dict[int, int]]:
    """The nodes whose lanes meet in a line, and what comes down beneath it."""
    ends = {n: _ENDS[c] for n, c in enumerate(line) if c != " "}
    assert {*held} == {n for n, e in ends.items() if "u" in e}, "no lane begins or ends in nothing"
    joints = [n for n, e in ends.items() if e not in ("ud", "lr")]
    across = range(min(joints), max(joints))
    assert all(n in ends and ("r" in ends[n] or ends[n] == "ud") for n in across), "the line has no gap"
    assert {n for n, e in ends.items() if e == "lr"} <= {*across}
    down = [n for n, e in ends.items() if "d" in e]
    return {held[n] for n in joints if "u" in ends[n]}, {n: held.get(n, -1) for n in down}


def test_an_edge_that_is_not_drawn_is_missed() -> None:
    drawn = [Row("o", 0, "│"), Row("├─╮", None), Row("│ o", 1, "│"), Row("o", 2, "")]
    assert followed(drawn) == {0: [], 1: [0], 2: [0]}


@given(graph=graphs())
@settings(max_examples=examples(200))
def test_all_nodes_come_once_and_after_their_inputs(graph: Inputs) -> None:
    order = in_order(graph)
    assert sorted(order) == sorted(graph)
    assert all(order.index(before) < order.index(node) for node in graph for before in graph[node])


@given(graph=graphs())
@settings(max_examples=examples(300))
def test_who_follows_the_lines_finds_the_edges(graph: Inputs) -> None:
    assert followed([*rows_of(graph, dict.fromkeys(graph, "o"))]) == {
        n: sorted(reads) for n, reads in graph.items()
    }
