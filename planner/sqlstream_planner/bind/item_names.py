"""Names of the SELECT list in its sub-queries, as DuckDB has them: `SELECT -k AS j, (SELECT MAX(x) FROM u WHERE y = j)`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.epoch_values import is_volatile_column
from sqlstream_planner.bind.outer_calls import OuterCall
from sqlstream_planner.bind.over_names import windows_of
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.subqueries import has_subquery, places_above
from sqlstream_planner.logical import Field, Node, Project, column


def with_item_names(
    context: BindContext, query: exp.Select, scope: Scope
) -> tuple[tuple[OuterCall, ...], Scope]:
    """What sub-queries of a SELECT name of its list, each as a column that something must add, and the scope that has them.

    A column of FROM that is called so comes first. Raises DiagnosticError.
    """
    wanted = {item.alias.lower() for item in query.expressions if isinstance(item, exp.Alias)}
    wanted &= {c.name.lower() for c in _bare_columns(query)}
    wanted = {name for name in wanted if not scope.has(name)}
    made: list[OuterCall] = []
    known: dict[str, exp.Expr] = {}
    for item in query.expressions if wanted else ():
        if not isinstance(item, exp.Alias) or has_subquery(item) or windows_of(item):
            continue
        name, inner = item.alias.lower(), Scope(context, scope.relations, known)
        resolved = context.translated(inner.resolve(item.this), scope.fields)
        if any(is_volatile_column(c.name) for c in resolved.find_all(exp.Column)):
            continue
        if name in wanted and name not in known:
            typed = context.type_of(resolved, scope.fields, aggregates=True)
            f = Field(context.new_id("named"), item.alias, typed.type, typed.nullable)
            made.append(OuterCall(f, resolved))
        known.setdefault(name, resolved)
    if not made:
        return (), scope
    relation = Relation(None, tuple(c.field for c in made), hidden=True, last=True)
    return tuple(made), replace(scope, relations=(*scope.relations, relation))


def without_names(scope: Scope, named: tuple[OuterCall, ...]) -> Scope:
    """The scope as all but the sub-queries have it."""
    ours = tuple(c.field for c in named)
    return replace(scope, relations=tuple(r for r in scope.relations if not ours or r.fields != ours))


def beside(node: Node, named: tuple[OuterCall, ...]) -> Node:
    """The rows of `node` with the columns of such names."""
    if not named:
        return node
    fields = (*node.fields, *(c.field for c in named))
    return Project(node, fields, (*(column(f.id) for f in node.fields), *(c.call for c in named)))


def _bare_columns(query: exp.Select) -> Iterator[exp.Column]:
    """The names without a table's in the sub-queries of a SELECT."""
    for place in places_above(query):
        for subquery in place.find_all(exp.Query):
            yield from (c for c in subquery.find_all(exp.Column) if len(c.parts) == 1 and c.name)
