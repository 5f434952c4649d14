"""Flink's streaming SQL with DuckDB's scalar expressions, as a sqlglot dialect."""

from __future__ import annotations

import logging

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel
from sqlglot.generators.duckdb import DuckDBGenerator

from sqlstream_planner.sql.dialect.errors import SqlSyntaxError
from sqlstream_planner.sql.dialect.intervals import IntervalValue, constant_value
from sqlstream_planner.sql.dialect.lexer import SqlStreamTokenizer, lex
from sqlstream_planner.sql.dialect.names import apart_from_columns, is_bare
from sqlstream_planner.sql.dialect.nodes import TUPLE, WindowTvf
from sqlstream_planner.sql.dialect.parser import SqlStreamParser
from sqlstream_planner.sql.dialect.positions import range_of

__all__ = [
    "TUPLE",
    "IntervalValue",
    "OwnSql",
    "SqlStream",
    "SqlSyntaxError",
    "WindowTvf",
    "constant_value",
    "data_type",
    "duckdb_sql",
    "function_name",
    "own_sql",
    "parse_expression",
    "range_of",
]


# What sqlglot would write to stderr of a query is reported as a diagnostic, or of no consequence.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())


class _Generator(DuckDBGenerator):
    """Writes EXTRACT as it stands (sqlglot translates the fields of other systems, and refuses instants), and all types."""

    def extract_sql(self, expression: exp.Extract) -> str:
        """EXTRACT(field FROM x)."""
        return f"EXTRACT({self.sql(expression, 'this')} FROM {self.sql(expression, 'expression')})"

    def windowtvf_sql(self, expression: WindowTvf) -> str:
        """TABLE(TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => …)): what messages and comparisons need of it."""
        data = expression.args["data"]
        read = self.sql(data) if isinstance(data, exp.Subquery) else f"TABLE {self.sql(data)}"
        by = self.expressions(expression, key="partition_by", flat=True)
        given = [f"DATA => {read}{f' PARTITION BY {by}' if by else ''}"]
        given.append(f"TIMECOL => DESCRIPTOR({self.sql(expression, 'timecol')})")
        given += [
            f"{role.upper()} => {self.sql(expression, role)}"
            for role in ("slide", "step", "size", "gap", "offset")
            if expression.args.get(role) is not None
        ]
        return f"TABLE({expression.kind}({', '.join(given)}))"

    def datatype_sql(self, expression: exp.DataType) -> str:
        """The type of nothing but NULLs is a name in double quotes, or it is read as the value."""
        return '"NULL"' if expression.this is exp.DType.NULL else super().datatype_sql(expression)


class _OwnGenerator(_Generator):
    """Writes what DuckDB runs: nothing in it depends on what a user calls relations, columns, fields and parameters."""

    def dot_sql(self, expression: exp.Dot) -> str:
        """("a")."b": the field b of the column a, whatever relations there are."""
        if is_bare(expression.this):
            return f"({self.sql(expression, 'this')}).{self.sql(expression, 'expression')}"
        return super().dot_sql(expression)

    def lambda_sql(self, expression: exp.Lambda, arrow_sep: str = "->", wrap: bool = True) -> str:
        """LAMBDA x : …, x being called otherwise than the columns in it."""
        return super().lambda_sql(apart_from_columns(expression), arrow_sep, wrap)


class OwnSql(DuckDB):
    """DuckDB's SQL that we write ourselves, in and out; positions in arrays are kept as they stand.

    sqlglot counts them from 0 between reading and writing, for which it works out the type of all that stands before
    each bracket.
    """

    INDEX_OFFSET = 0
    Generator = _OwnGenerator


class SqlStream(OwnSql):
    """The dialect: our tokens and grammar in, and out what a user would write, for messages and identities."""

    Generator = _Generator  # type: ignore[assignment]
    Tokenizer = SqlStreamTokenizer
    Parser = SqlStreamParser  # type: ignore[assignment]  # sqlglot's attribute is no variable for mypy


def duckdb_sql(node: exp.Expr) -> str:
    """`node` as a user would write it in DuckDB, on one line and without comments: for messages, never to be run.

    Raises sqlglot's UnsupportedError rather than write something that means something else.
    """
    return node.sql(dialect=SqlStream, comments=False, unsupported_level=ErrorLevel.RAISE)


def own_sql(node: exp.Expr) -> str:
    """`node` as SQL that DuckDB runs, in which every name means what it does in the plan.

    Raises sqlglot's UnsupportedError rather than write something that means something else.
    """
    return node.sql(dialect=OwnSql, comments=False, unsupported_level=ErrorLevel.RAISE)


def data_type(text: str) -> exp.DataType:
    """A type as DuckDB spells it. Raises SqlSyntaxError.

    >>> data_type("TUPLE(INTEGER, TUPLE(VARCHAR)[])").sql(dialect=SqlStream)
    'TUPLE(INT, TUPLE(TEXT)[])'
    """
    parser = SqlStreamParser(dialect=SqlStream())
    parser.start(lex(text).tokens, text)
    made = parser.data_type()
    for node in made.walk():
        node._meta = None  # it is no part of the user's text
    return made


def parse_expression(text: str) -> exp.Expr:
    """One scalar expression, for tools and tests. Raises SqlSyntaxError.

    >>> print(duckdb_sql(parse_expression("POSITION('b' IN `a`) / 2")))
    STRPOS("a", 'b') / 2
    """
    parser = SqlStreamParser(dialect=SqlStream())
    lexed = lex(text)
    if lexed.unclosed is not None:
        start = lexed.unclosed.start
        raise SqlSyntaxError(f"`{lexed.unclosed.mark}` is never closed", start, start + 1, code="SQL007")
    parser.start(lexed.tokens, text)
    found = parser.expression_here("an expression")
    if not parser.at_end:
        parser.fail_at_token(parser._curr, None)
    return found


def function_name(node: exp.Expr) -> str | None:
    """The upper-case name of the function that `node` calls, or None when it is no plain call."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if isinstance(node, (exp.FirstValue, exp.LastValue, exp.NthValue, exp.Lead, exp.Lag)):
        return node.sql_name()
    return None
