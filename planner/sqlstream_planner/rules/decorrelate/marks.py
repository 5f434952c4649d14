"""SELECT a.x IN (SELECT …) FROM a  ->  a beside whether the query has such a row, and whether it has a NULL."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, BOOLEAN
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.logical import (
    Aggregate,
    AggregateCall,
    Apply,
    Field,
    Filter,
    JoinKind,
    Node,
    Project,
    SubqueryKind,
    column,
    raw,
)
from sqlstream_planner.rules.decorrelate.comparisons import AnyOf
from sqlstream_planner.rules.decorrelate.one_row import gives_one_row
from sqlstream_planner.rules.decorrelate.pull_up import Pulled, pull_up
from sqlstream_planner.rules.decorrelate.push_down import PushDown
from sqlstream_planner.rules.decorrelate.scalar_values import compared, shown
from sqlstream_planner.rules.decorrelate.subquery import Subquery, Types


def mark(apply: Apply, types: Types) -> Node:
    """The rows with TRUE, FALSE or NULL beside each: what EXISTS, IN, ANY or ALL say of it.

    IN is TRUE if a row of the query is equal; else NULL if there is one for which that is not known, as it or the operand
    is NULL; else FALSE. The query's rows are reduced to one for each value before they are joined, so no row comes twice.
    """
    subquery = Subquery.of(apply, types)
    if apply.kind is SubqueryKind.EXISTS:
        return _exists(subquery)
    any_of = AnyOf.of(apply)
    pulled = pull_up(subquery, subquery.query)
    if any_of.comparison == "=" and len(apply.operand) == 1 and _is_plain(pulled):
        assert pulled is not None
        return _equal(subquery, pulled, any_of)
    return _compared(subquery, any_of)


def without_items(node: Node) -> Node:
    """A query of which only matters whether it has rows: without what it projects."""
    while isinstance(node, Project):
        node = node.input
    return node


def one_of_each(subquery: Subquery, node: Node, ids: list[str]) -> tuple[Aggregate, dict[str, str]]:
    """The distinct values of some columns, or a row if there is any; by the ids that they had."""
    given = {f.id: f for f in node.fields}
    keys = [subquery.like("distinct", given[id_]) for id_ in ids]
    items: list[exp.Expr] = [column(id_) for id_ in ids]
    if not ids:
        keys, items = [subquery.new("there", BOOLEAN, nullable=False)], [exp.true()]
    made = Aggregate(
        node, tuple(keys), tuple(items), (tuple(range(len(keys))),), None, (), at=subquery.apply.at
    )
    return made, dict(zip(ids, (f.id for f in keys), strict=False))


def nulls_and_rows(
    subquery: Subquery, pulled: Pulled, value: str | None
) -> tuple[Node, dict[str, str], Field, Field]:
    """For each value that is compared whether there is a row, and whether there is one whose `value` is NULL."""
    given = {f.id: f for f in pulled.node.fields}
    ids = pulled.compared
    keys = [subquery.like("compared", given[id_]) for id_ in ids]
    rows, known = (subquery.new(name, BIGINT, nullable=False) for name in ("rows", "known"))
    calls = [AggregateCall(rows, "count", (), ())]
    if value is not None:
        calls.append(AggregateCall(known, "count", (column(value),), (given[value].type,)))
    groups = Aggregate(
        pulled.node,
        tuple(keys),
        tuple(column(id_) for id_ in ids),
        (tuple(range(len(keys))),),
        None,
        tuple(calls),
        at=subquery.apply.at,
    )
    # Not the counts: these change with every row, and what is made of them hardly ever.
    any_, nulls = (subquery.new(name, BOOLEAN, nullable=False) for name in ("any_row", "any_null"))
    fresh = [subquery.like("of_query", f) for f in keys]
    items = [*(column(f.id) for f in keys), raw(f'"{rows.id}" > 0')]
    items.append(raw(f'"{rows.id}" > "{known.id}"' if value is not None else "FALSE"))
    shown_ = Project(groups, (*fresh, any_, nulls), tuple(items))
    return shown_, dict(zip(ids, (f.id for f in fresh), strict=True)), any_, nulls


def nullable(subquery: Subquery) -> tuple[bool, bool]:
    """Whether an operand of the sub-query can be NULL, and whether what it is compared with can."""
    apply = subquery.apply
    operands = any(infer(e, subquery.types).nullable for e in apply.operand)
    return operands, any(f.nullable for f in apply.query.fields[: len(apply.operand)])


def _is_plain(pulled: Pulled | None) -> bool:
    """Whether a query compares nothing but equalities with the outer rows, and has no row where it has none."""
    return pulled is not None and not pulled.rest and pulled.empty is None


def _exists(subquery: Subquery) -> Node:
    apply = subquery.apply
    if gives_one_row(subquery.query):
        return subquery.beside(apply.input, exp.true())
    query = without_items(subquery.query)
    if not subquery.outer:
        made, _, any_, _ = nulls_and_rows(subquery, Pulled(query), None)
        return subquery.beside(subquery.join(JoinKind.INNER, apply.input, made, ()), column(any_.id))
    pulled = pull_up(subquery, query)
    if _is_plain(pulled):
        assert pulled is not None
        groups, ids = one_of_each(subquery, pulled.node, pulled.compared)
        right, again = shown(subquery, Pulled(groups), list(ids.values()))
        terms = compared(subquery, pulled, {old: again[new] for old, new in ids.items()})
        partner = again[ids[pulled.compared[0]]]
        value = exp.Not(this=exp.Is(this=column(partner), expression=exp.Null()))
        return subquery.beside(subquery.join(JoinKind.LEFT, apply.input, right, terms), value)
    push = PushDown(subquery)
    pushed = push.rows(query)
    groups, ids = one_of_each(subquery, pushed.node, list(pushed.columns.values()))
    there = subquery.new("there", BOOLEAN, nullable=False)
    fields = [subquery.like("of_query", f) for f in groups.keys]
    right = Project(groups, (*fields, there), (*(column(f.id) for f in groups.keys), exp.true()))
    columns = dict(zip(pushed.columns, (f.id for f in fields), strict=True))
    join = subquery.join(JoinKind.LEFT, apply.input, right, push.same(columns))
    return subquery.beside(join, exp.Not(this=exp.Is(this=column(there.id), expression=exp.Null())))


def _equal(subquery: Subquery, pulled: Pulled, any_of: AnyOf) -> Node:
    """IN: the value is looked up among the query's distinct ones, with the key that it compares."""
    apply = subquery.apply
    value = subquery.query.fields[0].id
    present = Filter(pulled.node, exp.Not(this=exp.Is(this=column(value), expression=exp.Null())))
    ids = list(dict.fromkeys([*pulled.compared, value]))
    groups, distinct = one_of_each(subquery, present, ids)
    right, again = shown(subquery, Pulled(groups), list(distinct.values()))
    names = {old: again[new] for old, new in distinct.items()}
    terms = [*compared(subquery, pulled, names), *any_of.terms(list(apply.operand), [column(names[value])])]
    rows = subquery.join(JoinKind.LEFT, apply.input, right, terms)
    found = exp.Not(this=exp.Is(this=column(names[value]), expression=exp.Null()))
    if not any(nullable(subquery)):
        return subquery.beside(rows, exp.Not(this=exp.paren(found)) if any_of.negated else found)
    node, any_row, any_null = _with_nulls(subquery, pulled, value, rows)
    operand = exp.Is(this=exp.paren(apply.operand[0].copy()), expression=exp.Null())
    unknown = exp.or_(exp.and_(any_row, operand), any_null)
    return subquery.beside(node, _three_valued(found, unknown, negated=any_of.negated))


