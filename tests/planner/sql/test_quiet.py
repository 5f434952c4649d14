"""What is odd about a query is told in diagnostics: nothing of sqlglot's reaches stderr, no error of its ends a command."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sqlglot import exp
from sqlglot.errors import UnsupportedError

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.logical.expressions import sql

ODD = """
ALTER TABLE t ADD x INT
GRANT SELECT ON t TO x
PRAGMA foo
CALL foo()
ANALYZE t
KILL 3
COMMENT ON TABLE t IS 'x'
MERGE INTO t USING t ON a = 1 WHEN MATCHED THEN DELETE
SELECT CAST(a AS GEOMETRY) FROM t
SELECT CAST(k AS MULTISET<INT>) FROM t
SELECT CAST(k AS STRING FORMAT 'y') FROM t
SELECT * FROM t TABLESAMPLE BERNOULLI (10)
SELECT k -> '$[' FROM t
SELECT k -> '$..x', k ->> '$[?(@.a)]' FROM t
SELECT JSON_VALUE(k, '$.[') FROM t
SELECT LAST_VALUE(a) IGNORE NULLS FROM t
SELECT SUM(a) KEEP (DENSE_RANK LAST ORDER BY k) FROM t
SELECT k LIKE ANY ('a', 'b') FROM t
SELECT * FROM t PIVOT (SUM(a) FOR k IN ('x'))
SELECT a FROM t LIMIT 10 PERCENT
SELECT TOP 3 a FROM t
SELECT a FROM t ASOF JOIN t u ON t.a >= u.a
SELECT x'zz' FROM t
CREATE INDEX i ON t (a)
CREATE FUNCTION f AS 'x'
"""
TABLE = "CREATE TABLE t (k STRING, a BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');\n"
PROGRAM = f"""
import logging, sys
from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
for query in sys.stdin.read().strip().splitlines():
    try:
        plan_file({TABLE!r} + query)
    except DiagnosticError as error:
        print(query, error)
logging.getLogger("sqlglot").warning("not of your pipeline")
"""


def test_odd_queries_write_nothing_to_stderr() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=ODD, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) > len(ODD.splitlines()) // 2


@pytest.mark.parametrize(
    ("query", "written", "column"),
    [
        ("SELECT x'zz' FROM t", "x'zz'", 8),
        ("SELECT 'ax', 'x', X'0g' FROM t", "X'0g'", 19),
        ("SELECT x'00', x'_' FROM t", "x'_'", 15),
    ],
)
def test_bytes_that_are_no_hex_digits_are_told_by_their_place(query: str, written: str, column: int) -> None:
    with pytest.raises(DiagnosticError) as caught:
        plan_file(TABLE + query)
    [problem] = caught.value.diagnostics
    assert (problem.code, problem.message) == ("SQL001", f"can't read `{written}`")
    assert problem.span is not None
    assert (problem.span.line, problem.span.column, problem.span.length) == (2, column, len(written))


def test_what_duckdb_has_no_words_for_is_not_written() -> None:
    with pytest.raises(UnsupportedError):
        sql(exp.IgnoreNulls(this=exp.column("a")))
