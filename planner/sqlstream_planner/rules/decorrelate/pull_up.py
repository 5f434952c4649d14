"""Conditions on the outer rows of a sub-query, taken out of it: what they compare becomes columns of its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.logical import (
    Aggregate,
    AggregateCall,
    EpochValues,
    Field,
    Filter,
    Join,
    JoinKind,
    Node,
    OrderLimit,
    OverWindow,
    Project,
    Unnest,
    WindowFunction,
    column,
    columns_of,
    substitute,
)
from sqlstream_planner.logical.expressions import conjuncts, raw
from sqlstream_planner.rules.decorrelate.ranked import by_more, limited
from sqlstream_planner.rules.decorrelate.subquery import Subquery


@dataclass(frozen=True, slots=True)
class Pulled:
    """A query without a column of the outer rows: its rows for one of these are those of `node` for which `equal` (an
    expression over the row around, and the column of `node` that is equal to it) and `rest` (over both) hold.

    `empty`: where `node` has no such row, the query has one all the same, with these values (an aggregate over no rows).
    """

    node: Node
    equal: tuple[tuple[exp.Expr, str], ...] = ()
    rest: tuple[exp.Expr, ...] = ()
    empty: Mapping[str, exp.Expr] | None = None

    @property
    def compared(self) -> list[str]:
        """The columns that are equal to something of the outer rows, each once."""
        return list(dict.fromkeys(id_ for _, id_ in self.equal))


def pull_up(subquery: Subquery, node: Node) -> Pulled | None:
    """Take the conditions on the outer rows out of a node of the query; None where they can't be."""
    if not subquery.reads(node):
        return Pulled(node)
    match node:
        case (
            Project()
            | Filter()
            | Aggregate()
            | OverWindow()
            | OrderLimit()
            | Unnest()
            | WindowFunction()
            | EpochValues()
        ):
            below = pull_up(subquery, node.input)
            return None if below is None else _above(subquery, node, below)
        case Join():
            return _joined(subquery, node)
    return None


def empty_value(call: AggregateCall) -> exp.Expr:
    """What an aggregate gives over no rows."""
    return raw(f"CAST({function_of(call).empty or 'NULL'} AS {call.field.type})")


def _above(subquery: Subquery, node: Node, below: Pulled) -> Pulled | None:
    if isinstance(node, Project):
        return None if subquery.here(node) else _projected(subquery, node, below)
    if below.empty is not None:
        return None
    if isinstance(node, Filter):
        return _filtered(subquery, node, below)
    if subquery.here(node):
        return None
    if isinstance(node, Unnest | WindowFunction | EpochValues):
        return replace(below, node=node.with_inputs((below.node,)))
    if below.rest:
        return None
    match node:
        case Aggregate():
            return _grouped(subquery, node, below)
        case OverWindow():
            return replace(below, node=by_more(replace(node, input=below.node), below.compared))
        case OrderLimit():
            return replace(below, node=limited(subquery, node, below.node, below.compared))
    return None


def _projected(subquery: Subquery, node: Project, below: Pulled) -> Pulled:
    given = {f.id: f for f in below.node.fields}
    fields, items = list(node.fields), list(node.items)
    shown = {e.name: f.id for f, e in zip(fields, items, strict=True) if isinstance(e, exp.Column)}
    read = [*below.compared, *(id_ for e in below.rest for id_ in sorted(columns_of(e)) if id_ in given)]
    for id_ in read:
        if id_ not in shown:
            f = subquery.same_as("compared", given[id_])
            shown[id_] = f.id
            fields.append(f)
            items.append(column(id_))
    renamed = {id_: column(shown[id_]) for id_ in read}
    empty = None
    if below.empty is not None:
        empty = {f.id: substitute(e, below.empty) for f, e in zip(node.fields, node.items, strict=True)}
    return Pulled(
        Project(below.node, tuple(fields), tuple(items)),
        tuple((e, shown[id_]) for e, id_ in below.equal),
        tuple(substitute(e, renamed) for e in below.rest),
        empty,
    )


def _filtered(subquery: Subquery, node: Filter, below: Pulled) -> Pulled:
    made, equal, rest, kept = _sorted(subquery, conjuncts(node.predicate), below.node)
    if kept:
        made = Filter(made, exp.and_(*kept), node.at)
    return Pulled(made, (*below.equal, *equal), (*below.rest, *rest))


