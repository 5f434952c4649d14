"""Forms in one spelling: what is the same in other words, what only looks so, and a search against DuckDB."""

from __future__ import annotations

import json
import random

import pytest
from sqlglot import exp

from sqlstream_planner.identity.canonical import Canonical
from sqlstream_planner.identity.canonical.conditions import conjuncts
from sqlstream_planner.identity.expression import expression_form
from sqlstream_planner.identity.form import Form, form, text
from sqlstream_planner.sql.as_written import without_marks
from sqlstream_planner.sql.dialect import duckdb_sql, parse_expression
from tests.examples import seeds
from tests.identity.expressions import TYPES, bound
from tests.identity.test_expression_search import answer
from tests.identity.test_expression_search import bound as bound_or_none
from tests.planner.expressions.typing_referee import SCOPE

COLUMNS = {
    name: form("column", form("source", "{}"), json.dumps({"name": name, "type": str(type_)}))
    for name, type_ in TYPES.items()
}


def spelled(sql: str | exp.Expr) -> Form:
    """The form of an expression over the referee's columns in one spelling."""
    node = bound(sql) if isinstance(sql, str) else sql
    return Canonical()(expression_form(node, COLUMNS, TYPES))


def passed(sql: str | exp.Expr) -> tuple[Form, ...]:
    """What a row must pass that an expression is the WHERE of."""
    return conjuncts([spelled(sql)], ())


SAME = """
i4 > 4 | i4 >= 5
i8 < -4 | i8 <= -5
NOT i4 > 4 | i4 < 5
i1 > 127 | i1 >= 128
i4 > 4 AND TRUE | i4 >= 5
i4 > 4 AND 1 = 1 | i4 > 4
i4 > 4 OR 1 = 2 | i4 > 4
i4 > 4 OR TRUE | TRUE
i4 > 4 AND 'a' = 'b' | FALSE
bo = TRUE | bo
TRUE = bo | bo
bo <> FALSE | bo
bo = FALSE | NOT bo
bo <> TRUE | NOT bo
(i4 > 4) = TRUE | i4 >= 5
bo AND TRUE | bo
NOT NOT bo | bo
i4 IN (1, 2) | i4 = 1 OR i4 = 2
i4 IN (1, 2) OR i4 = 3 | i4 IN (3, 2, 1)
i4 NOT IN (1, 2) | i4 <> 1 AND i4 <> 2
vc IN ('a', 'b') | vc = 'b' OR vc = 'a'
ts IN ('2024-01-01 00:00:00', '2024-01-02 00:00:00') | ts = '2024-01-01 00:00:00' OR ts = '2024-01-02 00:00:00'
i8 > 10 * 100 | i8 > 1000
i8 > 2 + 3 | i8 >= 6
db > 10 * 100 | db > 1000
dc > 10 * 100 | dc > 1000
i8 * (10 * 100) | i8 * 1000
i4 + (2 - 5) | i4 + (-3)
ts > '2024-01-01 00:00:00' | ts > TIMESTAMP '2024-01-01 00:00:00'
ts > '2024-01-01' | ts > TIMESTAMP '2024-01-01 00:00:00'
ts > '2024-01-01T10:30' | ts > TIMESTAMP '2024-01-01 10:30:00.000'
ts > DATE '2024-01-01' | ts > TIMESTAMP '2024-01-01 00:00:00'
da > '2024-01-01' | da > DATE '2024-01-01'
i4 = '5' | i4 = 5
YEAR(ts) | EXTRACT(YEAR FROM ts)
YEAR(da) | DATE_PART('year', da)
MONTH(ts) = 5 | EXTRACT(MONTH FROM ts) = 5
DAYOFMONTH(da) | EXTRACT(DAY FROM da)
DATE_PART('HOUR', ts) | HOUR(ts)
YEAR(ts) > 2023 | YEAR(ts) >= 2024
MOD(i4, 2) | i4 % 2
MOD(i8, 3) = 1 | i8 % 3 = 1
LEFT(vc, 2) | SUBSTR(vc, 1, 2)
LEFT(vc, 2) | SUBSTRING(vc FROM 1 FOR 2)
DATE(ts) | CAST(ts AS DATE)
DATE(da) | da
CAST(i4 AS INT) | i4
CAST(vc AS STRING) | vc
COALESCE(i4, 0) | CASE WHEN i4 IS NOT NULL THEN i4 ELSE 0 END
NVL(vc, '') | CASE WHEN vc IS NULL THEN '' ELSE vc END
COALESCE(i1, 1000) | CASE WHEN i1 IS NULL THEN 1000 ELSE i1 END
CASE WHEN bo = TRUE THEN 1 ELSE 2 END | CASE WHEN bo THEN 1 ELSE 2 END
CASE WHEN bo IS TRUE THEN 1 ELSE 2 END | CASE WHEN bo THEN 1 ELSE 2 END
CASE WHEN i4 > 4 THEN 1 ELSE 2 END | IF(i4 >= 5, 1, 2)
(st).a | (st).A
ISNULL(i4) | i4 IS NULL
i4 IS NOT DISTINCT FROM 5 AND i4 > 4 | i4 >= 5 AND 5 IS NOT DISTINCT FROM i4
dc > 1.50 | dc > 1.5
db > .50 | db > 0.5
db < -1.250 | db < -1.25
db = 0.0 | db = 0
i8 > 4.0 | i8 >= 5
i1 > 1e1 | i1 >= 11
db > 1.5e3 | db > 1500
CAST(i4 AS BIGINT) > 4 | i4 >= 5
CAST(i1 AS INT) = 300 | i1 = 300
vc LIKE 'a' | vc = 'a'
vc NOT LIKE 'a' | vc <> 'a'
vc LIKE 'a%' | STARTS_WITH(vc, 'a')
PREFIX(vc, 'a') | vc LIKE 'a%'
vc LIKE '%a' | SUFFIX(vc, 'a')
vc LIKE '%a%' | CONTAINS(vc, 'a')
NOT STARTS_WITH(vc, 'a') | vc NOT LIKE 'a%'
NULLIF(i4, 0) | CASE WHEN i4 = 0 THEN NULL ELSE i4 END
NULLIF(vc, '') | CASE WHEN '' = vc THEN NULL ELSE vc END
NULLIF(i1, 1000) | CASE WHEN i1 = 1000 THEN NULL ELSE i1 END
i4 + 0 | i4
0 + i8 | i8
i4 - 0 | i4
1 * i4 | i4
"""

