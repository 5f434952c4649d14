"""Filters on a scan's own columns are offered to its reader."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sqlglot import exp

from sqlstream_planner.aggregates import sql
from sqlstream_planner.fingerprint import conjuncts
from sqlstream_planner.logical import (
    Filter,
    Node,
    Scan,
    Sink,
    column,
    columns_of,
    consumers,
    substitute,
    transform,
)


def push_filters(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """Give a scan the predicates that stand directly above it, for readers that can skip data by them.

    The filter itself stays: what a reader skips is only ever a subset of what the filter drops. Filters are
    not pushed below stateful operators, where they would change what is kept as state.

    >>> from sqlstream_planner.testing import logical
    >>> print(logical("SELECT a FROM t WHERE a > 1", rules=(push_filters,)))
    sink result
      project a = a_2
        project a = a
          filter a > 1
            scan t (a, c, ts) where "a" > 1
    """
    shared = consumers(cast(tuple[Node, ...], roots))

    def rewrite(node: Node) -> Node:
        if (
            not isinstance(node, Filter)
            or not isinstance(node.input, Scan)
            or shared.get(id(node.input), 1) > 1
        ):
            return node
        scan = node.input
        physical = {f.id: f.name for f in scan.fields if f.name in {c.name for c in scan.source.physical}}
        usable = [c for c in conjuncts(node.predicate) if columns_of(c) and columns_of(c) <= set(physical)]
        if not usable:
            return node
        names: dict[str, exp.Expr] = {id_: column(name) for id_, name in physical.items()}
        text = " AND ".join(
            f"({sql(p)})" if isinstance(p, exp.Or) else sql(p) for p in (substitute(c, names) for c in usable)
        )
        return replace(node, input=replace(scan, source=replace(scan.source, filter=text)))

    return cast(tuple[Sink, ...], transform(cast(tuple[Node, ...], roots), rewrite))
