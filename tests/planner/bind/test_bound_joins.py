"""Joins: the bound tree's batch SQL, and what DuckDB makes of the user's own SQL."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.duckdb_batch import empty_duckdb
from tests.planner.bind.bound import ROWS, TABLES, given, referee

JOINS = [
    "SELECT t.k, v, w FROM t JOIN u ON t.k = u.k",
    "SELECT t.k, v, w FROM t INNER JOIN u ON t.k = u.k AND w > v",
    "SELECT t.k, v, w FROM t LEFT JOIN u ON t.k = u.k AND v > 2",
    "SELECT t.k, v, w FROM t LEFT OUTER JOIN u ON t.k = u.k WHERE w IS NULL",
    "SELECT t.k, v, w FROM t RIGHT JOIN u ON t.k = u.k",
    "SELECT t.k, u.k AS uk, v, w FROM t FULL OUTER JOIN u ON t.k = u.k AND t.s = u.s",
    "SELECT v, w FROM t FULL JOIN u ON v < w",
    "SELECT v, w FROM t CROSS JOIN u",
    "SELECT v, w FROM t, u WHERE t.k = u.k",
    "SELECT v, w, a FROM t, u, q WHERE t.k = u.k AND a = w",
    "SELECT v, w, a FROM t, u RIGHT JOIN q ON a = w",
    "SELECT v, w, a FROM t JOIN u USING (k) CROSS JOIN q",
    "SELECT * FROM u LEFT SEMI JOIN q ON k = a",
    "SELECT * FROM u SEMI JOIN q ON k = a AND w > b",
    "SELECT * FROM u ANTI JOIN q ON k = a",
    "SELECT k, COUNT(*) AS n FROM u SEMI JOIN t USING (k) GROUP BY k",
    "SELECT k, v, w FROM t JOIN u USING (k)",
    "SELECT k, t.k AS tk, u.k AS uk, v, w FROM t LEFT JOIN u USING (k)",
    "SELECT k, t.k AS tk, u.k AS uk, v, w FROM t RIGHT JOIN u USING (k)",
    "SELECT k, t.k AS tk, u.k AS uk, v, w FROM t FULL JOIN u USING (k)",
    "SELECT k, s, v, w FROM t FULL JOIN u USING (k, s)",
    "SELECT k, s, v, w FROM t NATURAL JOIN u",
    "SELECT k, s, v, w FROM t NATURAL LEFT JOIN u",
    "SELECT k, s, v, w FROM t NATURAL FULL JOIN u",
    "SELECT k, w, a FROM t FULL JOIN u USING (k) FULL JOIN (SELECT a, a AS k FROM q) AS z USING (k)",
    "SELECT k, w, a FROM t RIGHT JOIN u USING (k) LEFT JOIN (SELECT a, a AS k FROM q) AS z USING (k)",
    "SELECT x.k, y.k AS l, x.v + y.v AS n FROM t AS x JOIN t AS y ON x.k = y.v",
    "SELECT x.k, y.w FROM (SELECT k, SUM(v) AS v FROM t GROUP BY k) AS x LEFT JOIN u AS y ON x.v = y.w",
    "SELECT x.a, x.b, y.c FROM q AS x JOIN (SELECT a, COUNT(*) AS c FROM q GROUP BY a) AS y ON x.a = y.a",
    "SELECT u.k, SUM(v) AS n, COUNT(*) AS c FROM t JOIN u ON t.k = u.k GROUP BY u.k HAVING COUNT(*) > 2",
    "SELECT w, n FROM (SELECT t.k AS tk, COUNT(*) AS n FROM t JOIN u ON t.k = u.k GROUP BY t.k) AS "
    "g JOIN u ON u.w = g.n",
    "SELECT t.v, u.w, q.b FROM t JOIN u ON t.k = u.k JOIN q ON q.a = u.k AND q.b < t.v",
    "SELECT t.v, u.w, q.b FROM t LEFT JOIN (u JOIN q ON q.a = u.k) ON t.k = u.k",
    "SELECT j.v, j.w FROM (t JOIN u USING (k)) AS j",
    "SELECT t.v, e FROM t JOIN u ON t.k = u.k CROSS JOIN UNNEST(l) AS z (e)",
    "SELECT t.v, e, a FROM t CROSS JOIN UNNEST(l) AS z (e) JOIN q ON q.a = e",
    "WITH c AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) SELECT a.k, b.n FROM c AS a JOIN c AS b ON a.n = b.n",
    "SELECT DISTINCT u.k FROM t JOIN u ON v = w",
    "SELECT t.r.f AS f, w FROM t JOIN u ON t.r.f = u.k",
    "SELECT w FROM t JOIN u ON t.k = u.k UNION ALL SELECT b FROM q",
    "SELECT t.k, CASE WHEN w > 3 THEN 'many' ELSE 'few' END AS c FROM t LEFT JOIN u ON t.k = u.k",
    "SELECT k AS n, upper(s) AS c FROM t JOIN u USING (k, s) WHERE k + w > 2",
    "SELECT k, COUNT(*) AS n FROM t FULL JOIN u USING (k) GROUP BY k",
    "SELECT t.v FROM t JOIN u ON TRUE WHERE w = 1",
]
STARS = [
    "SELECT * FROM u JOIN q ON k = a",
    "SELECT * FROM u JOIN (SELECT a AS k, b FROM q) AS z USING (k)",
    "SELECT * FROM u LEFT JOIN (SELECT a AS k, b FROM q) AS z USING (k)",
    "SELECT * FROM u RIGHT JOIN (SELECT a AS k, b FROM q) AS z USING (k)",
    "SELECT * FROM u FULL JOIN (SELECT b, a AS k FROM q) AS z USING (k)",
    "SELECT * FROM u NATURAL JOIN (SELECT b, a AS k FROM q) AS z",
    "SELECT u.*, z.b FROM u FULL JOIN (SELECT b, a AS k FROM q) AS z USING (k)",
    "SELECT z.* FROM u FULL JOIN (SELECT b, a AS k FROM q) AS z USING (k)",
    "SELECT * EXCLUDE (k) FROM u FULL JOIN (SELECT b, a AS k FROM q) AS z USING (k)",
    "SELECT * FROM u JOIN (SELECT b, a AS k FROM q) AS z USING (k) JOIN (SELECT k, v FROM t) AS y USING (k)",
]


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_duckdb() as con:
        con.execute(TABLES)
        con.execute(ROWS)
        yield con


@pytest.mark.parametrize("query", JOINS + STARS)
def test_joins_are_bound_to_what_they_mean(duck: duckdb.DuckDBPyConnection, query: str) -> None:
    text = referee(query)
    theirs = query.replace("LEFT SEMI", "SEMI")  # which DuckDB doesn't know
    assert given(duck, text) == given(duck, theirs), text
    names = [d[0] for d in duck.execute(text).description or []]
    assert names == [d[0] for d in duck.execute(theirs).description or []]