OTHER = """
i4 > 4 | i4 >= 4
i4 > 4 | i4 > 5
db > 4 | db >= 5
dc > 4 | dc >= 5
fl < 4 | fl <= 3
vc > '4' | vc >= '5'
i4 > 4.5 | i4 >= 5
bo = TRUE | bo IS TRUE
bo IS NOT FALSE | bo
bo = NULL | bo
i4 = TRUE | i4
NOT bo | bo IS NOT TRUE
bo IN (TRUE, FALSE) | TRUE
i4 = i4 | TRUE
NULL = 1 | FALSE
i4 > NULL | FALSE
i4 IN (1, 2) | i4 = 1 AND i4 = 2
i4 IN (1, 2) | i4 IN (1, 2, 3)
i4 IN (1, NULL) | i4 = 1
i4 NOT IN (1, NULL) | i4 <> 1
vc IN (1, 2) | vc = 1 OR vc = 2
vc IN ('a', 'b') | vc = 'a' OR vc = 'B'
i8 * 10 * 100 | i8 * 1000
i1 + (2 + 3) | i1 + 5
i2 * (10 * 100) | i2 * 1000
db + (1 + 2) | (db + 1) + 2
(i4 + 1) + 2 | i4 + 3
10 / 4 | 2
ts > '2024-01-01' | ts > '2024-01-02'
ts > '2024-01-01' | ts >= '2024-01-01'
ts > '2024-01-01 00:00:00' | vc > '2024-01-01 00:00:00'
ts > '2024-01-01 10:00:00' | ts > '2024-01-01 10:00:00.5'
tz > '2024-01-01 00:00:00' | ts > '2024-01-01 00:00:00'
CAST(ts AS TIMESTAMP(0)) | ts
CAST(ts AS DATE) | ts
TRY_CAST(vc AS INT) | CAST(vc AS INT)
CAST(i4 AS BIGINT) | i4
CAST(5 AS INT) + i1 | 5 + i1
i4 = '5.0' | i4 = 5
vc = '5' | vc = 5
YEAR(ts) | MONTH(ts)
YEAR(ts) | YEAR(da)
YEAR(tz) | EXTRACT(YEAR FROM tz)
EXTRACT(SECOND FROM ts) | EXTRACT(MINUTE FROM ts)
DATE_PART('epoch', ts) | DATE_PART('second', ts)
MOD(i4, 2) | MOD(2, i4)
MOD(i4, 2) | i4 / 2
LEFT(vc, 2) | SUBSTR(vc, 1, 3)
LEFT(vc, 2) | SUBSTR(vc, 2, 2)
LEFT(vc, 2) | SUBSTR(vc, 0, 2)
LEFT(vc, -1) | SUBSTR(vc, 1, -1)
RIGHT(vc, 2) | LEFT(vc, 2)
DATE(vc) | TO_DATE(vc)
COALESCE(i4, 0) | CASE WHEN i4 IS NULL THEN i4 ELSE 0 END
COALESCE(i4, 0) | CASE WHEN i8 IS NOT NULL THEN i4 ELSE 0 END
COALESCE(i4, 0) | COALESCE(i4, 1)
NULLIF(i4, 0) | COALESCE(i4, 0)
CASE WHEN NOT bo THEN 1 ELSE 2 END | CASE WHEN bo THEN 2 ELSE 1 END
CASE WHEN bo IS NOT FALSE THEN 1 ELSE 2 END | CASE WHEN bo THEN 1 ELSE 2 END
CASE WHEN bo THEN 1 END | CASE WHEN bo THEN 1 ELSE 0 END
(st).a | (st).b
i1 + 0 | i1
hu + 0 | hu
db + 0 | db
dc * 1 | dc
0 - i4 | i4
i4 * 0 | i4
-i4 < -4 | i4 > 4
dc > 1.505 | dc > 1.5
db38 > 1.50000000000 | db38 > 1.5
db38 > 1.500000000000 | db38 > 1.5
fl > 0.10 | fl > 0.1
dc > 1e3 | dc > 1000
hu > 1e3 | hu > 1000
i8 > 9007199254740993e0 | i8 > 9007199254740993
i4 > 1.5e0 | i4 > 1
CAST(i8 AS INT) > 4 | i8 > 4
CAST(i4 AS DOUBLE) > 4 | i4 > 4
vc LIKE 'a_' | vc = 'a_'
vc LIKE '' | vc LIKE '%'
vc LIKE 'a\\b' | vc = 'a\\b'
vc LIKE 'a%b' | STARTS_WITH(vc, 'a')
vc LIKE 'a_%' | STARTS_WITH(vc, 'a_')
vc LIKE 'a!%' ESCAPE '!' | vc = 'a%'
vc ILIKE 'a' | vc = 'a'
vc LIKE 'a%' | CONTAINS(vc, 'a')
CONTAINS(lv, 'a') | CONTAINS(vc, 'a')
NULLIF(i4, 0) | NULLIF(0, i4)
NULLIF(i4, 0) | CASE WHEN i4 = 0 THEN i4 ELSE NULL END
i4 IS NOT DISTINCT FROM 5 | i4 = 5
-(-i4) | i4
i4 IS NOT NULL | TRUE
"""

