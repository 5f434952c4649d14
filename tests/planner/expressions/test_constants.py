"""Constants that must fail are told by `check`, at their place: DuckDB tries them before there is a row."""

from __future__ import annotations

import sys

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

TABLE = """CREATE TABLE t (s STRING, i INT, b BOOLEAN, d DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
"""
ROW = "CREATE TABLE t AS SELECT 'a,b' s, 5::INT i, true b, 1.5::DOUBLE d, TIMESTAMP '2024-01-01' ts"

#: Expressions, and what of them fails, from its beginning.
FAIL = [
    ("REGEXP_MATCHES(s, '(')", "REGEXP_MATCHES"),
    ("REGEXP_REPLACE(s, '(?=a)', 'x')", "REGEXP_REPLACE"),
    ("regexp_extract(UPPER(s), '[')", "regexp_extract"),
    ("REGEXP_EXTRACT_ALL(s, '(?<!a)b')", "REGEXP_EXTRACT_ALL"),
    ("REGEXP_FULL_MATCH(s, 'a{2000}')", "REGEXP_FULL_MATCH"),
    ("REGEXP_SPLIT_TO_ARRAY(s, '(')", "REGEXP_SPLIT_TO_ARRAY"),
    ("REGEXP_LIKE(s, '(')", "REGEXP_LIKE"),
    ("REGEXP_COUNT(s, '*')", "s, '*'"),
    ("REGEXP_SUBSTR(s, '(')", "s, '('"),
    ("s ~ '('", "s ~"),
    ("s !~ '('", "s !~"),
    ("s ~* '('", "s ~*"),
    ("s SIMILAR TO '('", "s SIMILAR"),
    ("s RLIKE '(' OR b", "s RLIKE"),
    ("'x' ~ '('", "'x' ~"),
    ("CASE WHEN b THEN s ~ '(' END", "s ~"),
    ("REGEXP_MATCHES(s, '(' || ')' || '(')", "REGEXP_MATCHES"),
    ("STRPTIME('abc', '%Y')", "STRPTIME"),
    ("i + CAST(300 AS TINYINT)", "CAST(300"),
    ("CAST(1e20 AS INT)", "CAST(1e20"),
    ("CAST(-1 AS UINTEGER)", "CAST(-1"),
    ("CAST('1.5x' AS DOUBLE)", "CAST('1.5x'"),
    ("CAST('zz' AS UUID)", "CAST('zz'"),
    ("CAST(12345.6 AS DECIMAL(3, 1))", "CAST(12345.6"),
    ("CAST('[1, x]' AS INT[])", "CAST('[1"),
    ("CAST('5 foo' AS INTERVAL)", "CAST('5 foo'"),
    ("ts > TIMESTAMP '2024-01-01 25:00:00'", "TIMESTAMP"),
    ("ts > '2024-01-01 10:00:00'::TIMESTAMP OR TIME '25:00:00' > TIME '01:00:00'", "TIME '25"),
    ("CASE WHEN b THEN 'x'::UUID END IS NULL", "'x'::UUID"),
    ("9223372036854775807 + 1", "9223372036854775807"),
    ("i * (2147483647 * 2)", "(2147483647 * 2)"),
    ("1 // 0", "1 // 0"),
    ("FROM_HEX('zz')", "FROM_HEX"),
    ("MAKE_DATE(2024, 13, 1)", "MAKE_DATE"),
    ("MAP([1, 1], [2, 3])", "MAP("),
    ("CHR(-1)", "CHR"),
    ("ts AT TIME ZONE 'Foo/Bar'", "ts AT"),
    ("TIMEZONE('Foo/Bar', ts)", "TIMEZONE"),
    ("DATE_DIFF('foo', ts, ts)", "DATE_DIFF"),
    ("TIME_BUCKET(INTERVAL '0' DAY, ts)", "TIME_BUCKET"),
    ("FORMAT('{} {}', s)", "FORMAT"),
    ("PRINTF('%d', s)", "PRINTF"),
    ("PRINTF('%q', i)", "PRINTF"),
]
#: Expressions that DuckDB computes, though something in them looks as if it failed.
HOLD = [
    "CASE WHEN i > 100 THEN 1 // 0 END",
    "CASE WHEN i > 100 THEN ERROR('too large') END",
    "COALESCE(i, 1 // 0)",
    "TRY(1 // 0)",
    "TRY_CAST('x' AS UUID)",
    "TRY_CAST(300 AS TINYINT)",
    "1 / 0",
    "REGEXP_MATCHES(s, s)",
    "REGEXP_REPLACE(s, '(a)', '\\1')",
    "s ~ '^a.*$'",
    "ts AT TIME ZONE 'Europe/Berlin'",
    "DATE_DIFF('day', ts, ts)",
    "FORMAT('{} {:d}', s, i)",
    "PRINTF('%.2f', d)",
    "CAST('  12 ' AS INT)",
    "CAST('2024-1-1' AS DATE)",
    "LIST_TRANSFORM([1, 2], lambda x: x + 1)",
    "SPLIT_PART(s, ',', 0)",
    "CAST('infinity' AS TIMESTAMP)",
    "TO_DAYS(2147483647)",  # more than a timedelta of Python holds
    "MAKE_DATE(-5000, 1, 1)",
]


