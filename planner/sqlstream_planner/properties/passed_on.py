"""Which columns of its input a projection or a GROUP BY gives on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import UNKNOWN, SqlType
from sqlstream_planner.expressions.datatypes import sql_type_of
from sqlstream_planner.expressions.injective import keeps_apart
from sqlstream_planner.logical import Fields, Node


def passed_on(fields: Fields, expressions: Sequence[exp.Expr], below: Node) -> dict[str, str]:
    """The columns of `below` that are given as they are, or cast so that values that differ still do: their ids, and
    the first field that each is.
    """
    types = {f.id: f.type for f in below.fields}
    found: dict[str, str] = {}
    for f, e in zip(fields, expressions, strict=True):
        id_, _ = _distinguished(e, types)
        if id_ is not None:
            found.setdefault(id_, f.id)
    return found


def _distinguished(expression: exp.Expr, types: Mapping[str, SqlType]) -> tuple[str | None, SqlType]:
    """The column whose values an expression tells from each other, if there is one, and the expression's type."""
    bare = expression.unnest()
    if isinstance(bare, exp.Column) and bare.name in types:
        return bare.name, types[bare.name]
    if type(bare) is exp.Cast:
        id_, type_ = _distinguished(bare.this, types)
        to = sql_type_of(bare.to)
        if keeps_apart(type_, to):
            return id_, to
    return None, UNKNOWN
