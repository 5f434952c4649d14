"""SELECT a FROM (SELECT x AS a FROM t)  ->  SELECT x AS a FROM t."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.logical import Node, Project, Sink, columns_of, substitute, transform
from sqlstream_planner.properties.facts import Facts


def merge_projections(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """Merge a projection into the one below it where the lower one only renames columns.

    A lower projection that computes is left alone, so that nothing is computed twice. One that only renames goes even
    if others read it: renaming costs nothing.

    >>> from sqlstream_planner.testing import logical
    >>> print(logical("SELECT b FROM (SELECT a AS b FROM t) AS s", rules=(merge_projections,)))
    sink result
      project b = a
        scan t (a, c, ts)
    """

    def rewrite(node: Node) -> Node:
        if not isinstance(node, Project) or not isinstance(node.input, Project):
            return node
        below = node.input
        if not all(isinstance(e, exp.Column) for e in below.items):
            return node
        inside = {f.id: e for f, e in zip(below.fields, below.items, strict=True)}
        read = {id_ for e in node.items for id_ in columns_of(e)}
        if any(f.id in read and f.id not in inside for f in below.input.fields):
            return node  # in a sub-query: it is a column of the outer rows, which has the same id
        return Project(below.input, node.fields, tuple(substitute(e, inside) for e in node.items))

    return transform(roots, rewrite)