def _with_nulls(
    subquery: Subquery, pulled: Pulled, value: str, rows: Node
) -> tuple[Node, exp.Expr, exp.Expr]:
    made, ids, any_, nulls = nulls_and_rows(subquery, pulled, value)
    kind = JoinKind.LEFT if pulled.equal else JoinKind.INNER
    node = subquery.join(kind, rows, made, compared(subquery, pulled, ids))
    read = (exp.Coalesce(this=column(f.id), expressions=[exp.false()]) for f in (any_, nulls))
    return node, *read  # type: ignore[return-value]


def _compared(subquery: Subquery, any_of: AnyOf) -> Node:
    """Any comparison: how many rows of the query it is true of, and of how many it is not known, for each operand."""
    apply = subquery.apply
    more = []
    for e in apply.operand:
        typed = infer(e, subquery.types)
        more.append((subquery.new("operand", typed.type, typed.nullable), e))
    push = PushDown(subquery, more)
    pushed = push.rows(subquery.query)
    left: list[exp.Expr] = [column(pushed.columns[f.id]) for f, _ in more]
    right: list[exp.Expr] = [column(f.id) for f in subquery.query.fields[: len(more)]]
    result = subquery.new("result", BOOLEAN)
    known = {f.id: f for f in pushed.node.fields}
    values = [subquery.like("value", known[id_]) for id_ in pushed.columns.values()]
    items = (*(column(id_) for id_ in pushed.columns.values()), any_of.condition(left, right))
    rows = Project(pushed.node, (*values, result), items)
    keys = tuple(subquery.like("value", f) for f in values)
    counts = [subquery.new(name, BIGINT, nullable=False) for name in ("true", "unknown")]
    unknown = exp.Is(this=column(result.id), expression=exp.Null())
    calls = tuple(
        AggregateCall(f, "count", (), (), filter=condition)
        for f, condition in zip(counts, (column(result.id), unknown), strict=True)
    )
    columns = tuple(column(f.id) for f in values)
    groups = Aggregate(rows, keys, columns, (tuple(range(len(keys))),), None, calls, at=apply.at)
    flags = [subquery.new(name, BOOLEAN, nullable=False) for name in ("is_true", "is_unknown")]
    fresh = [subquery.like("of_query", f) for f in keys]
    shown_ = Project(
        groups,
        (*fresh, *flags),
        (*(column(f.id) for f in keys), *(raw(f'"{f.id}" > 0') for f in counts)),
    )
    ids = dict(zip(pushed.columns, (f.id for f in fresh), strict=True))
    join = subquery.join(JoinKind.LEFT, apply.input, shown_, push.same(ids))
    read = [exp.Coalesce(this=column(f.id), expressions=[exp.false()]) for f in flags]
    return subquery.beside(join, _three_valued(read[0], read[1], negated=any_of.negated))


def _three_valued(found: exp.Expr, unknown: exp.Expr, *, negated: bool) -> exp.Expr:
    first, last = (exp.false(), exp.true()) if negated else (exp.true(), exp.false())
    return exp.Case(ifs=[exp.If(this=found, true=first), exp.If(this=unknown, true=exp.Null())], default=last)