PASSED_ALIKE = """
bo IS TRUE | bo
i4 > 4 AND i4 IS NOT NULL | i4 > 4
i4 IS NOT NULL AND i4 IN (1, 2) | i4 IN (1, 2)
vc LIKE 'a%' AND vc IS NOT NULL | vc LIKE 'a%'
NOT vc LIKE 'a%' AND vc IS NOT NULL | NOT vc LIKE 'a%'
db * i4 > 4 AND i4 IS NOT NULL | db * i4 > 4
UPPER(vc) = 'A' AND vc IS NOT NULL | UPPER(vc) = 'A'
(i4 = 1 OR i4 = 2) AND i4 IS NOT NULL | i4 IN (1, 2)
i4 = i8 AND i4 IS NOT NULL AND i8 IS NOT NULL | i4 = i8
bo AND bo IS NOT NULL | bo
(bo IS TRUE) OR i4 > 4 | bo OR i4 >= 5
i4 BETWEEN 1 AND 3 AND i4 IS NOT NULL | i4 BETWEEN 1 AND 3
TRUE AND i4 > 4 AND 2 > 1 | i4 > 4
vc IS NOT DISTINCT FROM 'a' | vc = 'a'
i4 IS NOT DISTINCT FROM 4 OR bo | i4 = 4 OR bo
STARTS_WITH(vc, 'a') AND vc IS NOT NULL | vc LIKE 'a%'
"""

