"""Expressions of a plan, whose columns are named by their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import sqlglot
from sqlglot import exp

from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical.columns import Fields
from sqlstream_planner.sql.as_written import without_marks
from sqlstream_planner.sql.dialect import OwnSql, own_sql


def columns_of(expression: exp.Expr) -> set[str]:
    """The ids of the columns that an expression reads.

    >>> from sqlglot import parse_one
    >>> sorted(columns_of(parse_one("a + f(b)")))
    ['a', 'b']
    """
    if isinstance(expression, exp.Column):
        return {expression.name}
    return {c.name for c in expression.find_all(exp.Column)}


def reading_only(fields: Fields, expressions: Iterable[exp.Expr], known: Set[str]) -> frozenset[str]:
    """The ids of the fields whose expressions read `known` columns only."""
    return frozenset(f.id for f, e in zip(fields, expressions, strict=True) if columns_of(e) <= known)


def substitute(expression: exp.Expr, replacements: Mapping[str, exp.Expr]) -> exp.Expr:
    """`expression` with columns replaced by expressions, by id: a copy, or itself if nothing is replaced.

    >>> from sqlglot import parse_one
    >>> substitute(parse_one("a + b"), {"a": parse_one("x * 2")}).sql()
    '(x * 2) + b'
    """

    def swap(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in replacements:
            new = replacements[node.name].copy()
            return (
                exp.paren(new, copy=False) if isinstance(new, exp.Binary | exp.Unary | exp.Connector) else new
            )
        return node

    if isinstance(expression, exp.Column):
        return swap(expression)
    if not columns_of(expression) & replacements.keys():
        return expression
    return expression.copy().transform(swap, copy=False)


def raw(text: str) -> exp.Expr:
    """Our own DuckDB SQL as an expression."""
    return sqlglot.parse_one(text, read=OwnSql)


def sql(expression: exp.Expr) -> str:
    """An expression as DuckDB SQL, in which no name depends on what users call their relations.

    Raises InternalError for a column that is written behind a relation's name, and sqlglot's UnsupportedError rather
    than write something that means something else.
    """
    if (
        isinstance(expression, exp.Column)
        and len(expression.parts) == 1
        and expression.this.args.get("quoted")
    ):
        return quote_identifier(expression.name)
    plain = without_marks(expression)
    behind = next((c for c in plain.find_all(exp.Column) if len(c.parts) > 1), None)
    if behind is not None:
        raise InternalError(f"a column of a plan has one name: {behind.sql()}")
    return own_sql(plain)


def order_term(term: str, *, descending: bool, nulls_first: bool) -> str:
    """A term of an ORDER BY as DuckDB SQL.

    >>> order_term("x", descending=True, nulls_first=False)
    'x DESC NULLS LAST'
    """
    return f"{term} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def column(id_: str) -> exp.Column:
    """A reference to a column by id."""
    return exp.column(exp.to_identifier(id_, quoted=True))


def conjuncts(predicate: exp.Expr) -> list[exp.Expr]:
    """The operands of the top-level ANDs of a predicate.

    >>> from sqlglot import parse_one
    >>> [e.sql() for e in conjuncts(parse_one("a AND (b AND c) AND (d OR e)"))]
    ['a', 'b', 'c', '(d OR e)']
    """
    found, stack = [], [predicate]
    while stack:
        top = stack.pop()
        bare = top.unnest()
        if isinstance(bare, exp.And):
            stack += [bare.expression, bare.this]
        else:
            found.append(top)
    return found
