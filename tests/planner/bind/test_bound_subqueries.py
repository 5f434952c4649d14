"""Sub-queries and VALUES: the bound tree's batch SQL, and what DuckDB makes of the user's own SQL."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.duckdb_batch import empty_duckdb
from tests.planner.bind.bound import ROWS, TABLES, given, referee

UNCORRELATED = [
    "SELECT k, (SELECT MAX(w) FROM u) AS m FROM t",
    "SELECT k, v - (SELECT MIN(b) FROM q) AS m FROM t WHERE v > (SELECT AVG(v) FROM t)",
    "SELECT k FROM t WHERE k IN (SELECT a FROM q)",
    "SELECT k FROM t WHERE k NOT IN (SELECT a FROM q)",
    "SELECT k FROM t WHERE k NOT IN (SELECT a FROM q WHERE a IS NOT NULL)",
    "SELECT k, v IN (SELECT b FROM q) AS c FROM t",
    "SELECT k, (k, v) IN (SELECT a, b FROM q) AS c FROM t",
    "SELECT k, v FROM t WHERE v > ALL (SELECT b FROM q WHERE b < 3)",
    "SELECT k, v FROM t WHERE v = ANY (SELECT b FROM q) OR k < SOME (SELECT a FROM q)",
    "SELECT k, v >= ALL (SELECT b FROM q) AS c FROM t",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM q WHERE a = 3) AND NOT EXISTS (SELECT 1 FROM q WHERE a = 9)",
    "SELECT k, CASE WHEN v IN (SELECT b FROM q) THEN (SELECT COUNT(*) FROM q) ELSE 0 END AS c FROM t",
    "SELECT k, SUM(v) AS n FROM t GROUP BY k HAVING SUM(v) > (SELECT AVG(w) FROM u)",
    "SELECT k, SUM(v) + (SELECT MAX(w) FROM u) AS n FROM t GROUP BY k",
    "SELECT k, SUM(v) AS n FROM t GROUP BY k HAVING SUM(v) IN (SELECT w FROM u)",
    "SELECT k, SUM(v + (SELECT MIN(w) FROM u)) AS n FROM t GROUP BY k",
    "SELECT COUNT(*) FILTER (WHERE v IN (SELECT b FROM q)) AS n FROM t",
    "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS g WHERE n = (SELECT MAX(c) FROM "
    "(SELECT COUNT(*) AS c FROM t GROUP BY k) AS h)",
    "SELECT (SELECT 1) + 1 AS x, (SELECT NULL) IS NULL AS y FROM q",
    "SELECT a FROM q WHERE (SELECT MAX(w) FROM u) IN (SELECT v FROM t)",
    "SELECT a FROM q WHERE a IN (SELECT k FROM t UNION ALL SELECT k FROM u)",
    "SELECT a FROM q WHERE a IN (SELECT k FROM t ORDER BY v, k LIMIT 3)",
    "SELECT a FROM q WHERE a = (SELECT k FROM t WHERE v = 5 AND k = 2)",
    "WITH c AS (SELECT k FROM t WHERE v > 2) SELECT w FROM u WHERE k IN (SELECT k FROM c) AND w IN (SELECT k FROM c)",
    "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, x) <= (SELECT MIN(b) + 1 FROM q)",
    "SELECT t.k FROM t JOIN u ON t.k = u.k WHERE t.v IN (SELECT b FROM q) AND u.w > (SELECT AVG(b) FROM q)",
]
CORRELATED = [
    "SELECT k, v, (SELECT MAX(w) FROM u WHERE u.k = t.k) AS m FROM t",
    "SELECT k, v, (SELECT COUNT(*) FROM u WHERE u.k = t.k AND u.w > t.v) AS n FROM t",
    "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "SELECT k, v FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.k = t.k AND w > v)",
    "SELECT k, v FROM t WHERE v IN (SELECT w FROM u WHERE u.s = t.s)",
    "SELECT k, v FROM t WHERE v NOT IN (SELECT w FROM u WHERE u.s = t.s)",
    "SELECT k, v FROM t AS o WHERE v = (SELECT MAX(v) FROM t AS i WHERE i.k = o.k)",
    "SELECT k, v FROM t AS o WHERE v >= ALL (SELECT v FROM t AS i WHERE i.k = o.k)",
    "SELECT a, (SELECT a + b) AS c FROM q",
    "SELECT a, (SELECT MAX(w) FROM u WHERE k = a) AS m, (SELECT MIN(w) FROM u WHERE k = a) AS n FROM q",
    "SELECT a FROM q WHERE EXISTS (SELECT 1 FROM u WHERE u.k = q.a AND EXISTS (SELECT 1 FROM t "
    "WHERE t.k = u.k AND t.v = q.b))",
    "SELECT a, (SELECT COUNT(*) FROM u WHERE u.k = a AND u.w > (SELECT AVG(v) FROM t WHERE t.k = q.a)) AS c FROM q",
    "SELECT a, (SELECT SUM(z) FROM (SELECT DISTINCT w AS z FROM u WHERE u.k = q.a) AS d) AS c FROM q",
    "SELECT a, (SELECT w FROM u WHERE u.k = q.a ORDER BY w LIMIT 1) AS c FROM q",
    "SELECT a, (SELECT COUNT(*) FROM (SELECT w FROM u WHERE u.k = a UNION ALL SELECT v FROM t WHERE "
    "t.k = b) AS e) AS c FROM q",
    "SELECT a, (SELECT MAX(n) FROM (SELECT s, COUNT(*) AS n FROM t WHERE t.k = q.a GROUP BY s) AS g) AS c FROM q",
    "SELECT a, (SELECT COUNT(*) FROM t JOIN u ON t.k = u.k AND t.v > q.b) AS c FROM q",
    "SELECT a, (SELECT MAX(rn) FROM (SELECT ROW_NUMBER() OVER (ORDER BY w, s) AS rn FROM u WHERE "
    "u.k = q.a) AS g) AS c FROM q",
    "SELECT k, SUM(v) AS n, (SELECT MAX(w) FROM u WHERE u.k = t.k) AS m FROM t GROUP BY k",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > 2)",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > (SELECT COUNT(*) FROM u WHERE u.k = t.k)",
    "SELECT s, SUM((SELECT MAX(w) FROM u WHERE u.k = t.k)) AS n FROM t GROUP BY s",
    "SELECT a, (WITH c AS (SELECT w FROM u WHERE u.k = a) SELECT COUNT(*) FROM c AS x, c AS y) AS n FROM q",
    "SELECT a, (SELECT SUM(e) FROM t CROSS JOIN UNNEST(l) AS z (e) WHERE t.k = q.a) AS n FROM q",
    "SELECT a, (SELECT SUM(x) FROM (VALUES (a), (b), (1)) AS r (x)) AS n FROM q",
    "SELECT o.k, (SELECT COUNT(*) FROM t WHERE t.v = o.r.f) AS n FROM t AS o",
    "SELECT a, (SELECT q.a FROM u WHERE u.k = q.a AND u.w = 4) AS n FROM q",
    "SELECT a, (SELECT COUNT(w) FROM u WHERE u.k = q.a GROUP BY q.a) AS n FROM q",
    "SELECT k, v, (SELECT COUNT(*) FROM u WHERE u.k = t.k) AS c FROM t QUALIFY ROW_NUMBER() OVER "
    "(PARTITION BY k ORDER BY v, x) = 1",
]
VALUES = [
    "SELECT a, b FROM (VALUES (1, 'x'), (2, NULL), (NULL, 'z')) AS v (a, b)",
    "SELECT * FROM (VALUES (1, 2.5), (2, 3)) AS v",
    "SELECT b, n FROM q JOIN (VALUES (1, 'one'), (2, 'two')) AS names (i, n) ON q.a = names.i",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT k FROM t WHERE k IN (VALUES (1), (2))",
    "SELECT 1 AS x, 'a' AS y",
    "SELECT x + 1 AS y FROM (SELECT 41 AS x) AS z",
]


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_duckdb() as con:
        con.execute(TABLES)
        con.execute(ROWS)
        yield con


@pytest.mark.parametrize("query", UNCORRELATED + CORRELATED + VALUES)
def test_subqueries_are_bound_to_what_they_mean(duck: duckdb.DuckDBPyConnection, query: str) -> None:
    text = referee(query)
    assert given(duck, text) == given(duck, query), text
