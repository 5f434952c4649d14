"""Every Apply  ->  joins."""

from __future__ import annotations

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.logical import (
    Apply,
    Filter,
    LateralJoin,
    Node,
    Sink,
    SubqueryKind,
    columns_of,
    consumers,
    rebuild,
    walk,
)
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules.decorrelate.in_where import asked_of, in_where
from sqlstream_planner.rules.decorrelate.lateral import lateral
from sqlstream_planner.rules.decorrelate.marks import mark
from sqlstream_planner.rules.decorrelate.scalar_values import scalar_value
from sqlstream_planner.rules.prune.needed_columns import needed_columns


def decorrelate(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """Make joins of all sub-queries in expressions, the innermost first. Raises DiagnosticError for what can't be one.

    >>> from sqlstream_planner.rules.normalize.push_filters import push_filters
    >>> from sqlstream_planner.testing import logical
    >>> query = "SELECT c FROM t WHERE EXISTS (SELECT 1 FROM t AS i WHERE i.a = t.c AND i.c > 1)"
    >>> print(logical(query, rules=(push_filters, decorrelate)))
    sink result
      project c = c_3
        project c = c
          semi join on c = "exists.of_query_1"
            scan t (a, c, ts)
            project of_query = a_2
              filter c_2 > 1
                scan t (a, c, ts)
    """
    if not any(isinstance(node, Apply | LateralJoin) for node in walk(roots)):
        return roots
    count, needed = consumers(roots), needed_columns(roots)
    types: dict[str, tuple[SqlType, bool]] = {}
    for f in (f for node in walk(roots) for f in node.fields):
        types[f.id] = f.type, f.nullable or types.get(f.id, (f.type, False))[1]

    def in_condition(node: Node) -> bool:
        return isinstance(node, Filter) and count.get(id(node.input)) == 1 and asked_of(node) is not None

    # A projection may hand a result on that nothing above it needs.
    read = set[str]().union(
        *(columns_of(e) for node in walk(roots) if not in_condition(node) for e in node.expressions())
    )
    waiting = {id(node.inputs[0]) for node in walk(roots) if in_condition(node)}

    def rewrite(node: Node, original: Node) -> Node:
        if isinstance(node, Apply) and id(original) not in waiting:
            return scalar_value(node, types) if node.kind is SubqueryKind.SCALAR else mark(node, types)
        if isinstance(node, LateralJoin):
            return lateral(node, types)
        if isinstance(node, Filter) and isinstance(node.input, Apply):
            result = node.input.result.id
            return in_where(node, types, shows_result=result in needed[id(original)] or result in read)
        return node

    return rebuild(roots, rewrite)
