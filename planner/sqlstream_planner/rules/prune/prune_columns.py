"""Columns that nobody reads are not read from the source."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import NESTED, Kind
from sqlstream_planner.logical import EpochValues, Node, Project, Scan, Sink, StreamingOperator, rebuild, walk
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules.prune.needed_columns import needed_columns, read_expressions


def prune_columns(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
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
    needed = needed_columns(roots)
    paths: dict[str, set[str]] = {}
    for node in walk(roots):
        for expression in read_expressions(node, needed[id(node)]):
            _note_paths(expression, paths)

    def rewrite(node: Node, original: Node) -> Node:
        own = needed[id(original)]
        if isinstance(node, Project):
            kept = [(f, e) for f, e in zip(node.fields, node.items, strict=True) if f.id in own]
            if not kept:
                kept = [(node.fields[0], node.items[0])]
            return replace(node, fields=tuple(f for f, _ in kept), items=tuple(e for _, e in kept))
        if isinstance(node, EpochValues):
            values = tuple(v for v in node.values if v.field.id in own)
            return replace(node, values=values) if values else node.input
        if isinstance(node, StreamingOperator):
            return node.pruned(own)
        if isinstance(node, Scan):
            return _pruned_scan(node, own, paths)
        return node

    return rebuild(roots, rewrite)


def _pruned_scan(node: Scan, own: set[str], paths: dict[str, set[str]]) -> Scan:
    source = node.source
    used = {f.name for f in node.fields if f.id in own}
    dotted: set[str] = set()
    by_name = {f.name.lower(): f for f in node.fields}
    marks: dict[str, set[str]] = {}
    for expression in node.watermark:
        _note_paths(expression, marks)
    for name, inner in marks.items():
        f = by_name.get(name.lower())
        if f is not None:
            used.add(f.name)
            dotted |= {f"{f.name}{p}" for p in inner}
    physical = tuple(c.name for c in source.physical if c.name in used)
    if not physical and not any(m.name in used for m in source.metadata):
        # COUNT(*) alone: any one column gives how many rows there are, the narrowest is the cheapest.
        narrow = min(
            source.physical,
            key=lambda c: c.type.kind in NESTED or c.type.kind in (Kind.VARCHAR, Kind.BLOB),
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


def _note_paths(expression: exp.Expr, paths: dict[str, set[str]]) -> None:
    """Adds, for each column, what is used of it: "" for all, or ".field.inner"."""
    for c in expression.find_all(exp.Column):
        path, node = "", c
        parent = node.parent
        while isinstance(parent, exp.Paren) or (
            isinstance(parent, exp.Dot)
            and parent.this is node
            and isinstance(parent.expression, exp.Identifier)
        ):
            if isinstance(parent, exp.Dot):
                path += f".{parent.expression.name}"
            node, parent = parent, parent.parent  # type: ignore[assignment]
        if not (isinstance(expression, exp.Column) and node is expression and not path):
            paths.setdefault(c.name, set()).add(path)
        else:
            paths.setdefault(c.name, set()).add("")
