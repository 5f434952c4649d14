"""DuckDB as the referee of types: a table with a column of each type, and its verdict on an expression."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import duckdb
import sqlglot
from sqlglot import exp

from sqlstream_operators.plan.types import NULL, UNKNOWN, SqlType
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.sql.datatypes import sql_type_of
from sqlstream_planner.sql.dialect import SqlStream, duckdb_sql
from sqlstream_planner.sql.dialect.errors import SqlSyntaxError
from sqlstream_planner.sql.problems import TypeProblem

COLUMNS = {
    "bo": "BOOLEAN",
    "i1": "TINYINT",
    "i2": "SMALLINT",
    "i4": "INTEGER",
    "i8": "BIGINT",
    "hu": "HUGEINT",
    "u1": "UTINYINT",
    "u2": "USMALLINT",
    "u4": "UINTEGER",
    "u8": "UBIGINT",
    "fl": "FLOAT",
    "db": "DOUBLE",
    "dc": "DECIMAL(10,2)",
    "db38": "DECIMAL(38,10)",
    "vc": "VARCHAR",
    "bl": "BLOB",
    "da": "DATE",
    "ti": "TIME",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMP WITH TIME ZONE",
    "iv": "INTERVAL",
    "uu": "UUID",
    "js": "JSON",
    "li": "INTEGER[]",
    "lv": "VARCHAR[]",
    "ld": "DOUBLE[]",
    "lb": "BOOLEAN[]",
    "lf": "FLOAT[]",
    "l8": "BIGINT[]",
    "ll": "INTEGER[][]",
    "mp": "MAP(VARCHAR, INTEGER)",
    "st": "STRUCT(a INTEGER, b VARCHAR)",
}


def parse(sql: str) -> exp.Expr:
    """`sql` in our dialect."""
    return sqlglot.parse_one(sql, dialect=SqlStream)


@cache
def type_named(text: str) -> SqlType:
    """A type that DuckDB prints; UNKNOWN if no column of ours can have it."""
    if text == '"NULL"':
        return NULL
    if re.search(r"TUPLE(?!\()", text):
        return UNKNOWN  # a row without values
    try:
        return sql_type_of(parse(f"CAST(x AS {text.replace(chr(34) + 'NULL' + chr(34), 'NULL')})").args["to"])
    except (TypeProblem, SqlSyntaxError):  # TUPLE without types, say
        return UNKNOWN


SCOPE = {name: (type_named(text), True) for name, text in COLUMNS.items()}


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """A DuckDB with the table `t` of one column a type, one row of values."""
    opened = duckdb.connect()
    opened.execute("SET TimeZone = 'UTC'")
    opened.execute(f"CREATE TABLE t({', '.join(f'{n} {t}' for n, t in COLUMNS.items())})")
    return opened


@cache
def verdict(sql: str) -> SqlType | str:
    """DuckDB's type of an expression over `t`, or its error."""
    try:
        return type_named(str(connection().sql(f"SELECT {sql} AS x FROM t").types[0]))
    except duckdb.Error as error:
        return str(error).split("\n")[0]


def duckdb_type(sql: str) -> SqlType | None:
    """DuckDB's type of an expression over `t`; None if it does not bind."""
    found = verdict(sql)
    return found if isinstance(found, SqlType) else None


def our_type(node: exp.Expr) -> SqlType | TypeProblem:
    """Our type of an expression over `t`, or the problem."""
    try:
        return infer(node, SCOPE, aggregates=True, windows=True).type
    except TypeProblem as problem:
        return problem


class Judged(NamedTuple):
    """Our type of an expression (or the problem), DuckDB's (or its error), and how they differ, if they do."""

    ours: SqlType | TypeProblem
    theirs: SqlType | str
    difference: str | None


def agrees(sql: str) -> str | None:
    """None if we type `sql` as DuckDB does (or leave it UNKNOWN), else how we differ."""
    return judged(sql).difference


def judged(sql: str) -> Judged:
    """What both say of `sql`, which DuckDB is given as we would write it."""
    node = parse(sql)
    ours, theirs = our_type(node), verdict(duckdb_sql(node))
    return Judged(ours, theirs, _difference(sql, ours, theirs))


def _difference(sql: str, ours: SqlType | TypeProblem, theirs: SqlType | str) -> str | None:
    if isinstance(ours, TypeProblem):
        # DuckDB folds a call of a NULL literal to an untyped NULL: `power(trim(NULL), 1)` binds there.
        fine = isinstance(theirs, str) or refused_on_purpose(ours) or "NULL" in sql
        return None if fine else f"{sql}: DuckDB {theirs}, we refuse: {ours}"
    if isinstance(theirs, str):
        return (
            None
            if ours == UNKNOWN or ABOUT_VALUES.search(theirs)
            else f"{sql}: we say {ours}, DuckDB {theirs}"
        )
    return None if same(ours, theirs) else f"{sql}: DuckDB {theirs}, we say {ours}"


def same(ours: SqlType, theirs: SqlType) -> bool:
    """Equal types; field names without regard to case; UNKNOWN is never wrong."""
    if UNKNOWN in (ours, theirs):
        return True
    return str(ours).lower() == str(theirs).lower()


# Not about types: DuckDB looks at the values of options, paths, formats and quantiles while it binds.
ABOUT_VALUES = re.compile(
    r"must be a constant|Could not convert|constant expression|can only take constant|[Rr]egex option"
    r"|[Nn]ull sorting|specifier|format|[Qq]uantile|QUANTILE|JSON|json|[Pp]ath|group|separator"
    r"|unrecognized value|not recognized|ORDER BY expression|number of points|constant map"
    r"|exactly one argument|constant pattern|subtraction|Slice with steps|Duplicate named|not supported here"
)

# Where DuckDB binds what can only fail (or what we do not want to guess), we refuse on purpose.
_ON_PURPOSE = re.compile(
    r"can't be compared with"  # `text = number` casts each text at run time; `date = 1` is never true
    r"|can't be cast to"  # `CAST(1 AS DATE)` binds and fails at the first row
    r"|needs a BOOLEAN"  # `NOT date` alike
    r"|which it is compared with|is no position in|makes of it"  # `number = 'abc'` and `list['abc']` alike
)


def refused_on_purpose(problem: TypeProblem) -> bool:
    """Whether DuckDB's acceptance is one of the listed exceptions."""
    return bool(_ON_PURPOSE.search(problem.message))
