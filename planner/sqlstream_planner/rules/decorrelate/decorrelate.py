"""Every Apply  ->  joins."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.types import BOOLEAN, SqlType
from sqlstream_planner.logical import (
    Apply,
    Field,
    Filter,
    JoinKind,
    LateralJoin,
    Node,
    Project,
    Sink,
    SubqueryKind,
    column,
    columns_of,
    consumers,
    rebuild,
    walk,
)
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules.decorrelate.in_where import in_where, wanted_result
from sqlstream_planner.rules.decorrelate.marks import mark
from sqlstream_planner.rules.decorrelate.pull_up import Pulled, pull_up
from sqlstream_planner.rules.decorrelate.push_down import PushDown
from sqlstream_planner.rules.decorrelate.scalar_values import compared, scalar_value, shown
from sqlstream_planner.rules.decorrelate.subquery import Subquery, Types
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
        return isinstance(node, Filter) and count.get(id(node.input)) == 1 and wanted_result(node) is not None

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


def lateral(node: LateralJoin, types: Types) -> Node:
    """The outer rows beside the rows of the query, by a join on what it compares, or on all that it reads of them.

    Over no rows an aggregate without GROUP BY has a row all the same: outer rows without a partner get its values.
    """
    name = Field(node.name, node.name, BOOLEAN)
    # The kind of the sub-query makes no difference to how it is taken apart.
    apply = Apply(
        node.input, node.query, SubqueryKind.EXISTS, name, node.outer, ttl_us=node.ttl_us, at=node.at
    )
    subquery = Subquery.of(apply, types)
    given = [f.id for f in subquery.query.fields]
    pulled = pull_up(subquery, subquery.query)
    values: list[exp.Expr]
    if pulled is None:
        push = PushDown(subquery)
        pushed = push.rows(subquery.query)
        right, ids = shown(subquery, Pulled(pushed.node), [*given, *pushed.columns.values()])
        terms = push.same({old: ids[new] for old, new in pushed.columns.items()})
        join = subquery.join(node.kind, node.input, right, terms)
        values = [column(ids[id_]) for id_ in given]
    else:
        right, ids = shown(subquery, pulled, given)
        kind = JoinKind.LEFT if pulled.empty is not None else node.kind
        terms = compared(subquery, pulled, ids)
        join = subquery.join(kind, node.input, right, terms, forgets=pulled.empty is None)
        values = [column(ids[id_]) for id_ in given]
        if pulled.empty is not None:
            without = exp.Is(this=column(ids[pulled.compared[0]]), expression=exp.Null())
            values = [
                exp.Case(ifs=[exp.If(this=without.copy(), true=pulled.empty[id_])], default=value)
                for id_, value in zip(given, values, strict=True)
            ]
    mine = [column(f.id) for f in node.input.fields]
    return Project(join, node.fields, (*mine, *values))
