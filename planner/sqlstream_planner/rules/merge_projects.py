"""SELECT a FROM (SELECT x AS a FROM t)  ->  SELECT x AS a FROM t."""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from sqlstream_planner.logical import Node, Project, Sink, consumers, substitute, transform


def merge_projects(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """Merge a projection into the one below it where the lower one only renames columns.

    A lower projection that computes is left alone, so that nothing is computed twice; a node that several
    consumers share stays shared.

    >>> from sqlstream_planner.testing import logical
    >>> print(logical("SELECT b FROM (SELECT a AS b FROM t) AS s", rules=(merge_projects,)))
    sink result
      project b = a
        scan t (a, c, ts)
    """
    shared = consumers(cast(tuple[Node, ...], roots))

    def rewrite(node: Node) -> Node:
        if not isinstance(node, Project) or not isinstance(node.input, Project):
            return node
        below = node.input
        if shared.get(id(below), 1) > 1 or not all(isinstance(e, exp.Column) for e in below.expressions):
            return node
        inside = {f.id: e for f, e in zip(below.fields, below.expressions, strict=True)}
        return Project(below.input, node.fields, tuple(substitute(e, inside) for e in node.expressions))

    return cast(tuple[Sink, ...], transform(cast(tuple[Node, ...], roots), rewrite))
