"""Common types and casts are DuckDB's, also where one question stands for many; INSERT INTO's rules are ours."""

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
    quote_literal,
    struct,
)
from sqlstream_planner.expressions.casts import (
    Assignment,
    assignable,
    can_cast,
    common_type,
    fails,
    stand_in,
)
from tests.planner.expressions.test_infer import FULL_ROW
from tests.planner.expressions.typing_referee import COLUMNS, SCOPE, agrees, connection, duckdb_type, same

PAIRS = list(itertools.product(COLUMNS, COLUMNS))


@pytest.fixture(scope="module")
def row() -> duckdb.DuckDBPyConnection:
    opened = duckdb.connect()
    opened.execute("SET TimeZone = 'UTC'")
    opened.execute("CREATE TABLE t AS " + FULL_ROW)
    return opened


def test_common_types_are_those_of_coalesce() -> None:
    wrong = []
    for a, b in PAIRS:
        ours, theirs = common_type([SCOPE[a][0], SCOPE[b][0]]), duckdb_type(f"coalesce({a}, {b})")
        if (ours is None) != (theirs is None) or (ours and theirs and not same(ours, theirs)):
            wrong.append((COLUMNS[a], COLUMNS[b], ours, theirs))
    assert wrong == []


@pytest.mark.parametrize("literal", ["1", "300", "-1", "3000000000", "'a'", "NULL", "1.5"])
def test_literals_adapt_as_in_coalesce(literal: str) -> None:
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
        if possible != can_cast(SCOPE[a][0], SCOPE[b][0]):
            wrong.append((COLUMNS[a], COLUMNS[b], possible))
    assert wrong == []


#: Around every type's bounds and every number of digits, as far as DuckDB mixes them with all types.
INTEGERS = sorted(
    {side * (2**n + d) for n in range(127) for d in (-1, 0, 1) for side in (-1, 1)}
    | {10**n for n in range(39)}
)


def test_the_integer_that_stands_for_another_is_treated_alike() -> None:
    beside = (
        "1",
        "NULL::TINYINT",
        "NULL::USMALLINT",
        "NULL::UBIGINT",
        "NULL::DECIMAL(4,1)",
        "NULL::HUGEINT",
        "NULL::FLOAT",
    )
    pairs = [(n, stand_in(n)) for n in INTEGERS if stand_in(n) != n]
    assert len({s for _, s in pairs}) > 50
    wrong = []
    for written in (
        "{}",
        *(f"coalesce({b}, {{}})" for b in beside),
        *(f"coalesce({{}}, {b})" for b in beside),
    ):
        both = [", ".join(written.format(pair[i]) for pair in pairs) for i in (0, 1)]
        theirs = [connection().sql(f"SELECT {some}").types for some in both]
        wrong += [(written, n) for (n, _), one, other in zip(pairs, *theirs, strict=True) if one != other]
    assert wrong == []


@pytest.mark.parametrize(
    "written",
    [
        "coalesce({x}, 1, 200)",
        "coalesce(1, 200, {x})",
        "coalesce(1, 2, 3, 3000000000, 5, {x}, 7)",
        "coalesce({x}, {x}, {x}, 1.5, 1)",
        "[1, 2, {x}]",
        "[{x}, 1, 300, 1]",
        "[1, NULL, {x}, 1.5]",
        "[7, 7, 7, {x}]",
        "MAP {{'a': 1, 'b': 2, 'c': {x}}}",
        "MAP {{1: 'a', 200: 'b', {x}: 'c'}}",
        "CASE WHEN b THEN {x} WHEN NOT b THEN 1 ELSE 40000 END",
    ],
)
def test_what_stands_in_a_question_once_or_twice_may_stand_there_often(written: str) -> None:
    for x in COLUMNS:
        assert agrees(written.format(x=x)) is None


def test_a_text_is_a_value_if_duckdb_can_read_it() -> None:
    for type_ in (INTEGER, DOUBLE, DATE, TIMESTAMP, TIMESTAMPTZ, BOOLEAN, UUID, JSON, array(INTEGER)):
        for text in ("1", "x", "2023-02-29", "2024-02-29", "inf", "true", "[1]", "it's", ""):
            try:
                connection().sql(f"SELECT CAST({quote_literal(text)} AS {type_})").fetchall()
                wrong = False
            except duckdb.Error:
                wrong = True
            assert fails(text, type_) is wrong


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
