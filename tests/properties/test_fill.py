"""FILL OVER: in any cut the lines between known values are those of DuckDB, and ties make no difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.properties.verbatim import ROWS, check_verbatim

QUERIES = [
    "SELECT k, FILL(v) OVER (ORDER BY x) AS f FROM t",
    "SELECT k, FILL(v ORDER BY ts) OVER (PARTITION BY k ORDER BY x DESC) AS f FROM t",
    "SELECT k, FILL(v ORDER BY ts) OVER (PARTITION BY k) AS f, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS n FROM t",
    "SELECT FILL(y ORDER BY ts) OVER (ORDER BY s, x ROWS 1 PRECEDING) AS f FROM (SELECT *, NULLIF(x, 1) AS y FROM t)",
    "SELECT x, FILL(r.f) OVER (ORDER BY ts) AS f FROM t QUALIFY f > 1",
    "SELECT x, FILL(IF(b, ts, NULL)) OVER w AS f, FILL(IF(b, d, NULL)) OVER w AS g FROM t WINDOW w AS (ORDER BY x DESC)",
    "SELECT k, FILL(NULLIF(n, 12)) OVER (ORDER BY k) AS f FROM (SELECT k, SUM(v) AS n FROM t GROUP BY k)",
    # No value, and one: there is no line.
    "SELECT x, FILL(CAST(NULL AS INT)) OVER (ORDER BY x) AS f, FILL(NULLIF(k, v)) OVER (PARTITION BY s ORDER BY x) AS g "
    "FROM t",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_duckdb(query: str, tmp_path: Path) -> None:
    check_verbatim(tmp_path, query)


def test_rows_with_equal_places(tmp_path: Path) -> None:
    """DuckDB takes them as they lie in its memory; here the whole order of the rows decides, which can be told to it."""
    check_verbatim(
        tmp_path,
        "SELECT x, FILL(v) OVER (ORDER BY k) AS f FROM t",
        duckdb_says="SELECT x, FILL(v ORDER BY k) OVER (ORDER BY k NULLS LAST, v NULLS FIRST, x NULLS FIRST "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS f FROM t",
        rows=[*ROWS, *({**row, "x": row["x"] + 10, "v": (row["v"] or 0) * 3} for row in ROWS)],
        cuts=(1, 4, None),
    )


def test_a_window_that_closes(tmp_path: Path) -> None:
    check_verbatim(
        tmp_path,
        "SELECT x, FILL(v ORDER BY x) OVER (PARTITION BY window_end ORDER BY ts) AS f "
        "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND))",
        duckdb_says="SELECT x, FILL(v) OVER (PARTITION BY time_bucket(INTERVAL 20 SECOND, ts) ORDER BY x) AS f FROM t",
    )
