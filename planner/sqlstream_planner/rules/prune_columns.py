"""Columns that nobody reads are not read from the source."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.logical import (
    Filter,
    GroupAggregate,
    KeepFirst,
    Node,
    Normalize,
    Project,
    Rank,
    Scan,
    Sink,
    TopN,
    Union,
    Unnest,
    Window,
    WindowAggregate,
    WindowGate,
    columns_of,
    transform,
    walk,
)


def prune_columns(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """Keep, in projections and scans, only the columns that a consumer reads, and note which nested fields are.

    Aggregates stay as the query has them: state follows the query's text, not what is read of its result.

    >>> from sqlstream_planner.testing import logical
    >>> print(logical("SELECT b FROM (SELECT a + 1 AS b, c FROM t) AS s", rules=(prune_columns,)))
    sink result
      project b = b_2
        project b = b
          project b = a + 1
            scan t (a, ts)
    """
    needed, paths = _needed(roots)

    # `transform` rebuilds bottom up, so a node is known by the id of its original.
    originals = {id(n): n for n in walk(cast(tuple[Node, ...], roots))}
    by_fields = {
        tuple(f.id for f in n.fields): needed[i]
        for i, n in originals.items()
        if isinstance(n, Project | Scan)
    }
    ranked = {
        f.id for n in originals.values() for f in n.fields if isinstance(n, TopN) and f.id in needed[id(n)]
    }

    def rewrite(node: Node) -> Node:
        if isinstance(node, Project):
            own = by_fields[tuple(f.id for f in node.fields)]
            kept = [(f, e) for f, e in zip(node.fields, node.expressions, strict=True) if f.id in own]
            if not kept:
                kept = [(node.fields[0], node.expressions[0])]
            return replace(node, fields=tuple(f for f, _ in kept), expressions=tuple(e for _, e in kept))
        if isinstance(node, TopN) and node.rank is not None:
            return node if node.rank.id in ranked else replace(node, rank=None)
        if isinstance(node, Scan):
            return _pruned_scan(node, by_fields[tuple(f.id for f in node.fields)], paths)
        return node

    return cast(tuple[Sink, ...], transform(cast(tuple[Node, ...], roots), rewrite))


def settle_ties(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """Give each Top-N the columns that rank equal rows: those of its input that the query reads, in their order.

    Decided once, when the query is bound: what a rule or the batch SQL makes of the plan must not change the answer.
    """
    needed, _ = _needed(roots)
    # `transform` comes by the nodes in the order of `walk`.
    wanted = iter([needed[id(n)] for n in walk(cast(tuple[Node, ...], roots)) if isinstance(n, TopN)])

    def rewrite(node: Node) -> Node:
        if not isinstance(node, TopN):
            return node
        own = next(wanted) | set(node.partition) | {t.column for t in node.order}
        ties = tuple(f.id for f in node.input.fields if f.id in own)
        return replace(node, ties=ties or (node.input.fields[0].id,))

    return cast(tuple[Sink, ...], transform(cast(tuple[Node, ...], roots), rewrite))


def _needed(roots: tuple[Sink, ...]) -> tuple[dict[int, set[str]], dict[str, set[str]]]:
    """By `id(node)`, the ids of its columns that are read; and by column, the paths inside it."""
    needed: dict[int, set[str]] = {}
    paths: dict[str, set[str]] = {}
    for node in reversed(walk(cast(tuple[Node, ...], roots))):
        own = needed.setdefault(id(node), set())
        if isinstance(node, Sink):
            own.update(f.id for f in node.fields)
        for child, wanted in zip(node.inputs, _wanted(node, own), strict=True):
            needed.setdefault(id(child), set()).update(wanted)
        for expression in _expressions(node, own):
            _note_paths(expression, paths)
    return needed, paths


def _pruned_scan(node: Scan, own: set[str], paths: dict[str, set[str]]) -> Scan:
    source = node.source
    used = {f.name for f in node.fields if f.id in own}
    dotted: set[str] = set()
    if source.watermark is not None:
        import sqlglot

        expression = sqlglot.parse_one(source.watermark.expression, read="duckdb")
        by_name = {f.name.lower(): f for f in node.fields}
        marks: dict[str, set[str]] = {}
        _note_paths(expression, marks)
        for name, inner in marks.items():
            f = by_name.get(name.lower())
            if f is not None:
                used.add(f.name)
                dotted |= {f"{f.name}{p}" for p in inner}
    physical = tuple(c.name for c in source.physical if c.name in used)
    if not physical and not any(m.name in used for m in source.metadata):
        # COUNT(*) alone: any one column tells how many rows there are, the narrowest is the cheapest.
        narrow = min(
            source.physical,
            key=lambda c: c.type.kind in (Kind.VARCHAR, Kind.BLOB, Kind.STRUCT, Kind.ARRAY, Kind.MAP),
        )
        physical = (narrow.name,)
        used.add(narrow.name)
    metadata = tuple(m for m in source.metadata if m.name in used)
    fields = tuple(f for f in node.fields if f.name in used)
    for f in fields:
        dotted |= {f"{f.name}{p}" for p in paths.get(f.id, set())}
    whole = {d for d in dotted if "." not in d}
    needed_paths = {d for d in dotted if not any(d != w and d.startswith(f"{w}.") for w in whole)}
    needed_paths |= {
        name for name in physical if not any(d == name or d.startswith(f"{name}.") for d in needed_paths)
    }
    return replace(
        node,
        fields=fields,
        source=replace(source, columns=physical, metadata=metadata, needed_paths=tuple(sorted(needed_paths))),
    )


def _expressions(node: Node, own: set[str]) -> list[exp.Expr]:
    match node:
        case Project():
            kept = [e for f, e in zip(node.fields, node.expressions, strict=True) if f.id in own]
            return kept or list(node.expressions[:1])
        case Filter():
            return [node.predicate]
        case Unnest():
            return [node.array]
        case WindowAggregate() | GroupAggregate():
            calls = [e for c in node.calls for e in (*c.arguments, *(o for o, _, _ in c.order_by))]
            filters = [c.filter for c in node.calls if c.filter is not None]
            return [*node.key_expressions, *calls, *filters]
    return []


def _wanted(node: Node, own: set[str]) -> list[set[str]]:
    """For each input, the ids of its columns that `node` needs when `own` of its columns are needed."""
    read = set().union(*(columns_of(e) for e in _expressions(node, own)), set())
    match node:
        case Scan():
            return []
        case Union():
            positions = [i for i, f in enumerate(node.fields) if f.id in own]
            # A UNION matches columns by position, so its branches keep all of them.
            return [{f.id for f in b.fields} if positions or not own else set() for b in node.branches]
        case Sink():
            return [own]
        case Project():
            return [read]
        case Window():
            return [(own - {node.start.id, node.end.id, node.time.id}) | {node.time_column}]
        case Unnest():
            extra = {f.id for f in node.element} | (
                {node.ordinality.id} if node.ordinality is not None else set()
            )
            return [(own - extra) | read]
        case WindowAggregate():
            time = {node.time_column} if node.time_column is not None else set()
            return [read | {node.slice_column} | time]
        case GroupAggregate():
            if node.expiry is None:
                return [read]
            # A late row is shown with its own time.
            times = [f.id for f in node.input.fields if f.time is not None and f.window is None]
            return [read | set(times[:1])]
        case WindowGate():
            return [{f.id for f in node.fields}]
        case KeepFirst():
            return [own | set(node.keys)]
        case Rank() | TopN():
            rank = {node.rank.id} if node.rank is not None else set()
            ties = set(node.ties or ()) if isinstance(node, TopN) else set()
            return [(own - rank) | set(node.partition) | {t.column for t in node.order} | ties]
        case Normalize():
            return [own | set(node.keys)]
        case Filter():
            return [own | read]


def _note_paths(expression: exp.Expr, paths: dict[str, set[str]]) -> None:
    """Adds, for each column, what is used of it: "" for all, or ".field.inner"."""
    for c in expression.find_all(exp.Column):
        path, node = "", c
        parent = node.parent
        while (
            isinstance(parent, exp.Dot)
            and parent.this is node
            and isinstance(parent.expression, exp.Identifier)
        ):
            path += f".{parent.expression.name}"
            node, parent = parent, parent.parent  # type: ignore[assignment]
        if not (isinstance(expression, exp.Column) and node is expression and not path):
            paths.setdefault(c.name, set()).add(path)
        else:
            paths.setdefault(c.name, set()).add("")
