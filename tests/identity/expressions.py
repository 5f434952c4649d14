"""Expressions and their forms for the tests: columns of every type, named by themselves."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.expressions.functions.translate import translate_marked
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.identity.expression import expression_form
from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.sql.dialect import parse_expression
from tests.planner.expressions.typing_referee import SCOPE

FORMS = {name: form("column", name) for name in SCOPE}
TYPES = {name: type_ for name, (type_, _) in SCOPE.items()}


def bound(sql: str) -> exp.Expr:
    """An expression over the referee's columns as the binder leaves it."""
    return translate_marked(parse_expression(sql), lambda e: infer(e, SCOPE, aggregates=True).type)


def form_of(sql: str | exp.Expr, *, typed: bool = True) -> Form:
    """The form of an expression over the referee's columns."""
    return expression_form(bound(sql) if isinstance(sql, str) else sql, FORMS, TYPES if typed else None)