def _joined(subquery: Subquery, node: Join) -> Pulled | None:
    left, right = pull_up(subquery, node.left), pull_up(subquery, node.right)
    if left is None or right is None or left.empty is not None or right.empty is not None:
        return None
    if node.kind in (JoinKind.INNER, JoinKind.CROSS):
        terms = conjuncts(node.condition) if node.condition is not None else []
        outside = [t for t in terms if columns_of(t) & subquery.outer.keys()]
        inside = [t for t in terms if not columns_of(t) & subquery.outer.keys()]
        pairs: Node = replace(
            node,
            left=left.node,
            right=right.node,
            kind=JoinKind.INNER if inside else JoinKind.CROSS,
            condition=exp.and_(*inside) if inside else None,
        )
        pairs, equal, rest, _ = _sorted(subquery, outside, pairs)
        return Pulled(pairs, (*left.equal, *right.equal, *equal), (*left.rest, *right.rest, *rest))
    if node.kind is JoinKind.RIGHT or node.kind is JoinKind.FULL:
        return None
    if subquery.here(node) or subquery.reads(node.right):
        return None
    return replace(left, node=replace(node, left=left.node))


def _grouped(subquery: Subquery, node: Aggregate, below: Pulled) -> Pulled | None:
    if node.grouping is not None or node.sets != (tuple(range(len(node.keys))),):
        return None
    given = {f.id: f for f in below.node.fields}
    keys, expressions = list(node.keys), list(node.key_expressions)
    shown = {e.name: f.id for f, e in zip(keys, expressions, strict=True) if isinstance(e, exp.Column)}
    for id_ in below.compared:
        if id_ not in shown:
            f = subquery.like("compared", given[id_])
            shown[id_] = f.id
            keys.append(f)
            expressions.append(column(id_))
    groups = replace(
        node,
        input=below.node,
        keys=tuple(keys),
        key_expressions=tuple(expressions),
        sets=(tuple(range(len(keys))),),
    )
    empty = None if node.keys else {c.field.id: empty_value(c) for c in node.calls}
    return Pulled(groups, tuple((e, shown[id_]) for e, id_ in below.equal), (), empty)


def _sorted(
    subquery: Subquery, terms: Sequence[exp.Expr], node: Node
) -> tuple[Node, list[tuple[exp.Expr, str]], list[exp.Expr], list[exp.Expr]]:
    """Conditions over the rows of `node`: those that say that something is equal to something of the outer rows, others
    on these, and those that are about `node` alone; and `node` with the columns that are compared.
    """
    known = {f.id for f in node.fields}
    computed: list[tuple[Field, exp.Expr]] = []
    equal: list[tuple[exp.Expr, str]] = []
    rest: list[exp.Expr] = []
    kept: list[exp.Expr] = []
    types = {f.id: (f.type, f.nullable) for f in node.fields}
    for term in terms:
        if not columns_of(term) & subquery.outer.keys():
            kept.append(term)
            continue
        sides = _sides(subquery, term, known)
        if sides is None:
            rest.append(term)
            continue
        outside, inside = sides
        if not isinstance(inside, exp.Column):
            typed = infer(inside, types)
            f = subquery.new("compared", typed.type, typed.nullable)
            computed.append((f, inside))
            inside = column(f.id)
        equal.append((outside, inside.name))
    if computed:
        fields = (*node.fields, *(f for f, _ in computed))
        items = (*(column(f.id) for f in node.fields), *(e for _, e in computed))
        node = Project(node, fields, items)
    return node, equal, rest, kept


def _sides(subquery: Subquery, term: exp.Expr, known: Iterable[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """What a condition says to be equal: something of the outer rows, and something of the query's own."""
    bare = term.unnest()
    if not isinstance(bare, exp.EQ):
        return None
    inside = set(known)
    for mine, theirs in ((bare.this, bare.expression), (bare.expression, bare.this)):
        outer, inner = columns_of(mine), columns_of(theirs)
        if outer & subquery.outer.keys() and not outer & inside and inner and inner <= inside:
            return mine.unnest(), theirs.unnest()
    return None
