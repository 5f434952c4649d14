"""Casts are DuckDB's: implicit ones and common types by asking it, explicit ones by running them."""

from __future__ import annotations

import itertools

import duckdb
import pytest

from sqlstream_operators.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INTEGER,
    JSON,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARCHAR,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)
from sqlstream_planner.expressions.casts import (
    Assignment,
    TypedExpr,
    assignable,
    can_cast_explicitly,
    common_type,
    implicit_cast,
)
from tests.planner.test_infer import FULL_ROW
from tests.planner.typing_referee import COLUMNS, SCOPE, connection, duckdb_type, same

PAIRS = list(itertools.product(COLUMNS, COLUMNS))


@pytest.fixture(scope="module")
def row() -> duckdb.DuckDBPyConnection:
    opened = duckdb.connect()
    opened.execute("SET TimeZone = 'UTC'")
    opened.execute("CREATE TABLE t AS " + FULL_ROW)
    return opened


def test_implicit_casts_are_those_of_duckdb(row: duckdb.DuckDBPyConnection) -> None:
    checks = ", ".join(f"can_cast_implicitly({a}, NULL::{COLUMNS[b]})" for a, b in PAIRS)
    (answers,) = row.sql(f"SELECT {checks} FROM t").fetchall()
    wrong = [
        (COLUMNS[a], COLUMNS[b], theirs)
        for (a, b), theirs in zip(PAIRS, answers, strict=True)
        if (implicit_cast(SCOPE[a][0], SCOPE[b][0]) is not None) != theirs
    ]
    assert wrong == []


def test_common_types_are_those_of_coalesce() -> None:
    wrong = []
    for a, b in PAIRS:
        ours, theirs = common_type([SCOPE[a][0], SCOPE[b][0]]), duckdb_type(f"coalesce({a}, {b})")
        if (ours is None) != (theirs is None) or (ours and theirs and not same(ours, theirs)):
            wrong.append((COLUMNS[a], COLUMNS[b], ours, theirs))
    assert wrong == []


@pytest.mark.parametrize("literal", ["1", "300", "-1", "3000000000", "'a'", "NULL", "1.5"])
def test_literals_adapt_as_in_coalesce(literal: str) -> None:
    from tests.planner.typing_referee import agrees

    for column in COLUMNS:
        assert agrees(f"coalesce({column}, {literal})") is None


def test_explicit_casts_that_can_run_are_those_of_duckdb(row: duckdb.DuckDBPyConnection) -> None:
    wrong = []
    for a, b in PAIRS:
        try:
            row.sql(f"SELECT CAST({a} AS {COLUMNS[b]}) FROM t").fetchall()
            possible = True
        except duckdb.Error as error:
            possible = "Unimplemented type for cast" not in str(error)
        if possible != can_cast_explicitly(SCOPE[a][0], SCOPE[b][0]):
            wrong.append((COLUMNS[a], COLUMNS[b], possible))
    assert wrong == []


def test_the_cheapest_implicit_cast_decides_an_overload() -> None:
    assert connection().sql("SELECT abs(NULL) AS x").types[0] == "BIGINT"
    costs = {str(t): implicit_cast(INTEGER, t) for t in (BIGINT, DOUBLE, decimal(18, 3), HUGEINT)}
    assert costs == {"BIGINT": 101, "DOUBLE": 104, "DECIMAL(18,3)": 105, "HUGEINT": 103}


def test_a_literal_costs_less_than_its_type() -> None:
    one = TypedExpr(INTEGER, False, 1)
    assert implicit_cast(one, BIGINT) == 11
    assert implicit_cast(TypedExpr(INTEGER, False, 300), SqlType(SqlType(BOOLEAN.kind).kind)) is None


E_, W, C, I = Assignment.EXACT, Assignment.WIDENING, Assignment.CHECKED, Assignment.IMPOSSIBLE  # noqa: E741


@pytest.mark.parametrize(
    ("source", "column", "expected"),
    [
        (INTEGER, INTEGER, E_),
        (INTEGER, BIGINT, W),
        (INTEGER, DOUBLE, W),
        (FLOAT, DOUBLE, W),
        (HUGEINT, BIGINT, C),
        (BIGINT, INTEGER, C),
        (DOUBLE, FLOAT, C),
        (DOUBLE, BIGINT, C),
        (decimal(38, 2), decimal(12, 2), C),
        (decimal(10, 2), decimal(12, 4), W),
        (decimal(10, 2), decimal(12, 1), C),
        (INTEGER, decimal(10, 0), W),
        (INTEGER, decimal(10, 2), C),
        (decimal(10, 2), DOUBLE, W),
        (TIMESTAMP, TIMESTAMPTZ, W),
        (TIMESTAMPTZ, TIMESTAMP, W),
        (DATE, TIMESTAMP, W),
        (TIMESTAMP, DATE, I),
        (VARCHAR, BIGINT, I),
        (BIGINT, VARCHAR, I),
        (BOOLEAN, INTEGER, I),
        (JSON, VARCHAR, W),
        (VARCHAR, JSON, W),
        (INTEGER, JSON, I),
        (UUID, VARCHAR, W),
        (NULL, VARCHAR, W),
        (UNKNOWN, VARCHAR, E_),
        (array(INTEGER), array(BIGINT), W),
        (array(VARCHAR), array(BIGINT), I),
        (map_of(VARCHAR, HUGEINT), map_of(VARCHAR, BIGINT), C),
        (struct(("a", INTEGER)), struct(("A", BIGINT)), W),
        (struct(("a", INTEGER)), struct(("b", INTEGER)), I),
    ],
)
def test_what_insert_into_does(source: SqlType, column: SqlType, expected: Assignment) -> None:
    assert assignable(source, column) is expected