PASSED_OTHERWISE = """
i4 > 4 AND i8 IS NOT NULL | i4 > 4
(i4 = 1 OR i8 = 2) AND i4 IS NOT NULL | i4 = 1 OR i8 = 2
COALESCE(i4, 5) > 4 AND i4 IS NOT NULL | COALESCE(i4, 5) > 4
i4 IS DISTINCT FROM 4 AND i4 IS NOT NULL | i4 IS DISTINCT FROM 4
(bo IS NOT TRUE) AND bo IS NOT NULL | bo IS NOT TRUE
(i4 IS NULL OR i4 > 4) AND i4 IS NOT NULL | i4 IS NULL OR i4 > 4
CASE WHEN i4 > 4 THEN TRUE ELSE TRUE END AND i4 IS NOT NULL | CASE WHEN i4 > 4 THEN TRUE ELSE TRUE END
NOT (i4 BETWEEN 1 AND i8) AND i8 IS NOT NULL | NOT (i4 BETWEEN 1 AND i8)
NOT (bo IS TRUE) | NOT bo
NOT (i4 > 4 AND i8 > 4) AND i4 IS NOT NULL | NOT (i4 > 4 AND i8 > 4)
i4 IS NOT NULL | TRUE
i4 IS NOT DISTINCT FROM i8 | i4 = i8
NOT (i4 IS NOT DISTINCT FROM 4) | NOT i4 = 4
i4 IS DISTINCT FROM 4 | i4 <> 4
CONCAT(vc, 'a') = 'a' AND vc IS NOT NULL | CONCAT(vc, 'a') = 'a'
"""


def pairs(table: str) -> list[tuple[str, str]]:
    found = []
    for line in table.strip().splitlines():
        one, _, other = line.partition(" | ")
        found.append((one, other))
    return found


@pytest.mark.parametrize(("one", "other"), pairs(SAME))
def test_what_means_the_same_has_one_spelling(one: str, other: str) -> None:
    assert text(spelled(one)) == text(spelled(other))
    first, second = answer(bound(one)), answer(bound(other))
    if first[0] and second[0]:  # a number that no type has room for may fail in one of the two
        assert first[1] == second[1]


@pytest.mark.parametrize(("one", "other"), pairs(OTHER))
def test_what_only_looks_alike_has_two(one: str, other: str) -> None:
    assert spelled(one) != spelled(other)


@pytest.mark.parametrize(("one", "other"), pairs(PASSED_ALIKE))
def test_conditions_that_the_same_rows_pass(one: str, other: str) -> None:
    assert passed(one) == passed(other)
    assert answer(bound(f"({one}) IS TRUE")) == answer(bound(f"({other}) IS TRUE"))


@pytest.mark.parametrize(("one", "other"), pairs(PASSED_OTHERWISE))
def test_conditions_that_other_rows_pass(one: str, other: str) -> None:
    assert passed(one) != passed(other)


# ----------------------------------------------------------------------------------------------------- the search

INTEGERS = ("i1", "i2", "i4", "i8", "hu", "u1", "i4 + 1", "len(vc)", "YEAR(ts)")
OTHERS = ("db", "fl", "dc", "vc", "ts", "da", "tz", "bo", "(st).a", "COALESCE(i4, 2)", "CAST(i4 AS BIGINT)")
LITERALS = (
    "0",
    "1",
    "2",
    "5",
    "-1",
    "1.0",
    "1.5",
    "1.50",
    "-1.0",
    "1e0",
    "2e0",
    "'1'",
    "'a'",
    "'2020-02-29'",
    "TRUE",
    "FALSE",
    "NULL",
    "1 + 1",
)
PATTERNS = ("", "a", "a%", "%a", "%a%", "%", "a_", "A%")
CALENDAR = ("YEAR", "MONTH", "QUARTER", "WEEK", "DAY")
COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def drawn(chosen: random.Random, depth: int = 2) -> str:
    """A condition; those about the same columns and literals meet often."""
    if depth and chosen.random() < 0.5:
        one, other = drawn(chosen, depth - 1), drawn(chosen, depth - 1)
        return chosen.choice(
            [f"({one} AND {other})", f"({one} OR {other})", f"(NOT {one})", f"({one} IS TRUE)"]
        )
    value = chosen.choice(INTEGERS[:4] if chosen.random() < 0.6 else (*INTEGERS, *OTHERS))
    literals = [chosen.choice(LITERALS) for _ in range(2)]
    return chosen.choice(
        [
            f"({value} {chosen.choice(COMPARED)} {literals[0]})",
            f"({value} {chosen.choice(COMPARED)} {literals[0]})",
            f"({literals[0]} {chosen.choice(COMPARED)} {value})",
            f"({value} IN ({literals[0]}, {literals[1]}))",
            f"({value} NOT IN ({literals[0]}, {literals[1]}))",
            f"({value} = {literals[0]} OR {value} = {literals[1]})",
            f"({value} <> {literals[0]} AND {value} <> {literals[1]})",
            f"({value} BETWEEN {literals[0]} AND {literals[1]})",
            f"({value} IS NOT NULL)",
            f"(CAST({value} AS BIGINT) {chosen.choice(COMPARED)} {literals[0]})",
            chosen.choice(
                [
                    f"(vc {chosen.choice(['LIKE', 'NOT LIKE', '='])} '{chosen.choice(PATTERNS)}')",
                    f"{chosen.choice(['STARTS_WITH', 'SUFFIX', 'CONTAINS'])}(vc, '{chosen.choice(PATTERNS)}')",
                ]
            ),
            f"(bo {chosen.choice(COMPARED)} {literals[0]})",
            chosen.choice(["bo", "TRUE", "FALSE", "(1 = 1)", "(1 > 2)", "(bo IS NULL)"]),
        ]
    )


