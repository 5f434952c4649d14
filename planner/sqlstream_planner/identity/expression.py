"""Shim until the helper's lands."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.logical.expressions import column, columns_of, conjuncts, sql, substitute


def expression_form(expression: exp.Expr, columns: Mapping[str, Form]) -> Form:
    bare = expression.unnest()
    if isinstance(bare, exp.Column) and bare.name in columns:
        return columns[bare.name]
    if isinstance(bare, exp.And):
        return form("and", *(expression_form(e, columns) for e in conjuncts(bare)))
    ids = sorted(columns_of(bare))
    text = sql(substitute(bare, {id_: column(f"${n}") for n, id_ in enumerate(ids)}))
    return form("sql", text, *(columns[id_] for id_ in ids))
