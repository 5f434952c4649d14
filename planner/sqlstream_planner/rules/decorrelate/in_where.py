"""WHERE EXISTS (SELECT … WHERE b.k = a.k)  ->  a SEMI JOIN b ON b.k = a.k; of NOT EXISTS and NOT IN an ANTI JOIN."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import (
    Apply,
    Filter,
    JoinKind,
    Node,
    SubqueryKind,
    column,
    columns_of,
)
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.rules.decorrelate.comparisons import AnyOf
from sqlstream_planner.rules.decorrelate.marks import (
    nullable,
    nulls_and_rows,
    one_of_each,
    without_items,
)
from sqlstream_planner.rules.decorrelate.one_row import gives_one_row
from sqlstream_planner.rules.decorrelate.pull_up import Pulled, pull_up
from sqlstream_planner.rules.decorrelate.push_down import PushDown
from sqlstream_planner.rules.decorrelate.scalar_values import compared, shown
from sqlstream_planner.rules.decorrelate.subquery import Subquery, Types


def wanted_result(node: Filter) -> bool | None:
    """Whether a condition only lets rows pass for which the sub-query below it is TRUE, or FALSE; None if it asks more."""
    apply = node.input
    if not isinstance(apply, Apply) or apply.kind is SubqueryKind.SCALAR:
        return None
    about = [t for t in conjuncts(node.predicate) if apply.result.id in columns_of(t)]
    if len(about) != 1:
        return None
    bare, wanted = about[0].unnest(), True
    while isinstance(bare, exp.Not):
        bare, wanted = bare.this.unnest(), not wanted
    if not isinstance(bare, exp.Column):
        return None
    if apply.kind is SubqueryKind.EXISTS:
        return None if gives_one_row(apply.query) else wanted
    return wanted if AnyOf.of(apply).comparison == "=" else None


def in_where(node: Filter, types: Types, *, shows_result: bool) -> Node:
    """The rows that a condition known to `wanted_result` lets pass; the result of its sub-query is a column if shown."""
    apply, wanted = node.input, wanted_result(node)
    if not isinstance(apply, Apply) or wanted is None:
        raise InternalError("a condition that asks for no sub-query")
    subquery = Subquery.of(apply, types)
    if apply.kind is SubqueryKind.EXISTS:
        made = _existing(subquery, wanted)
    else:
        made = _member(subquery, wanted != AnyOf.of(apply).negated)
    if shows_result:
        made = subquery.beside(made, exp.true() if wanted else exp.false())
    terms = [t for t in conjuncts(node.predicate) if apply.result.id not in columns_of(t)]
    return Filter(made, exp.and_(*terms), node.at) if terms else made


def _existing(subquery: Subquery, wanted: bool) -> Node:
    apply, kind = subquery.apply, JoinKind.SEMI if wanted else JoinKind.ANTI
    query = without_items(subquery.query)
    if not subquery.outer:
        one, _ = one_of_each(subquery, query, [])
        return subquery.join(kind, apply.input, one, ())
    pulled = pull_up(subquery, query)
    if pulled is not None and pulled.empty is None:
        right, ids = shown(subquery, pulled, [])
        return subquery.join(kind, apply.input, right, compared(subquery, pulled, ids), forgets=True)
    push = PushDown(subquery)
    pushed = push.rows(query)
    right, ids = shown(subquery, Pulled(pushed.node), list(pushed.columns.values()))
    terms = push.same({name: ids[old] for name, old in pushed.columns.items()})
    return subquery.join(kind, apply.input, right, terms)


def _member(subquery: Subquery, wanted: bool) -> Node:
    """The rows with a value among the query's; or those without, of which it is certain."""
    apply = subquery.apply
    values = [f.id for f in subquery.query.fields[: len(apply.operand)]]
    pulled = pull_up(subquery, subquery.query)
    extra: list[exp.Expr] = []
    if pulled is None or pulled.empty is not None:
        push = PushDown(subquery)
        pushed = push.rows(subquery.query)
        pulled = Pulled(pushed.node)
        right, ids = shown(subquery, pulled, [*values, *pushed.columns.values()])
        extra = push.same({name: ids[old] for name, old in pushed.columns.items()})
    else:
        right, ids = shown(subquery, pulled, values)
    any_of = AnyOf("=", negated=False)
    operands, theirs = list(apply.operand), [column(ids[id_]) for id_ in values]
    terms = [*compared(subquery, pulled, ids), *extra]
    kind, direct = JoinKind.SEMI if wanted else JoinKind.ANTI, not extra
    equal = any_of.terms(operands, theirs)
    rows = subquery.join(kind, apply.input, right, [*terms, *equal], forgets=direct)
    if wanted or not any(nullable(subquery)):
        return rows
    if len(values) > 1 or pulled.rest or extra:
        # The rows for which it is not certain: tested one by one, beside what is compared.
        unknown = exp.Is(this=exp.paren(any_of.condition(operands, theirs)), expression=exp.Null())
        return subquery.join(JoinKind.ANTI, rows, right, [*terms, unknown], forgets=direct)
    made, keys, any_, nulls = nulls_and_rows(subquery, pulled, values[0])
    uncertain = exp.or_(column(nulls.id), exp.Is(this=exp.paren(operands[0].copy()), expression=exp.Null()))
    on = [*compared(subquery, pulled, keys), column(any_.id), uncertain]
    return subquery.join(JoinKind.ANTI, rows, made, on)