def drawn_value(chosen: random.Random) -> str:
    """A value that may be written in other words."""
    column, literal = chosen.choice(("i1", "i4", "i8", "db", "vc")), chosen.choice(LITERALS)
    test = drawn(chosen, 0)
    return chosen.choice(
        [
            f"COALESCE({column}, {literal})",
            f"CASE WHEN {column} IS NULL THEN {literal} ELSE {column} END",
            f"CASE WHEN {column} IS NOT NULL THEN {column} ELSE {literal} END",
            f"CASE WHEN {test} THEN {column} ELSE {literal} END",
            f"{column} {chosen.choice('+-*%')} (1 + 1)",
            f"{column} {chosen.choice('+-*%')} 2",
            f"MOD({column}, {literal})",
            f"{column} {chosen.choice('+-*')} {chosen.choice('01')}",
            f"NULLIF({column}, {literal})",
            f"CASE WHEN {column} = {literal} THEN NULL ELSE {column} END",
            f"{column} % {literal}",
            f"LEFT(vc, {literal})",
            f"SUBSTR(vc, 1, {literal})",
            f"CAST({column} AS {chosen.choice(['INT', 'BIGINT', 'STRING', 'DOUBLE'])})",
            f"{chosen.choice(CALENDAR)}({chosen.choice(['ts', 'da', 'tz'])})",
            f"EXTRACT({chosen.choice(CALENDAR)} FROM {chosen.choice(['ts', 'da', 'tz'])})",
            f"DATE({chosen.choice(['ts', 'da'])})",
            "CAST(ts AS DATE)",
            "CAST(da AS DATE)",
            column,
        ]
    )


def assert_the_same(
    found: dict[tuple[Form, ...], exp.Expr], key: tuple[Form, ...], node: exp.Expr, *, passed_by: bool
) -> int:
    """What has one spelling gives what the first gave that had it: the same values, or TRUE for the same rows."""
    first = found.setdefault(key, node)
    ours, theirs = (without_marks(n) for n in (node, first))
    if duckdb_sql(ours) == duckdb_sql(theirs):
        return 0
    if passed_by:
        ours, theirs = (exp.Is(this=exp.paren(n.copy()), expression=exp.true()) for n in (ours, theirs))
    one, other = answer(ours), answer(theirs)
    if one[0] and other[0]:
        assert one[1] == other[1], f"{duckdb_sql(ours)} and {duckdb_sql(theirs)}"
    return 1


@pytest.mark.search
@pytest.mark.parametrize("seed", seeds(3))
def test_what_has_one_spelling_gives_the_same_rows(seed: int) -> None:
    chosen = random.Random(seed)
    values: dict[tuple[Form, ...], exp.Expr] = {}
    conditions: dict[tuple[Form, ...], exp.Expr] = {}
    met = 0
    for _ in range(700):
        is_condition = chosen.random() < 0.6
        node = bound_or_none(drawn(chosen) if is_condition else drawn_value(chosen))
        if node is None:
            continue
        met += assert_the_same(values, (spelled(node),), node, passed_by=False)
        if is_condition:
            met += assert_the_same(conditions, passed(node), node, passed_by=True)
    assert met > 30, "no two were ever the same in other words"


def test_an_expression_keeps_its_spelling() -> None:
    chosen = random.Random(5)
    for _ in range(100):
        node = bound_or_none(drawn(chosen))
        if node is not None:
            once = spelled(node)
            assert Canonical()(once) == once


def test_columns_of_the_referee_have_types() -> None:
    assert {str(t) for t, _ in SCOPE.values()} == {str(t) for t in TYPES.values()}
    assert spelled(parse_expression("i4 > 4")) == spelled("i4 >= 5")
