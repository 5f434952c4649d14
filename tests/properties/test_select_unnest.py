"""UNNEST in a SELECT list makes rows: whatever reads them, they are there, as many and the same as in DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.properties.verbatim import check_verbatim

QUERIES = [
    # Nobody reads the elements; their rows count all the same.
    "SELECT COUNT(*) AS n FROM (SELECT x, UNNEST([1, 2, 3]) FROM t)",
    "SELECT COUNT(*) AS n FROM (SELECT UNNEST(a) FROM t)",
    "SELECT x FROM (SELECT x, UNNEST(a) AS e FROM t)",
    "SELECT DISTINCT k FROM (SELECT k, UNNEST(a) AS e FROM t)",
    "SELECT k, COUNT(*) AS n FROM (SELECT k, UNNEST(a) AS e, UNNEST(c) AS f FROM t) GROUP BY k",
    # Several queries, conditions and aggregates read them.
    "SELECT e FROM (SELECT UNNEST(a) AS e FROM t) WHERE e > 1",
    "SELECT e + e AS f, e FROM (SELECT UNNEST(a) AS e, b FROM t) WHERE b",
    "SELECT SUM(e) AS n FROM (SELECT UNNEST(a) AS e FROM t)",
    "SELECT MIN(e) AS l, COUNT(*) AS n FROM (SELECT DISTINCT k, UNNEST(a) AS e FROM t) GROUP BY k",
    "WITH w AS (SELECT k, UNNEST(a) AS e FROM t) SELECT k FROM w UNION ALL SELECT e FROM w WHERE e > 1",
    "WITH w AS (SELECT k, UNNEST(a) AS e FROM t) SELECT k, COUNT(*) FROM w GROUP BY k UNION ALL SELECT 9, SUM(e) FROM w",
    "SELECT UNNEST(a) FROM t UNION SELECT UNNEST(c) FROM t",
    "SELECT UNNEST(a) FROM t EXCEPT ALL SELECT UNNEST(c) FROM t",
    "SELECT e FROM (SELECT UNNEST(u) AS e FROM (SELECT UNNEST(aa) AS u FROM t))",
    "SELECT DISTINCT UNNEST(a) AS e FROM t",
    # Inside expressions.
    "SELECT UNNEST(a) + 1 AS e FROM t",
    "SELECT UNNEST(a) AS e, UNNEST(a) + 1 AS f, UNNEST(A) - UNNEST(t.a) AS g FROM t",
    "SELECT CASE WHEN b THEN UNNEST(a) ELSE 0 END AS e, COALESCE(UNNEST(a), 7) AS f FROM t",
    "SELECT list_transform(UNNEST(aa), lambda y: y + 1) AS e, UNNEST(aa)[1] AS f FROM t",
    "SELECT UNNEST(CASE WHEN b THEN a ELSE c END) AS e, UNNEST(a) IN (1, 2) AS f FROM t",
    # Side by side, the shorter ones filled up.
    "SELECT UNNEST(a) AS e, UNNEST(c) AS f, k FROM t",
    "SELECT f FROM (SELECT UNNEST(a) AS e, UNNEST(c) AS f FROM t)",
    "SELECT UNNEST(a) AS e, UNNEST(rs).f AS g, UNNEST(rs) AS h, UNNEST(NULL::INT[]) AS i FROM t",
    "SELECT UNNEST(a) AS e, UNNEST(a[1:2]) AS f, UNNEST([s]) AS g, UNNEST([x, 1]) AS h, UNNEST([ts]) AS i FROM t",
    "SELECT UNNEST(map_keys(m)) AS key, UNNEST(map_values(m)) AS value FROM t",
    "SELECT UNNEST(generate_series(1, 3)) AS e, UNNEST([]) AS f FROM t",
    "SELECT DISTINCT UNNEST(a) AS e, UNNEST(c) AS f FROM t",
    # Nothing in the arrays.
    "SELECT UNNEST(NULL) AS e, k FROM t",
    "SELECT UNNEST([]) AS e, k FROM t",
    "SELECT UNNEST(CAST(NULL AS INT[])) AS e, k FROM t",
    # Beside groups, ranks, limits.
    "SELECT k, UNNEST(ARRAY_AGG(v ORDER BY v)) AS e FROM t GROUP BY k",
    "SELECT k, UNNEST(ARRAY_AGG(v ORDER BY v)) AS e, UNNEST([k, 8]) AS f, MIN(v) FROM t GROUP BY k HAVING COUNT(*) > 2",
    "SELECT UNNEST(a) AS e, COUNT(*) AS n FROM t GROUP BY e",
    "SELECT UNNEST(a) AS e, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT UNNEST(a) AS e, COUNT(*) AS n FROM t GROUP BY a",
    "SELECT UNNEST(a) + 1 AS e, COUNT(*) AS n, UNNEST(c) AS f FROM t GROUP BY UNNEST(a), 3",
    "SELECT UNNEST(a) AS e, k, COUNT(*) AS n FROM t GROUP BY ROLLUP (UNNEST(a), k)",
    "SELECT k, UNNEST(a) AS e FROM t ORDER BY e, k LIMIT 3",
    "SELECT UNNEST(a) AS e, k AS unnest, x FROM t ORDER BY unnest + 1, e * 2, x LIMIT 3",
    "SELECT k, UNNEST(a) AS e FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) = 1",
    "SELECT k, e, RANK() OVER (PARTITION BY k ORDER BY e, x) AS n FROM (SELECT k, x, UNNEST(a) AS e FROM t) QUALIFY n < 3",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_duckdb(query: str, tmp_path: Path) -> None:
    check_verbatim(tmp_path, query)


SPELLED = {
    "SELECT window_start, SUM(e) AS n FROM TABLE(TUMBLE((SELECT UNNEST(a) AS e, ts FROM t), DESCRIPTOR(ts), "
    "INTERVAL '10' SECOND)) GROUP BY window_start, window_end": "SELECT time_bucket(INTERVAL '10 seconds', ts) AS w, "
    "SUM(e) AS n FROM (SELECT UNNEST(a) AS e, ts FROM t) GROUP BY ALL",
    "SELECT window_start, UNNEST(a) AS e FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))": ""
    "SELECT time_bucket(INTERVAL '10 seconds', ts) AS w, UNNEST(a) AS e FROM t",
    "SELECT UNNEST(ARRAY[1, k]) AS e FROM t": "SELECT UNNEST([1, k]) AS e FROM t",
    # What Flink and Spark call otherwise is translated around an UNNEST and inside it.
    "SELECT INITCAP(UNNEST(SPLIT(s, ''))) AS e, COUNT(*) AS n FROM t GROUP BY 1": ""
    "SELECT UPPER(e) AS e, COUNT(*) AS n FROM (SELECT UNNEST(string_split(s, '')) AS e FROM t) GROUP BY 1",
    # DuckDB refuses this one of GROUP BY 1's, 2's and ALL's spellings.
    "SELECT UNNEST(a) AS e, SUM(k) AS n FROM t GROUP BY ALL": ""
    "SELECT UNNEST(a) AS e, SUM(k) AS n FROM t GROUP BY 1",
}


@pytest.mark.parametrize("query", SPELLED)
def test_rows_are_those_of_duckdb_in_its_own_spelling(query: str, tmp_path: Path) -> None:
    check_verbatim(tmp_path, query, duckdb_says=SPELLED[query])
