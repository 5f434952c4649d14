"""Which columns of each node are read by the nodes above it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import (
    Aggregate,
    Apply,
    AsOfJoin,
    EmitOnClose,
    EpochValues,
    Filter,
    Join,
    LateralJoin,
    LookupJoin,
    Node,
    OrderLimit,
    OverWindow,
    Project,
    Scan,
    SessionFunction,
    SetOperation,
    Sink,
    StreamingOperator,
    Unnest,
    Values,
    Versions,
    WindowFunction,
    columns_of,
    walk,
)


def needed_columns(roots: Sequence[Sink]) -> dict[int, set[str]]:
    """By `id(node)`, the ids of its columns that are read."""
    needed: dict[int, set[str]] = {}
    for node in reversed(walk(roots)):
        own = needed.setdefault(id(node), set())
        if isinstance(node, Sink):
            own.update(f.id for f in node.fields)
        for child, wanted in zip(node.inputs, _wanted(node, own), strict=True):
            needed.setdefault(id(child), set()).update(wanted)
    return needed


def read_expressions(node: Node, own: set[str]) -> tuple[exp.Expr, ...]:
    """The expressions of a node that are computed when `own` of its columns are needed."""
    if isinstance(node, Project):
        kept = tuple(e for f, e in zip(node.fields, node.items, strict=True) if f.id in own)
        return kept or node.items[:1]
    return node.expressions()


def _wanted(node: Node, own: set[str]) -> list[set[str]]:
    """For each input, the ids of its columns that `node` needs when `own` of its columns are needed."""
    if isinstance(node, StreamingOperator):
        return list(node.wanted(own))
    read = set().union(*(columns_of(e) for e in read_expressions(node, own)), node.references())
    match node:
        case Scan() | Values():
            return []
        case SetOperation():
            # Columns are matched by position (and rows compared as a whole), so branches keep all of them.
            wanted = bool(own & {f.id for f in node.fields}) or not own or not node.is_union_all
            return [{f.id for f in b.fields} if wanted else set() for b in node.branches]
        case Project() | Aggregate():
            return [read]
        case Sink() | Filter():
            return [own | read]
        case Apply():
            inside = {f.id for f in node.query.fields}
            mine = {f.id for f in node.input.fields}
            return [(own | read) & mine, inside]
        case (
            AsOfJoin()
            | EmitOnClose()
            | EpochValues()
            | Join()
            | LateralJoin()
            | LookupJoin()
            | OrderLimit()
            | OverWindow()
            | SessionFunction()
            | Unnest()
            | Versions()
            | WindowFunction()
        ):
            every = [{f.id for f in i.fields} for i in node.inputs]
            return [(own | read) & known for known in every]
    raise InternalError(f"it is not defined which columns a {type(node).__name__} reads")
