"""Queries whose spelling was once read past: run as a stream they give what DuckDB gives for the very same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.properties.verbatim import check_verbatim

QUERIES = [
    # ORDER BY inside aggregates.
    "SELECT MODE(v ORDER BY v DESC) AS m, MODE(v ORDER BY v) AS n FROM t",
    "SELECT v, MODE(k ORDER BY k DESC) AS m, MODE(k ORDER BY k DESC) FILTER (WHERE b) AS n FROM t GROUP BY v",
    "SELECT MODE() WITHIN GROUP (ORDER BY v DESC) AS m, MODE() WITHIN GROUP (ORDER BY k) AS n FROM t",
    "SELECT MODE(DISTINCT k ORDER BY k DESC) AS m, MODE(DISTINCT k ORDER BY k) AS n FROM t",
    "SELECT PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY v DESC) AS m FROM t",
    "SELECT PERCENTILE_DISC([0.25, 0.5]) WITHIN GROUP (ORDER BY v DESC) AS m FROM t",
    "SELECT PERCENTILE_DISC([0, 0.5]) WITHIN GROUP (ORDER BY v) AS m FROM t",
    "SELECT PERCENTILE_CONT([0, 0.3, 1]) WITHIN GROUP (ORDER BY v DESC) AS m FROM t",
    "SELECT ANY_VALUE(v ORDER BY x DESC) AS m, ANY_VALUE(DISTINCT v ORDER BY v DESC) AS n FROM t",
    "SELECT STRING_AGG(s, '-' ORDER BY x DESC) AS m, GROUP_CONCAT(s ORDER BY x) AS n FROM t",
    "SELECT ARRAY_AGG(v ORDER BY x DESC) AS m, LIST(v ORDER BY v NULLS FIRST, x DESC) AS n FROM t",
    "SELECT STRING_AGG(DISTINCT s, '-' ORDER BY s DESC) AS m, ARRAY_AGG(DISTINCT v ORDER BY v DESC) AS n FROM t",
    "SELECT SUM(v ORDER BY x), MAX(v ORDER BY x DESC), COUNT(v ORDER BY x), MEDIAN(s ORDER BY s DESC) FROM t",
    # GROUPING
    "SELECT k, b, GROUPING() AS g, GROUPING_ID() AS h, COUNT(*) AS n FROM t GROUP BY CUBE (k, b)",
    "SELECT GROUPING() AS g, GROUPING(b) AS h, GROUPING(b, k) AS i, COUNT(*) AS n FROM t GROUP BY ROLLUP (k, b)",
    "SELECT GROUPING() AS g, COUNT(*) AS n FROM t GROUP BY k",
    # What stands behind a star.
    "SELECT * EXCLUDE (k, x) FROM t",
    "SELECT t.* EXCLUDE (t.k, M), k FROM t",
    "SELECT * EXCLUDE k REPLACE (v * 2 AS V, s || '!' AS s) RENAME (x AS xx) FROM t",
    "SELECT * REPLACE (UNNEST(a) AS a) FROM t",
    "SELECT * EXCLUDE (s, d, x, b, a, c, aa, m, r, rs, ts) FROM t",
]


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_duckdb(query: str, tmp_path: Path) -> None:
    check_verbatim(tmp_path, query)


SPELLED = {
    "SELECT LISTAGG(s, '-') WITHIN GROUP (ORDER BY x DESC) AS m FROM t": ""
    "SELECT STRING_AGG(s, '-' ORDER BY x DESC) AS m FROM t",
    "SELECT window_start, MODE(k ORDER BY k DESC) AS m, MODE(k) AS l, MODE(DISTINCT v ORDER BY v DESC) AS n FROM "
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end": ""
    "SELECT time_bucket(INTERVAL '20 seconds', ts) AS w, MODE(k ORDER BY k DESC) AS m, MODE(k ORDER BY k) AS l, "
    "MODE(DISTINCT v ORDER BY v DESC) AS n FROM t GROUP BY 1",
    # Slices of overlapping windows are shared: what is first among them is not what came first.
    "SELECT window_end, MODE(k) AS m FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' "
    "SECOND)) GROUP BY window_start, window_end": ""
    "SELECT time_bucket(INTERVAL '10 seconds', ts) + INTERVAL (i * 10) SECOND AS e, MODE(k ORDER BY k) AS m "
    "FROM t, range(1, 3) AS w(i) GROUP BY 1",
}


@pytest.mark.parametrize("query", SPELLED)
def test_rows_are_those_of_duckdb_in_its_own_spelling(query: str, tmp_path: Path) -> None:
    check_verbatim(tmp_path, query, duckdb_says=SPELLED[query])
