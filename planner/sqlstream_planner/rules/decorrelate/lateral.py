"""FROM a, LATERAL (SELECT … FROM b WHERE b.k = a.k)  ->  a JOIN b ON b.k = a.k."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.types import BOOLEAN
from sqlstream_planner.logical import (
    Apply,
    Field,
    JoinKind,
    LateralJoin,
    Node,
    Project,
    SubqueryKind,
    column,
)
from sqlstream_planner.rules.decorrelate.pull_up import Pulled, pull_up
from sqlstream_planner.rules.decorrelate.push_down import PushDown
from sqlstream_planner.rules.decorrelate.scalar_values import compared, shown
from sqlstream_planner.rules.decorrelate.subquery import Subquery, Types


def lateral(node: LateralJoin, types: Types) -> Node:
    """The outer rows beside the rows of the query, by a join on what it compares, or on all that it reads of them.

    Over no rows an aggregate without GROUP BY has a row all the same: outer rows without a partner get its values.
    """
    name = Field(node.name, node.name, BOOLEAN)
    # What the query is asked makes no difference to how it is taken apart.
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
