"""Flink's streaming SQL with DuckDB's scalar expressions, as a sqlglot dialect."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel

from sqlstream_planner.dialect.intervals import IntervalValue, constant_value
from sqlstream_planner.dialect.lexer import SqlStreamTokenizer
from sqlstream_planner.dialect.nodes import WindowTvf
from sqlstream_planner.dialect.parser import SqlStreamParser, SqlSyntaxError
from sqlstream_planner.dialect.positions import range_of

__all__ = [
    "IntervalValue",
    "SqlStream",
    "SqlSyntaxError",
    "WindowTvf",
    "constant_value",
    "duckdb_sql",
    "function_name",
    "range_of",
]


class SqlStream(DuckDB):
    """The dialect: our tokens and grammar in, DuckDB's SQL out."""

    Tokenizer = SqlStreamTokenizer
    Parser = SqlStreamParser  # type: ignore[assignment]  # sqlglot's attribute is no variable for mypy


def duckdb_sql(node: exp.Expr) -> str:
    """`node` as DuckDB SQL on one line, without comments.

    Raises sqlglot's UnsupportedError rather than write something that means something else.
    """
    return node.sql(dialect=SqlStream, comments=False, unsupported_level=ErrorLevel.RAISE)


def function_name(node: exp.Expr) -> str | None:
    """The upper-case name of the function that `node` calls, or None when it is no plain call."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if isinstance(node, (exp.FirstValue, exp.LastValue, exp.NthValue, exp.Lead, exp.Lag)):
        return node.sql_name()
    return None
