"""All wrong names of a SELECT at once: binding stops at the first mistake, and the user wants to see every one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import TIMESTAMP
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.logical import Field, Node

_CLAUSES = ("expressions", "where", "group", "having", "qualify", "order")
_UNKNOWN = frozenset({"SQL010", "SQL012"})


def with_unknown_names(
    error: DiagnosticError, context: BindContext, query: exp.Select, relations: Sequence[Relation]
) -> DiagnosticError:
    """The error that stopped a SELECT over these relations, and every other name in it that they don't have."""
    scope = Scope(context, tuple(relations))
    given = {e.alias.lower() for e in query.expressions if isinstance(e, exp.Alias)}
    found = list(error.diagnostics)
    for clause in _clauses(query):
        for column in clause.find_all(exp.Column):
            bare = len(column.parts) == 1
            if isinstance(column.this, exp.Star) or (bare and column.name.lower() in given):
                continue
            around = column.parent
            if column.find_ancestor(exp.Comprehension) is not None:
                continue
            if isinstance(around, exp.Star) or (around is not None and around.arg_key == "rename"):
                continue  # of what stands behind a star, which reports itself what it does not have
            if column.find_ancestor(exp.Query) is not query:
                continue  # of a sub-query, which reports itself what it does not know
            if column.find_ancestor(exp.Lambda) is None:
                found += _unknown(scope, column)
    in_order = sorted(found, key=_place)
    first = {(d.code, d.message): d for d in reversed(in_order)}
    return DiagnosticError(*(d for d in in_order if first[d.code, d.message] is d), exit_code=error.exit_code)


def windowed(data: Node, table: str | None) -> Relation:
    """What a window function over `data` brings to names, whatever is wrong with the window."""
    bounds = ("window_start", "window_end", "window_time")
    return Relation(table, (*data.fields, *(Field(name, name, TIMESTAMP, False) for name in bounds)))


def _clauses(query: exp.Select) -> Iterator[exp.Expr]:
    for key in _CLAUSES:
        value = query.args.get(key)
        for clause in value if isinstance(value, list) else [value]:
            if isinstance(clause, exp.Expr):
                yield clause


def _unknown(scope: Scope, column: exp.Column) -> list[Diagnostic]:
    try:
        scope.resolve(column)
    except DiagnosticError as error:
        return [d for d in error.diagnostics if d.code in _UNKNOWN]
    return []


def _place(diagnostic: Diagnostic) -> tuple[int, int]:
    span = diagnostic.span
    return (span.line, span.column) if span is not None else (0, 0)