def _mistakes(expression: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(DiagnosticError) as caught:
        plan_file(f"{TABLE}SELECT {expression} AS x FROM t", file="f.sql")
    return caught.value.diagnostics


@pytest.mark.parametrize(("expression", "place"), FAIL)
def test_what_must_fail_is_refused_where_it_stands(expression: str, place: str) -> None:
    [found] = _mistakes(expression)
    assert found.code in ("TYP007", "TYP012")
    assert found.span is not None
    assert f"SELECT {expression}"[found.span.column - 1 :].startswith(place)
    assert "Error" not in found.message
    assert "Use TRY(" not in found.message


@pytest.mark.parametrize("expression", [e for e, _ in FAIL])
def test_it_does_fail_in_duckdb(expression: str) -> None:
    with duckdb.connect() as duck:
        duck.execute(ROW)
        with pytest.raises(duckdb.Error):
            duck.execute(f"SELECT {expression} FROM t WHERE i = 5").fetchall()


@pytest.mark.parametrize("expression", HOLD)
def test_what_can_be_computed_is_planned(expression: str) -> None:
    plan_file(f"{TABLE}SELECT {expression} AS x FROM t")
    with duckdb.connect() as duck:
        duck.execute(ROW)
        duck.execute(f"CREATE TABLE found AS SELECT {expression} FROM t")


def test_all_of_them_are_told_at_once() -> None:
    found = _mistakes("s ~ '(' AS a, CAST('zz' AS UUID) AS b, s ~ ')' AS c, s ~ '('")
    assert [d.code for d in found] == ["TYP012", "TYP007", "TYP012"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i FROM t WHERE s ~ '('",
        "SELECT s, SUM(CAST(300 AS TINYINT)) FROM t GROUP BY s",
        "SELECT s, COUNT(*) FILTER (WHERE s ~ '(') FROM t GROUP BY s",
        "SELECT s, COUNT(*) FROM t GROUP BY s HAVING s ~ '('",
        "SELECT COUNT(*) FROM t GROUP BY s ~ '('",
        "SELECT i FROM t WHERE s IN (SELECT s FROM (SELECT s FROM t WHERE s ~ '('))",
        "WITH c AS (SELECT s ~ '(' AS x FROM t) SELECT * FROM c",
        "SELECT s FROM t ORDER BY s ~ '(' LIMIT 1",
    ],
)
def test_wherever_an_expression_stands(query: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        plan_file(f"{TABLE}{query}")
    assert {"TYP007", "TYP012", "SQL100"} & {d.code for d in caught.value.diagnostics}


def test_a_usual_file_needs_no_duckdb() -> None:
    """It takes a fifth of the time that `check` has."""
    planned = plan_file(
        f"{TABLE}SELECT s, COUNT(*), SUM(d * 0.908) + 60 * 60 * 24 FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '1' MINUTE)) WHERE ts > TIMESTAMP '2024-01-01 00:00:00' AND s LIKE 'a%' AND i IN (1, 2, -3) "
        "AND ts < CAST('2024-02-01' AS DATE) AND CAST(i AS BIGINT) + CAST(5 AS BIGINT) > 3 AND b = TRUE "
        "AND ARRAY[1, 2][1] = 1 GROUP BY s, window_start, window_end"
    )
    assert not planned.constants


def test_the_planner_loads_no_duckdb() -> None:
    import subprocess

    code = (
        "import sys; from sqlstream.planning import plan_file; "
        f"plan_file({TABLE + 'SELECT i FROM t WHERE i > 5'!r}); assert 'duckdb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
