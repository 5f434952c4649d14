"""Aggregates in a sub-query over columns of the outer rows: they are of the outer query, as in `(SELECT SUM(t.x))`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_planner.bind.aggregate_calls import is_aggregate_call
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.ranked_groups import ranks_groups
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.logical import Field


@dataclass(frozen=True, slots=True)
class OuterCall:
    """A call that stands in a sub-query, resolved, and the column of the outer query by which it is read there."""

    field: Field
    call: exp.Expr


def with_outer_calls(
    context: BindContext, query: exp.Select, scope: Scope
) -> tuple[exp.Select, tuple[OuterCall, ...], Scope]:
    """A SELECT whose sub-queries read its aggregates as columns, those, and the scope that has them.

    `scope` is that of its FROM. An aggregate is of the innermost query that has one of the columns in it, by standard
    SQL. Raises DiagnosticError.
    """
    if next(_found(query, scope), None) is None:
        return query, (), scope
    query = query.copy()
    made: dict[str, OuterCall] = {}
    for node in list(_found(query, scope)):
        if ranks_groups(query):
            context.unsupported(
                node,
                "an aggregate of the outer query in a sub-query, beside OVER,",
                help="compute it in a sub-query in FROM",
            )
        form = node.sql().lower()
        if form not in made:
            call = context.translated(scope.resolve(node), scope.fields)
            type_ = context.type_of(call, scope.fields, aggregates=True).type
            id_ = context.new_id("outer")
            made[form] = OuterCall(Field(id_, id_, type_), call)
        column = exp.column(exp.to_identifier(made[form].field.id, quoted=True))
        column.meta.update(node.meta)
        node.replace(column)
    calls = tuple(made.values())
    relation = Relation(None, tuple(c.field for c in calls), hidden=True, last=True)
    return query, calls, replace(scope, relations=(*scope.relations, relation))


def _found(query: exp.Select, scope: Scope) -> Iterator[exp.Expr]:
    """The calls in a SELECT's sub-queries that are its own."""
    having = query.args.get("having")
    names = {r.alias.lower() for r in scope.relations if r.alias is not None}
    for place in [*query.expressions, *([having] if having is not None else [])]:
        for subquery in _subqueries(place):
            for call in _calls(subquery):
                if _is_outer(call, _between(call, query), names, scope):
                    yield call


def _subqueries(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost queries in an expression; not those in an aggregate's arguments, which are computed for each row."""
    if isinstance(node, exp.Query):
        yield node
    elif not is_aggregate_call(node):
        for child in node.iter_expressions():
            yield from _subqueries(child)


def _calls(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregate calls in a query and in those inside of it."""
    if isinstance(node, exp.Window):
        return
    if is_aggregate_call(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from _calls(child)


def _between(call: exp.Expr, query: exp.Select) -> list[exp.Select]:
    """The SELECTs that a call stands in, inside of `query`."""
    selects: list[exp.Select] = []
    node = call.find_ancestor(exp.Select)
    while node is not None and node is not query:
        selects.append(node)
        node = node.find_ancestor(exp.Select)
    return selects


def _is_outer(call: exp.Expr, between: Sequence[exp.Select], names: set[str], scope: Scope) -> bool:
    """Whether all columns of a call are of the outer rows, and of none of the queries between."""
    columns = [c for c in call.find_all(exp.Column) if not isinstance(c.this, exp.Star)]
    inner = {name.lower() for select in between for name in _aliases(select)}
    reads = [bool(select.args.get("from_") or select.args.get("from")) for select in between]
    if not columns or call.find(exp.Query) is not None:
        return False
    for column in columns:
        table = column.table.lower()
        if table and (table in inner or table not in names):
            return False
        if not table and (any(reads) or scope.find(column) is None):
            return False
    return True


def _aliases(select: exp.Select) -> Iterator[str]:
    from_ = select.args.get("from_") or select.args.get("from")
    items = [from_] if from_ is not None else []
    for item in [*items, *(select.args.get("joins") or [])]:
        for part in item.find_all(exp.TableAlias, exp.Table):
            # A table with an alias has no other name.
            if part.name and not (isinstance(part, exp.Table) and part.alias):
                yield part.name
