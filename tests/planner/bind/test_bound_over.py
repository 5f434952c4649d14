"""OVER: the bound tree's batch SQL, and what DuckDB makes of the user's own SQL."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.duckdb_batch import empty_duckdb
from tests.planner.bind.bound import ROWS, TABLES, given, referee

OVERS = [
    "SELECT k, x, SUM(v) OVER () AS n FROM t",
    "SELECT k, x, SUM(v) OVER (PARTITION BY k ORDER BY x) AS n FROM t",
    "SELECT k, x, SUM(v) OVER (PARTITION BY k ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM t",
    "SELECT k, x, AVG(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW) AS n FROM t",
    "SELECT k, x, COUNT(*) OVER (PARTITION BY k) AS n, COUNT(v) OVER w AS m FROM t WINDOW w AS "
    "(PARTITION BY s ORDER BY x)",
    "SELECT k, x, COUNT(DISTINCT v) OVER (PARTITION BY k) AS n FROM t",
    "SELECT k, x, COUNT(*) FILTER (WHERE v > 1) OVER (PARTITION BY k) AS n FROM t",
    "SELECT x, LAG(v) OVER (ORDER BY x) AS a, LAG(v, 2) OVER (ORDER BY x) AS b, LAG(v, 1, 0) OVER "
    "(ORDER BY x DESC) AS c FROM t",
    "SELECT x, LEAD(v) OVER (PARTITION BY s ORDER BY x) - v AS d FROM t",
    "SELECT x, LAG(v) IGNORE NULLS OVER (ORDER BY x) AS a FROM t",
    "SELECT x, LAG(v, 2 IGNORE NULLS) OVER (ORDER BY x) AS a, FIRST_VALUE(v IGNORE NULLS) OVER "
    "(ORDER BY x) AS b FROM t",
    "SELECT x, FIRST_VALUE(v) OVER (PARTITION BY k ORDER BY x) AS a, LAST_VALUE(v) OVER (ORDER BY x "
    "ROWS BETWEEN UNBOUNDED "
    "PRECEDING AND UNBOUNDED FOLLOWING) AS b FROM t",
    "SELECT x, NTH_VALUE(v, 2) OVER (PARTITION BY k ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND "
    "UNBOUNDED FOLLOWING) AS a FROM t",
    "SELECT x, NTILE(3) OVER (ORDER BY x) AS a, PERCENT_RANK() OVER (ORDER BY v) AS b, CUME_DIST() "
    "OVER (ORDER BY v) AS c FROM t",
    "SELECT x, RANK() OVER (ORDER BY v NULLS FIRST) AS a, DENSE_RANK() OVER (ORDER BY v DESC NULLS LAST) AS b FROM t",
    "SELECT x, SUM(v) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a FROM t",
    "SELECT x, SUM(v) OVER (ORDER BY x ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS a FROM t",
    "SELECT x, MAX(v) OVER (w ROWS UNBOUNDED PRECEDING) AS a FROM t WINDOW w AS (PARTITION BY k ORDER BY x)",
    "SELECT k, x, v FROM t QUALIFY v > AVG(v) OVER (PARTITION BY k)",
    "SELECT k, x, SUM(v) OVER (PARTITION BY k % 2 ORDER BY x) AS n, k % 2 AS p FROM t",
    "SELECT k, SUM(v) AS n, SUM(SUM(v)) OVER (ORDER BY k NULLS FIRST) AS r FROM t GROUP BY k",
    "SELECT k, COUNT(*) AS n, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS p FROM t GROUP BY k",
    "SELECT k, MAX(x) AS m, LAG(MAX(x)) OVER (ORDER BY k NULLS FIRST) AS r FROM t GROUP BY k",
    "SELECT k, n FROM (SELECT k, x, SUM(v) OVER (PARTITION BY k ORDER BY x) AS n FROM t) AS o WHERE n > 5",
    "SELECT u.k, w, SUM(w) OVER (PARTITION BY u.k) AS n FROM t JOIN u ON t.k = u.k",
    "SELECT a, (SELECT MAX(r) FROM (SELECT SUM(w) OVER (PARTITION BY s) AS r FROM u WHERE u.k = "
    "q.a) AS z) AS m FROM q",
    "SELECT x, BOOL_OR(v > 4) OVER (ORDER BY x ROWS 2 PRECEDING) AS a, COUNT_IF(v > 2) OVER (ORDER BY x) AS b FROM t",
    "SELECT x, ARG_MAX(x, v) OVER (PARTITION BY k) AS a FROM t",
]


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_duckdb() as con:
        con.execute(TABLES)
        con.execute(ROWS)
        yield con


@pytest.mark.parametrize("query", OVERS)
def test_over_is_bound_to_what_it_means(duck: duckdb.DuckDBPyConnection, query: str) -> None:
    text = referee(query)
    theirs = query.replace("LAG(v) IGNORE NULLS", "LAG(v IGNORE NULLS)")
    assert given(duck, text) == given(duck, theirs), text
