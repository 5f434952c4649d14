"""ORDER BY inside aggregates, with directions of several kinds: in windows that are emitted once as DuckDB has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.properties.verbatim import ROWS, check_verbatim

CALLS = [
    "LIST(x ORDER BY k, v DESC, x)",
    "LIST(x ORDER BY k DESC, v, x DESC)",
    "LIST(v ORDER BY s DESC NULLS FIRST, k NULLS FIRST, x DESC)",
    "STRING_AGG(s, '-' ORDER BY b, k DESC NULLS FIRST, x) FILTER (WHERE x < 2)",
    "FIRST(v ORDER BY k DESC, x)",
    "LAST(v ORDER BY k, x DESC)",
    "ANY_VALUE(s ORDER BY k DESC, x)",
    "ARG_MAX(x, k ORDER BY b DESC, x)",
    "ARG_MIN(x, v ORDER BY k, x DESC)",
    "MODE(k ORDER BY x DESC)",
    "MODE(s ORDER BY x)",
    "MODE(v ORDER BY b, x DESC) FILTER (WHERE x < 2)",
    "MODE(s ORDER BY LENGTH(s) DESC, x)",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("call", CALLS)
def test_a_window(call: str, tmp_path: Path) -> None:
    check_verbatim(
        tmp_path,
        f"SELECT window_start, {call} AS z FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '30' SECOND)) "
        "GROUP BY window_start, window_end",
        duckdb_says=f"SELECT time_bucket(INTERVAL 30 SECOND, ts) AS w, {call} AS z FROM t GROUP BY w",
        rows=[*ROWS, *({**row, "x": row["x"] + 0.1} for row in ROWS)],
        cuts=(3, None),
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("call", [c for c in CALLS if c.startswith("MODE")])
def test_rows_that_may_go(call: str, tmp_path: Path) -> None:
    """Over groups, which are taken back, and over append-only rows."""
    groups = "(SELECT k, s, x, MAX(v) AS v, BOOL_OR(b) AS b FROM t GROUP BY k, s, x)"
    check_verbatim(
        tmp_path,
        f"SELECT k % 2 AS j, {call} AS z FROM {groups} GROUP BY k % 2 UNION ALL SELECT 3, {call} FROM t",
    )
